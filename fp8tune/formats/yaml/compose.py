"""YAML text to PyYAML's nodes, with bounds; nothing is constructed.

A text is composed by PyYAML's C parser. Its Python parser, which is ten times slower,
decides where both may differ: trainers call ``yaml.safe_load``, which uses that one.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from fp8tune.formats.document import (
    InvalidText,
    Lines,
    Position,
    Unreadable,
    text_of,
)

MAX_DEPTH = 100
"""Deepest nesting that is read. The C parser of PyYAML before 6.0.4 ends the process at
some 100,000; that of 6.0.4 refuses 1,000 (``_PARSER_TOO_DEEP``)."""

_PARSER_TOO_DEEP = "exceeded maximum nesting depth"

MAX_OPENINGS = 1000
"""So many brackets cannot nest deeply enough to harm: no need to count levels first."""

MAX_SLOW = 1 << 16
"""Longest text that the Python parser reads too [characters]; 0.5 s."""

MAX_REASON = 200
"""Longest reason [characters]; it may quote the text."""

_BOM = "\ufeff"
_ODD = ("\t", _BOM)
"""What the C parser allows in more places, or reads as something else."""
_MANY_ENTRIES = re.compile(r"(?:[-?:][ \t]++){16}")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class InvalidYaml(InvalidText):
    """The bytes are not YAML, or ``yaml.safe_load`` refuses them."""

    format = "yaml"


def compose(data: bytes) -> tuple[str, bool, Any]:
    """Return the text without its byte-order mark, whether it had one, and the node.

    Raises ``InvalidYaml`` and ``Unreadable``.
    """
    text, bom = text_of(data, InvalidYaml)
    _check_depth(text)
    try:
        if len(text) <= MAX_SLOW and any(sign in text for sign in _ODD):
            return text, bom, _composed(text, yaml.SafeLoader)
        return text, bom, _composed(text, _LOADER)
    except yaml.YAMLError as error:
        if len(text) > MAX_SLOW:
            raise _invalid(text, error) from None
    try:
        return text, bom, _composed(text, yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise _invalid(text, error) from None


def _composed(text: str, loader: Any) -> Any:
    try:
        return yaml.compose(text, Loader=loader)
    except RecursionError:
        raise Unreadable(TOO_DEEP) from None


TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep: not a train config"


def _check_depth(text: str) -> None:
    """Raise ``Unreadable`` for a text that may nest too deeply for the C parser.

    Its events come one by one, so that counting them is safe at any depth.
    """
    openings = text.count("[") + text.count("{")
    if openings <= MAX_OPENINGS and not _MANY_ENTRIES.search(text):
        return
    depth = 0
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > MAX_DEPTH:
                    raise Unreadable(TOO_DEEP)
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
    except yaml.YAMLError as error:
        if getattr(error, "problem", None) == _PARSER_TOO_DEEP:
            raise Unreadable(TOO_DEEP) from None
        raise _invalid(text, error) from None


def _invalid(text: str, error: Any) -> InvalidYaml:
    """Return the parser's objection with its place, and a hint where one is known."""
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        reason = str(error.problem or error.context)
        position = Lines(text).position(min(mark.index, len(text)))
    else:  # a character that YAML does not allow
        bad = re.search(
            r"[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", text
        )
        reason = "a control character"
        position = Lines(text).position(bad.start() if bad else 0)
    if reason == "but found another document":
        reason = "a second document begins here, and the trainer reads one"
    elif reason == "second occurrence":
        reason = "this anchor is set above"
    return refusal(text, reason, position)


def refusal(text: str, reason: str, position: Position) -> InvalidYaml:
    """Return the error with a hint for templates and tabs."""
    lines = text.split("\n")
    line = lines[position.line - 1] if position.line <= len(lines) else ""
    near = f"{lines[position.line - 2]}\n{line}" if position.line > 1 else line
    hint = ""
    if "{{" in near or "{%" in near:
        hint = "this looks like a Jinja template: render it first, and lint the result"
    elif "\t" in line:
        hint = "YAML takes no tab here: write spaces"
    return InvalidYaml(reason[:MAX_REASON], position, text, hint)
