"""Read plain TOML, with positions, in a third of ``tomllib``'s time.

Plain means: headers and keys of bare names, strings on one line without escapes,
decimal numbers, booleans, arrays and inline tables. Nearly every train config is plain.
Everything else, and keys set twice, is left to ``tomllib``, which alone refuses a text.
Tests compare the results with those of ``tomllib`` and of the scanner of spans.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from fp8tune.formats.document import Path, Span, Spans

_END = r"[ \t]*+(?:#[^\x00-\x08\x0a-\x1f\x7f]*+)?+"
_GAP = rf"(?:{_END}\r?\n)*+[ \t]*+"
_ENDS = rf"{_END}(?:\r?\n|\Z)"
_NAMED = r"([A-Za-z0-9_-]++)[ \t]*+=[ \t]*+"
_BLANK, _LINE, _KEY = map(re.compile, (_GAP, _ENDS, _NAMED))
_SPACE = re.compile(r"[ \t]*+")
_SCALAR = r""""[^"\\\x00-\x1f\x7f]*+"|'[^'\x00-\x1f\x7f]*+'|[\w.+-]++"""
_ITEM = re.compile(
    rf"{_GAP}(?:\[([A-Za-z0-9_.-]++)\]{_ENDS}"
    rf"|{_NAMED}(?:({_SCALAR}){_ENDS}|(?=[\[{{]))|\Z)"
)
_ONE = re.compile(_SCALAR)
_NUMBER = re.compile(
    r"[+-]?(?:0|[1-9](?:_?[0-9])*+)(\.[0-9](?:_?[0-9])*+)?([eE][+-]?[0-9](?:_?[0-9])*+)?"
)
_MAX_DIGITS = 40
_MAX_PARTS = 8


def read_plain(text: str) -> tuple[dict[str, Any], Spans] | None:
    """Return the values and spans of a plain text, ``None`` if it is not plain."""
    reader = _Reader(text)
    try:
        return reader.document(), Spans(reader.keys, reader.values, reader.names)
    except (_NotPlain, IndexError, RecursionError):
        return None


class _NotPlain(Exception):
    """The text is not plain; ``tomllib`` has to read it."""


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.keys: dict[Path, Span] = {}
        self.values: dict[Path, Span] = {}
        self.names: dict[Path, list[Span]] = {}
        self.tables: dict[Path, dict[str, Any]] = {(): {}}

    def document(self) -> dict[str, Any]:
        text, keys, values, names = self.text, self.keys, self.values, self.names
        path: Path = ()
        table = self.tables[path]
        at = 0
        while item := _ITEM.match(text, at):
            header, key, value = item.groups()
            at = item.end()
            if header is not None:
                path = self.header(header, item.start(1))
                table = self.tables[path]
                continue
            if key is None:
                return self.tables[()]
            if key in table:
                break
            here = (*path, key)
            keys[here] = span = item.span(2)
            names[here] = [span]
            if value is not None:
                table[key] = _value(value)
                values[here] = item.span(3)
                continue
            table[key], at = self.value(here, at)
            at = self.skip(_LINE, at)
        raise _NotPlain

    def header(self, names: str, at: int) -> Path:
        """Open a table, and create its missing parents."""
        path: Path = ()
        table = self.tables[path]
        parts = names.split(".")
        if len(parts) > _MAX_PARTS:
            raise _NotPlain
        for name in parts:
            path = (*path, name)
            if path not in self.tables:
                if name in table or not name:
                    raise _NotPlain
                self.tables[path] = table[name] = {}
            elif len(path) == len(parts):
                raise _NotPlain
            table = self.tables[path]
            self.name(path, (at, at + len(name)))
            at += len(name) + 1
        return path

    def value(self, path: Path, start: int) -> tuple[Any, int]:
        """Return the value that starts here, and where it ends."""
        value: Any
        scalar = _ONE.match(self.text, start)
        if scalar is not None:
            value, end = _value(scalar[0]), scalar.end()
        elif self.text[start] == "[":
            value, end = self.array(path, start)
        elif self.text[start] == "{":
            value, end = self.inline_table(path, start)
        else:
            raise _NotPlain
        self.values[path] = start, end
        return value, end

    def array(self, path: Path, start: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        at = self.skip(_BLANK, start + 1)
        while self.text[at] != "]":
            item, at = self.value((*path, len(items)), at)
            items.append(item)
            at = self.skip(_BLANK, at)
            if self.text[at] == ",":
                at = self.skip(_BLANK, at + 1)
            elif self.text[at] != "]":
                raise _NotPlain
        return items, at + 1

    def inline_table(self, path: Path, start: int) -> tuple[dict[str, Any], int]:
        table: dict[str, Any] = {}
        at = self.skip(_SPACE, start + 1)
        while self.text[at] != "}":
            found = _KEY.match(self.text, at)
            if found is None or found[1] in table:
                raise _NotPlain
            here = (*path, found[1])
            self.name(here, found.span(1))
            table[found[1]], at = self.value(here, found.end())
            at = self.skip(_SPACE, at)
            if self.text[at] == ",":
                at = self.skip(_SPACE, at + 1)
                if self.text[at] == "}":
                    raise _NotPlain
            elif self.text[at] != "}":
                raise _NotPlain
        return table, at + 1

    def skip(self, pattern: re.Pattern[str], at: int) -> int:
        """Return where the pattern that matches here ends."""
        found = pattern.match(self.text, at)
        if found is None:
            raise _NotPlain
        return found.end()

    def name(self, path: Path, span: Span) -> None:
        """Record where a table or key is named."""
        self.keys.setdefault(path, span)
        self.names.setdefault(path, []).append(span)


def _value(raw: str) -> str | bool | int | float:
    """Return the value of a scalar."""
    return raw[1:-1] if raw[0] in "\"'" else _bare(raw)


@lru_cache(4096)
def _bare(raw: str) -> bool | int | float:
    """Return the value of a number or boolean; cached, because values repeat."""
    number = _NUMBER.fullmatch(raw)
    if number is not None and len(raw) <= _MAX_DIGITS:
        return int(raw) if number.lastindex is None else float(raw)
    if raw == "true" or raw == "false":
        return raw == "true"
    raise _NotPlain
