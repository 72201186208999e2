"""Users' rule packs: untrusted, so every part is checked before use."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fp8tune.conditions import ExpressionError
from fp8tune.config.discover import CannotRead, read
from fp8tune.config.settings import SEVERITIES
from fp8tune.formats import TITLES
from fp8tune.formats.document import Path, Unreadable
from fp8tune.formats.toml.document import Document, InvalidToml, parse
from fp8tune.formats.values import value_at
from fp8tune.lint.builtin import CAUSES, builtin_folder, rule_files
from fp8tune.lint.pack_fix import mistakes
from fp8tune.lint.repair import parts
from fp8tune.lint.rules import (
    CATEGORIES,
    CONFIDENCES,
    NAMED_BY,
    BadRule,
    Rule,
)
from fp8tune.suggest import meant
from fp8tune.trainers import faults
from fp8tune.trainers.about import trainers

MAX_FILES = 2000
MAX_BYTES = 1 << 16

_TEXTS = (
    "name",
    "code",
    "summary",
    "severity",
    "confidence",
    "since",
    "message",
    "fp8",
    "when",
    "same",
    "differs",
    "fault",
    "help",
    "why",
)
_REQUIRED = ("name", "code", "summary", "severity", "confidence", "since", "message")
_CHOICES: dict[str, tuple[str, ...]] = {
    "severity": SEVERITIES,
    "confidence": CONFIDENCES,
    "fp8": ("off",),
}
_ENTRIES: dict[str, dict[str, str]] = {
    "at": {
        "key": "text names",
        "any": "names",
        "value_of": "text names",
        "mark": "text",
        "label": "text",
    },
    "fix": {
        "when": "text",
        "safety": "text",
        "title": "text",
        "changes": "text",
        "set": "table",
        "rename": "table",
        "move": "table",
        "header": "table",
        "remove": "names",
    },
    "bad": {
        "config": "text",
        "also": "list",
        "fixed": "text",
        "beside": "text",
        "arguments": "list",
        "format": "format",
        "installed": "table",
        "environment": "table",
    },
    "good": {
        "config": "text",
        "also": "list",
        "beside": "text",
        "arguments": "list",
        "format": "format",
        "installed": "table",
        "environment": "table",
    },
}
"""The fields of each array of tables, and what they may hold."""

_NEEDED = {"at": (), "fix": ("safety", "title")}
_NEEDED["bad"] = _NEEDED["good"] = ("config",)
_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "text": ("a string", lambda value: isinstance(value, str)),
    "list": ("an array of names", lambda value: _texts(value)),
    "names": ("an array of names", lambda value: _texts(value) and bool(value)),
    "format": (f"one of {', '.join(TITLES)}", lambda value: value in [*TITLES]),
    "table": (
        "a table of names and expressions; write dotted names in quotes",
        lambda value: isinstance(value, dict) and _texts([*value.values()]),
    ),
}


def read_pack(folder: str) -> list[Rule]:
    """Read and check a rule pack.

    Raises ``BadRule`` with file, line and column of the first thing wrong.
    """
    if not os.path.isdir(folder):
        raise BadRule(f"{folder}: no such folder of rules")
    files = list(rule_files(folder))
    _stray(folder)
    if not files:
        places = ", ".join(CATEGORIES)
        raise BadRule(f"{folder}: no rules; they go in folders named {places}")
    if len(files) > MAX_FILES:
        raise BadRule(f"{folder}: more than {MAX_FILES} rules")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # raised by Python on an odd condition
        return [read_rule(path, category) for category, path in files]


def _stray(folder: str) -> None:
    """Refuse rules in a folder whose name is not a category.

    Beside the built-in rules are the causes of failed runs, which ``verify`` reads.
    """
    own = os.path.samefile(folder, builtin_folder())
    for name in sorted(os.listdir(folder)):
        place = os.path.join(folder, name)
        if own and name == CAUSES:
            continue
        if name in CATEGORIES or name.startswith(".") or not os.path.isdir(place):
            continue
        if any(file.endswith(".toml") for file in os.listdir(place)):
            near = meant(name, CATEGORIES)
            raise BadRule(f"{place}: {name} is not a category of rules{near}")


def read_rule(path: str, category: str) -> Rule:
    """Read and check one rule file."""
    try:
        data = read(path)
    except CannotRead as error:
        raise BadRule(str(error)) from None
    if len(data) > MAX_BYTES:
        raise BadRule(f"{path}: larger than {MAX_BYTES >> 10} KiB")
    try:
        document = parse(data)
    except InvalidToml as error:
        line, column = error.position
        raise BadRule(f"{path}:{line}:{column}: {error.reason}") from None
    except Unreadable as error:
        raise BadRule(f"{path}: {error}") from None
    return _Reader(path, category, document).rule()


_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,80}")


class _Reader:
    def __init__(self, path: str, category: str, document: Document) -> None:
        self.path = path
        self.category = category
        self.document = document

    def fail(self, place: Path, reason: str, inside: int = -1) -> BadRule:
        span = self.document.span(place, "value" if inside >= 0 else "key")
        span = span or self.document.spans.values.get(place)
        offset = span[0] if span else 0
        if inside >= 0:
            offset = self._inside(place, offset, inside)
        line, column = self.document.lines.position(offset)
        return BadRule(f"{self.path}:{line}:{column}: {reason}")

    def _inside(self, place: Path, offset: int, inside: int) -> int:
        """Return where a character of a string is; of one with escapes, its start."""
        text, value = self.document.text, value_at(self.document.values, place)
        is_long = text[offset : offset + 3] in ('"""', "'''")
        start = offset + (3 + text.startswith("\n", offset + 3) if is_long else 1)
        plain = text[start : start + inside] == value[:inside]
        return start + inside if plain else offset

    def rule(self) -> Rule:
        values = self.document.values
        self._shape(values)
        rule = Rule(self.path, self.category, values, self.document.text)
        name = os.path.basename(self.path).removesuffix(".toml")
        if rule.name != name:
            raise self.fail(("name",), f"the name must be the file's: {name}")
        self._expressions(rule)
        return rule

    def _shape(self, values: dict[str, Any]) -> None:
        for key, value in values.items():
            self._field(key, value)
        for key in _REQUIRED:
            if key not in values:
                raise self.fail((), f"the rule has no `{key}`")
        if ("when" in values) == ("fault" in values):
            raise self.fail((), "a rule has either `when` or `fault`")
        if ("same" in values) != ("differs" in values) or (
            "same" in values and "fault" in values
        ):
            raise self.fail((), "`same`, `differs` and `when` go together")
        if not values.get("references"):
            raise self.fail((), "the rule has no `references`: name its evidence")
        if not values.get("at"):
            raise self.fail((), "the rule has no `[[at]]`: say which key it is about")

    def _field(self, key: str, value: Any) -> None:
        if key in _TEXTS:
            self._text(key, value)
        elif key in _ENTRIES:
            self._entries(key, value)
        elif key == "trainer":
            self._trainers(value)
        elif key == "releases":
            self._releases(value)
        elif key == "experiment":  # benchmarks.rule_evidence reads it
            return
        elif key not in ("references", "seen"):
            known = (*_TEXTS, *_ENTRIES, "references", "seen", "trainer", "releases")
            raise self.fail((key,), f"unknown key `{key}`{meant(key, known)}")
        elif not _texts(value):
            what = "addresses" if key == "references" else "texts"
            raise self.fail((key,), f"{key} is an array of {what}")

    def _text(self, key: str, value: Any) -> None:
        if not isinstance(value, str):
            raise self.fail((key,), f"{key} is a string")
        if key in ("name", "code") and not _PLAIN.fullmatch(value):
            raise self.fail((key,), f"{key} holds letters, digits and dashes only")
        if not value.strip() and key not in ("help", "why"):
            raise self.fail((key,), f"{key} is empty")
        if key in _CHOICES:
            self._choice(key, value, _CHOICES[key])
        if key == "fault":
            self._choice(key, value, faults.kinds())

    def _choice(self, key: str, value: str, allowed: Sequence[str]) -> None:
        if value not in allowed:
            near = meant(value, allowed)
            raise self.fail((key,), f"{key} is one of {', '.join(allowed)}{near}")

    def _trainers(self, value: Any) -> None:
        if isinstance(value, str):
            value = [value]
        if not _texts(value) or not value:
            raise self.fail(("trainer",), "trainer is an array of names")
        for name in value:
            self._choice("trainer", name, tuple(trainers()))

    def _releases(self, value: Any) -> None:
        """Check the releases of its trainer between which a rule is for configs."""
        names = {"since", "until"}
        if not (isinstance(value, dict) and value and {*value} <= names):
            raise self.fail(("releases",), "releases is a table of since and until")
        about = trainers().get(str(self.document.values.get("trainer")))
        if about is None:
            raise self.fail(("releases",), "releases are of one trainer: name it")
        for release in value.values():
            self._choice("releases", str(release), about.releases)

    def _entries(self, key: str, value: Any) -> None:
        if not isinstance(value, list) or not all(isinstance(e, dict) for e in value):
            raise self.fail((key,), f"write [[{key}]]")
        for index, entry in enumerate(value):
            self._entry(key, index, entry)

    def _entry(self, key: str, index: int, entry: dict[str, Any]) -> None:
        fields = _ENTRIES[key]
        for field, content in entry.items():
            here = (key, index, field)
            if field not in fields:
                near = meant(field, fields)
                raise self.fail(here, f"unknown key `{field}`{near}")
            kinds = [_KINDS[kind] for kind in fields[field].split()]
            if not any(holds(content) for _, holds in kinds):
                wanted = " or ".join(name for name, _ in kinds)
                raise self.fail(here, f"{field} is {wanted}")
        for field in _NEEDED[key]:
            if field not in entry:
                raise self.fail((key, index), f"[[{key}]] has no `{field}`")
        if key == "at":
            self._at((key, index), entry)

    def _at(self, here: Path, entry: dict[str, Any]) -> None:
        if len(entry.keys() & {*NAMED_BY}) != 1:
            raise self.fail(here, "[[at]] has one of `key`, `any` and `value_of`")
        if entry.get("mark", "value") not in ("key", "value"):
            raise self.fail((*here, "mark"), "mark is key or value")

    def _expressions(self, rule: Rule) -> None:
        for key in ("when", "same", "differs"):
            if source := rule.data.get(key):
                self._compiles(rule, (key,), partial(rule.compiled, source))
        for key in ("message", "help"):
            self._compiles(rule, (key,), partial(getattr, rule, key))
        for index, at in enumerate(rule.at):
            label = partial(rule.label, index)
            self._compiles(rule, ("at", index, "label"), label)
            field = next(field for field in NAMED_BY if field in rule.data["at"][index])
            for number, name in enumerate(at.names):
                many = ("at", index, field, number)
                listed = many in self.document.spans.values
                self._known(rule, name, many if listed else many[:-1])
        for index, entry in enumerate(rule.data.get("fix", ())):
            self._fix(rule, ("fix", index), entry)

    def _compiles(self, rule: Rule, place: Path, attempt: Callable[[], Any]) -> None:
        try:
            attempt()
        except ExpressionError as error:
            raise self._expression(rule, place, error) from None

    def _fix(self, rule: Rule, here: Path, entry: dict[str, Any]) -> None:
        for place, reason in mistakes(rule, entry):
            raise self.fail((*here, *place), reason)
        for place, part in parts(entry):
            self._compiles(rule, (*here, *place), partial(rule.repair, part))

    def _known(self, rule: Rule, name: str, place: Path) -> None:
        if name != "fault" and not rule.knows(name):
            near = meant(name, rule.vocabulary())
            raise self.fail(place, f"unknown name `{name}`{near}", inside=0)

    def _expression(self, rule: Rule, place: Path, error: ExpressionError) -> BadRule:
        reason = error.reason
        if error.unknown:
            reason += meant(error.unknown, rule.vocabulary())
        return self.fail(place, reason, inside=error.offset)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
