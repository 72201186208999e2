"""Rule packs of users: untrusted, so every part is checked before use."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable
from typing import Any

from fp8tune.lint import experiment
from fp8tune.lint.discover import CannotRead, read
from fp8tune.lint.expression import ExpressionError
from fp8tune.lint.rules import (
    CATEGORIES,
    CONFIDENCES,
    SEVERITIES,
    STATUSES,
    BadRule,
    Rule,
    rule_files,
)
from fp8tune.suggest import closest
from fp8tune.toml import Path
from fp8tune.toml.document import Document, InvalidToml, Unreadable, parse
from fp8tune.trainers import faults
from fp8tune.trainers.trainer import NAMES

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
    "status",
    "trainer",
    "when",
    "fault",
    "help",
    "why",
)
_REQUIRED = ("name", "code", "summary", "severity", "confidence", "since", "message")
_CHOICES: dict[str, tuple[str, ...]] = {
    "severity": SEVERITIES,
    "confidence": CONFIDENCES,
    "status": STATUSES,
    "trainer": NAMES,
    "fault": tuple(faults.FACTS),
}
_ENTRIES: dict[str, dict[str, bool]] = {
    "at": {"key": False, "any": False, "mark": False, "label": False},
    "bad": {"config": True, "also": False},
    "good": {"config": True, "also": False},
    "experiment": experiment.FIELDS,
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
        warnings.simplefilter("ignore")  # Python's, on an odd condition
        return [read_rule(path, category) for category, path in files]


def _stray(folder: str) -> None:
    """Refuse rules in a folder whose name is no category."""
    for name in sorted(os.listdir(folder)):
        place = os.path.join(folder, name)
        if name in CATEGORIES or name.startswith(".") or not os.path.isdir(place):
            continue
        if any(file.endswith(".toml") for file in os.listdir(place)):
            near = _meant(closest(name, CATEGORIES))
            raise BadRule(f"{place}: {name} is no category of rules{near}")


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
_NEWLINE = re.compile(r"\r?\n")
_LITERAL = re.compile(r"()(?:\r\n|.)", re.DOTALL)
_BASIC = re.compile(
    r"(\\[ \t]*\r?\n[ \t\r\n]*)|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}|\\.|\r\n|.",
    re.DOTALL,
)
"""One character of a string as written; group 1 is a line that goes on."""


class _Reader:
    def __init__(self, path: str, category: str, document: Document) -> None:
        self.path = path
        self.category = category
        self.document = document

    def fail(self, place: Path, reason: str, inside: int = -1) -> BadRule:
        span = self.document.span(place, "value" if inside >= 0 else "key")
        offset = span[0] if span else 0
        if inside >= 0:
            offset = _inside(self.document.text, offset, inside)
        line, column = self.document.lines.position(offset)
        return BadRule(f"{self.path}:{line}:{column}: {reason}")

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
                raise self.fail((), f"the rule lacks `{key}`")
        if ("when" in values) == ("fault" in values):
            raise self.fail((), "a rule has either `when` or `fault`")
        if not values.get("references"):
            raise self.fail((), "the rule lacks `references`: name its evidence")
        if not values.get("at"):
            raise self.fail((), "the rule lacks `[[at]]`: say which key it is about")

    def _field(self, key: str, value: Any) -> None:
        if key in _TEXTS:
            self._text(key, value)
        elif key in _ENTRIES:
            self._entries(key, value)
        elif key != "references":
            near = closest(key, (*_TEXTS, *_ENTRIES, "references"))
            raise self.fail((key,), f"unknown key `{key}`{_meant(near)}")
        elif not _texts(value):
            raise self.fail((key,), "references is an array of addresses")

    def _text(self, key: str, value: Any) -> None:
        if not isinstance(value, str):
            raise self.fail((key,), f"{key} is a string")
        if key in ("name", "code") and not _PLAIN.fullmatch(value):
            raise self.fail((key,), f"{key} holds letters, digits and dashes only")
        if not value.strip() and key not in ("help", "why"):
            raise self.fail((key,), f"{key} is empty")
        if key in _CHOICES and value not in _CHOICES[key]:
            near = closest(value, _CHOICES[key])
            allowed = ", ".join(_CHOICES[key])
            raise self.fail((key,), f"{key} is one of {allowed}{_meant(near)}")

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
                near = closest(field, fields)
                raise self.fail(here, f"unknown key `{field}`{_meant(near)}")
            wrong = experiment.wrong if key == "experiment" else _wrong
            if reason := wrong(field, content):
                raise self.fail(here, reason)
        for field, required in fields.items():
            if required and field not in entry:
                raise self.fail((key, index), f"[[{key}]] lacks `{field}`")
        if key == "at" and ("key" in entry) == ("any" in entry):
            raise self.fail((key, index), "[[at]] has either `key` or `any`")
        if entry.get("mark", "value") not in ("key", "value"):
            raise self.fail((key, index, "mark"), "mark is key or value")

    def _expressions(self, rule: Rule) -> None:
        parts: list[tuple[Path, str]] = [(("message",), "message"), (("help",), "help")]
        if rule.source:
            parts.insert(0, (("when",), "when"))
        for place, attribute in parts:
            try:
                getattr(rule, attribute)
            except ExpressionError as error:
                raise self._expression(rule, place, error) from None
        for index, at in enumerate(rule.at):
            try:
                rule.label(index)
            except ExpressionError as error:
                raise self._expression(rule, ("at", index, "label"), error) from None
            for number, name in enumerate(at.names):
                if name != "fault" and not rule.knows(name):
                    near = _meant(closest(name, rule.vocabulary()))
                    reason = f"unknown name `{name}`{near}"
                    many = ("at", index, "any" if at.any else "key", number)
                    listed = many in self.document.spans.values
                    raise self.fail(many if listed else many[:-1], reason, inside=0)
        for spot, fault in experiment.faults(rule):
            raise self._expression(rule, spot, fault, experiment.names(rule))

    def _expression(
        self,
        rule: Rule,
        place: Path,
        error: ExpressionError,
        words: Iterable[str] = (),
    ) -> BadRule:
        reason = error.reason
        if reason.startswith("unknown name"):
            near = closest(reason.split("`")[1], words or rule.vocabulary())
            reason += _meant(near)
        return self.fail(place, reason, inside=error.offset)


def _inside(text: str, offset: int, inside: int) -> int:
    """Where the character ``inside`` of a string stands that is written at ``offset``.

    Escapes are several characters long in the text, and so are line ends of CRLF.
    """
    long = text[offset : offset + 3] in ('"""', "'''")
    at = offset + (3 if long else 1)
    newline = _NEWLINE.match(text, at) if long else None
    at = newline.end() if newline else at
    pattern = _BASIC if text[offset] == '"' else _LITERAL
    while inside > 0:
        part = pattern.match(text, at)
        if part is None:
            break
        at = part.end()
        inside -= not part[1]
    return at


def _wrong(field: str, content: Any) -> str:
    """What is wrong with the kind of a field's value; empty if nothing is."""
    many = field in ("also", "any")
    if many or (field == "key" and isinstance(content, list)):
        fine = _texts(content) and (field == "also" or content)
        return "" if fine else f"{field} is an array of names"
    return "" if isinstance(content, str) else f"{field} is a string"


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _meant(near: str) -> str:
    return f"; did you mean `{near}`?" if near else ""
