"""The file that describes a trainer: its text, and where something wrong stands."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fp8tune.config.discover import CannotRead, read
from fp8tune.formats.document import Path, Unreadable
from fp8tune.formats.toml.document import Document, InvalidToml, parse
from fp8tune.suggest import meant

MAX_BYTES = 1 << 18

FORMATS = ("toml", "yaml", "json")
LOADERS = ("pyyaml", "omegaconf", "json", "hjson")
"""What may read a trainer's configs: see ``About``."""

REQUIRED = ("title", "sections", "classes", "job")
TOP: dict[str, str] = {
    "title": "a string",
    "source": "a string",
    "formats": f"an array of {', '.join(FORMATS)}",
    "reads": f"one of {', '.join(LOADERS)}",
    "unknown_keys": '"refused" or "ignored"',
    "quoted_values": '"refused" or "converted"',
    "sections": "a table: section = class",
    "classes": "a table of tables: one for each class, with its keys",
    "job": "a table: field = key, constant or expression",
    "values": "a table of arrays: field = values to try",
    "run": "a table: how a search launches the trainer",
}
"""What a file may say at its top, and what that is."""

_NUMBER = "a number"
FIELDS_OF_A_KEY: dict[str, str] = {
    "type": "a string",
    "default": "",
    "required": "true or false",
    "allowed": "an array of values",
    "above": _NUMBER,
    "min": _NUMBER,
    "within": 'an interval in quotes, such as "[0, 1)"',
    "nonzero": "true or false",
    "only_if": "the name of a key of the same class",
    "near": "a table of arrays: allowed value = what people write for it",
    "aka": "an array of names",
    "doc": "a string",
    "deprecated": "true or false",
}
"""What may be said of a key, and what that is."""

_TESTS: dict[str, Callable[[Any], bool]] = {
    "a string": lambda value: isinstance(value, str),
    "true or false": lambda value: isinstance(value, bool),
    "a number": lambda value: (
        isinstance(value, (int, float)) and not isinstance(value, bool)
    ),
    "an array of names": lambda value: _texts(value),
    TOP["formats"]: lambda value: (
        _texts(value) and bool(value) and set(value) <= set(FORMATS)
    ),
    TOP["reads"]: lambda value: value in LOADERS,
    '"refused" or "ignored"': lambda value: value in ("refused", "ignored"),
    '"refused" or "converted"': lambda value: value in ("refused", "converted"),
    "an array of values": lambda value: (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(item, (str, int, float)) for item in value)
    ),
    "the name of a key of the same class": lambda value: isinstance(value, str),
    'an interval in quotes, such as "[0, 1)"': lambda value: (
        isinstance(value, str)
        and bool(re.fullmatch(r"[\[(]-?\d+(\.\d+)?, ?-?\d+(\.\d+)?[\])]", value))
    ),
    "a table of arrays: allowed value = what people write for it": lambda value: (
        isinstance(value, dict) and all(map(_texts, value.values()))
    ),
    "a table: section = class": lambda value: (
        isinstance(value, dict) and bool(value) and _texts([*value.values()])
    ),
    "a table of tables: one for each class, with its keys": lambda value: (
        isinstance(value, dict) and all(isinstance(v, dict) for v in value.values())
    ),
    "a table: field = key, constant or expression": lambda v: isinstance(v, dict),
    "a table: how a search launches the trainer": lambda v: isinstance(v, dict),
    "a table of arrays: field = values to try": lambda value: (
        isinstance(value, dict) and all(isinstance(v, list) for v in value.values())
    ),
}


class BadTrainer(Exception):
    """A file does not describe a trainer: ``path:line:column: reason``."""


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


class File:
    """The text and the values of one file."""

    def __init__(self, path: str, document: Document) -> None:
        self.path = path
        self.document = document
        self.values = document.values

    def fail(self, reason: str, *at: str | int, part: str = "key") -> BadTrainer:
        """The error of what stands at a path."""
        place: Path = at
        span = None
        while place and span is None:
            span = self.document.span(place, part) or self.document.span(place, "key")
            place = place[:-1]
        line, column = self.document.lines.position(span[0] if span else 0)
        return BadTrainer(f"{self.path}:{line}:{column}: {reason}")

    def check(
        self, table: dict[str, Any], known: dict[str, str], what: str, *at: str
    ) -> None:
        """Check the names and the kinds of the fields of a table."""
        for name, value in table.items():
            if name not in known:
                raise self.fail(
                    f"{what} has no field `{name}`{meant(name, known)}", *at, name
                )
            kind = known[name]
            if kind and not _TESTS[kind](value):
                raise self.fail(f"`{name}` must be {kind}", *at, name, part="value")


def read_file(path: str) -> File:
    """Read a file and check what stands at its top; raises ``BadTrainer``."""
    try:
        data = read(path)
    except CannotRead as error:
        raise BadTrainer(str(error)) from None
    if len(data) > MAX_BYTES:
        raise BadTrainer(f"{path}: larger than {MAX_BYTES >> 10} KiB")
    try:
        file = File(path, parse(data))
    except InvalidToml as error:
        line, column = error.position
        raise BadTrainer(f"{path}:{line}:{column}: {error.reason}") from None
    except Unreadable as error:
        raise BadTrainer(f"{path}: {error}") from None
    file.check(file.values, TOP, "a trainer's file")
    for field in REQUIRED:
        if field not in file.values:
            needed = f"{field} = ..." if field == "title" else f"[{field}]"
            raise file.fail(f"`{needed}` is missing: {TOP[field]}")
    return file
