"""Surgical edits of a TOML text: every byte outside an edit stays as it is.

Edits are made for valid texts. Whether the outcome is valid too, for instance when a
new table meets dotted keys, is for the caller to check with the parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from fp8tune.toml import Path, Span
from fp8tune.toml.document import Document

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_REST = re.compile(r"([ \t]*)(#[^\n]*?)?(\r?\n|$)")
_SPACE = re.compile(r"[ \t\r\n]*")
_CLOSING = re.compile(r"[ \t]*\]")


class Edit(NamedTuple):
    """Replace the characters from ``start`` to ``end`` by ``text``.

    A byte-order mark stands at -1.
    """

    start: int
    end: int
    text: str


class CannotEdit(Exception):
    """The text is written in a way that this edit does not cover."""


def apply(text: str, edits: Iterable[Edit]) -> str:
    """The text after all edits, which must not overlap."""
    parts, end = [], 0
    for edit in sorted(edits):
        if edit.start < end:
            raise CannotEdit("edits overlap")
        parts += [text[end : edit.start], edit.text]
        end = edit.end
    return "".join([*parts, text[end:]])


def literal(value: Any) -> str:
    """A value as TOML; raises ``CannotEdit`` for what has no one-line form."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > 64:
        raise CannotEdit("an integer beyond TOML's range")
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(literal, value))}]"
    raise CannotEdit(f"{type(value).__name__} has no one-line form")


def set_value(document: Document, path: Path, value: Any) -> Edit:
    """Set a key: replace its value, or add it to its table."""
    span = document.spans.values.get(path)
    if span is not None:
        return Edit(*span, literal(value))
    table, name = path[:-1], _key(str(path[-1]))
    return _add(document, table, name, literal(value))


def rename_key(document: Document, path: Path, name: str) -> Edit:
    """Give a key another name in the same table."""
    if (*path[:-1], name) in document.spans.keys:
        raise CannotEdit(f"`{name}` is already there")
    return Edit(*_span(document.spans.keys, path), _key(name))


def remove_key(document: Document, path: Path) -> Edit:
    """Remove a key and its value; a comment behind it stays."""
    key, value = _span(document.spans.keys, path), _span(document.spans.values, path)
    if _inline(document, path[:-1]):
        return _remove_inline(document.text, key, value)
    start = _line_start(document.text, key[0])
    rest = _REST.match(document.text, value[1])
    if rest is None or "=" in document.text[start : key[0]]:
        raise CannotEdit("the key shares its line")
    end = rest.start(2) if rest[2] else rest.end()
    return Edit(start, end, "")


def add_header(document: Document, path: Path, section: str) -> Edit:
    """Write ``[section]`` above the line of a key."""
    start = _line_start(document.text, _span(document.spans.keys, path)[0])
    return Edit(start, start, f"[{_key(section)}]{_newline(document.text)}")


def _span(spans: dict[Path, Span], path: Path) -> Span:
    span = spans.get(path)
    if span is None:
        raise CannotEdit("not a key with a value")
    return span


def _add(document: Document, table: Path, name: str, value: str) -> Edit:
    spans = document.spans
    siblings = [
        (span, path)
        for path, span in spans.values.items()
        if path[:-1] == table and isinstance(path[-1], str)
    ]
    if _inline(document, table):
        return _add_inline(spans.values[table], siblings, f"{name} = {value}")
    if siblings:
        (_, end), path = max(siblings)
        key = spans.keys[path][0]
        prefix = document.text[_line_start(document.text, key) : key]
        return _below(document.text, end, f"{prefix}{name} = {value}")
    header = spans.keys.get(table)
    closing = _CLOSING.match(document.text, header[1]) if header else None
    if closing is not None:
        return _below(document.text, closing.end(), f"{name} = {value}")
    return _new_table(document.text, table, f"{name} = {value}")


def _inline(document: Document, table: Path) -> bool:
    span = document.spans.values.get(table)
    return span is not None and document.text[span[0]] == "{"


def _add_inline(table: Span, siblings: list[tuple[Span, Path]], pair: str) -> Edit:
    if siblings:
        end = max(siblings)[0][1]
        return Edit(end, end, f", {pair}")
    return Edit(*table, f"{{ {pair} }}")


def _below(text: str, offset: int, line: str) -> Edit:
    """Insert a line below the one that holds ``offset``."""
    rest = _REST.match(text, offset)
    if rest is None:
        raise CannotEdit("the table shares its line")
    newline = _newline(text)
    start = "" if rest[3] else newline
    return Edit(rest.end(), rest.end(), f"{start}{line}{newline if rest[3] else ''}")


def _new_table(text: str, table: Path, line: str) -> Edit:
    newline = _newline(text)
    gap = newline if text.endswith("\n") else 2 * newline
    header = ".".join(_key(str(part)) for part in table)
    added = f"{gap if text else ''}[{header}]{newline}{line}{newline}"
    return Edit(len(text), len(text), added)


def _remove_inline(text: str, key: Span, value: Span) -> Edit:
    before = text[: key[0]].rstrip()
    space = _SPACE.match(text, value[1])
    after = space.end() if space else value[1]
    if before[-1:] not in ("{", ","):
        raise CannotEdit("a dotted key in an inline table")
    if text[after] == ",":
        space = _SPACE.match(text, after + 1)
        return Edit(key[0], space.end() if space else after + 1, "")
    return Edit(len(before) - (before[-1] == ","), value[1], "")


def _line_start(text: str, offset: int) -> int:
    return text.rfind("\n", 0, offset) + 1


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    if escaped.isprintable():
        return f'"{escaped}"'
    raise CannotEdit("a string with control characters")
