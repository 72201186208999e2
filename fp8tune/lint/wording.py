"""Fill values into messages, and write values as in TOML."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from fp8tune.conditions import ExpressionError
from fp8tune.conditions.expression import Compiled, Expression
from fp8tune.formats import ABOUT_SCRIPT
from fp8tune.words import shown

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_FORMAT = r"(?s)^(.*):(,?(?:\.\d)?[fdg%]?)$"


class Template:
    """A compiled message: fixed text, and expressions with their formats."""

    def __init__(
        self, parts: list[str | tuple[Compiled, str]], names: tuple[str, ...]
    ) -> None:
        self.parts = parts
        self.names = names

    def fill(self, scope: Any) -> str:
        """Return the text for one config; raises ``Unknown`` if a value is unknown."""
        return "".join(
            part if isinstance(part, str) else _formatted(part[0](scope), part[1])
            for part in self.parts
        )


def compile_template(text: str, compile_one: Callable[[str], Expression]) -> Template:
    """Compile ``text`` with ``{expression}`` or ``{expression:.1f}`` in it.

    Raises ``ExpressionError`` with an offset into ``text``.
    """
    parts: list[str | tuple[Compiled, str]] = []
    names: dict[str, None] = {}
    end = 0
    for match in _PLACEHOLDER.finditer(text):
        parts.append(text[end : match.start()])
        end = match.end()
        if match[0] in ("{{", "}}"):
            parts.append(match[0][0])
        elif match[1] is None:
            raise ExpressionError("a lone brace; write {{ or }}", match.start())
        else:
            compiled, spec = _placeholder(match, compile_one)
            names.update(dict.fromkeys(compiled.names))
            parts.append((compiled.evaluate, spec))
    parts.append(text[end:])
    return Template(parts, tuple(names))


def _placeholder(
    match: re.Match[str], compile_one: Callable[[str], Expression]
) -> tuple[Expression, str]:
    form = re.match(_FORMAT, match[1])
    source, spec = (form[1], form[2]) if form else (match[1], "")
    try:
        return compile_one(source), spec
    except ExpressionError as error:
        error.offset += match.start(1)
        raise


def _formatted(value: Any, spec: str) -> str:
    if spec and isinstance(value, (int, float)):
        try:
            return format(value, spec)
        except (ValueError, OverflowError):
            return shown(value)
    return shown(value)


_SETTING = r"`([\w.\[\]-]+) = ([^`]*)`"
_KEY = (
    r"`([a-z]\w*)(?: = ([^`]*))?`"
    r"|(?<![\w./=`{-])([a-z]\w*_\w+)(?:='?(\w+)'?)?(?![\w/=`]|\.\w)"
)
"""A key or setting in backticks, or a key with ``_`` and perhaps a value without."""


def as_written(text: str, form: str, is_key: Callable[[str], bool]) -> str:
    """Return a text with the keys and settings in it as a file of a format has them.

    Rules write ``key = value``, as TOML does: ``key: value`` and null in YAML and JSON,
    and flags in a script.
    """
    if form == "bash":
        return re.sub(_KEY, lambda found: _as_flag(found, is_key), text)
    return re.sub(_SETTING, _with_colons, text) if form in ("yaml", "json") else text


def _as_flag(found: re.Match[str], is_key: Callable[[str], bool]) -> str:
    name, value = found[1] or found[3], found[2] or found[4]
    if name in ABOUT_SCRIPT or not is_key(name):
        return found[0]
    flag = f"--{name.replace('_', '-')}"
    if value in ("false", "unset"):
        return f"no `{flag}`"
    if value and value != "true":
        flag = f"{flag} {value.strip(chr(34))}"
    return f"`{flag}`" if found[1] else flag


def _with_colons(setting: re.Match[str]) -> str:
    value = re.sub(r"(?<!\")\bunset\b", "null", setting[2].replace(" = ", ": "))
    return f"`{setting[1]}: {value}`"


_PART_KEY = r"`((\w+)\.([\w.-]+))([^`]*)`"


def with_parts(
    text: str, titles: Mapping[str, str], is_key: Callable[[str], bool]
) -> str:
    """Return a text with the keys of other files of a job as these files have them.

    ``titles`` are the files by the sections of their keys: `training.lr` is `lr` in the
    training arguments.
    """

    def named(found: re.Match[str]) -> str:
        title = titles.get(found[2])
        if not title or not is_key(found[1]):
            return found[0]
        return f"`{found[3]}{found[4]}` in {title}"

    return re.sub(_PART_KEY, named, text)
