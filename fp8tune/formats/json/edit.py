"""Edit a JSON text: every byte outside an edit stays as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fp8tune.formats.document import Path, Span
from fp8tune.formats.edits import CannotEdit, Edit
from fp8tune.formats.values import put, value_at

if TYPE_CHECKING:
    from fp8tune.formats.json.document import Document

_REST = re.compile(r"[ \t]*+(?:(?:#|//)[^\r\n]*+)?+(?=\r?\n|\Z)")
_COMMA = re.compile(r"[ \t\r\n]*+,")


def set_values(document: Document, values: Mapping[Path, Any]) -> list[Edit]:
    """Set keys: replace their values, or add them to their tables."""
    edits: list[Edit] = []
    added: dict[Path, dict[str, Any]] = {}
    for path, value in values.items():
        span = document.spans.values.get(path)
        if span is not None:
            _without_comments(document, *span)
            edits.append(Edit(*span, _literal(value)))
        else:
            table = _existing(document, path)
            put(added.setdefault(table, {}), path[len(table) :], value)
    for table, new in added.items():
        pairs = [f"{_literal(k)}: {_literal(v)}" for k, v in new.items()]
        edits += _add(document, table, pairs)
    return edits


def rename_key(document: Document, path: Path, name: str) -> list[Edit]:
    """Give a key another name in the same object."""
    return [Edit(*document.spans.keys[path], _literal(name))]


def move_key(document: Document, path: Path, to: Path) -> list[Edit]:
    """Move a key with its value as written."""
    table = _existing(document, to)
    text = document.text[slice(*document.spans.values[path])]
    *inside, name = to[len(table) :]
    pair = f"{_literal(name)}: {text}"
    for part in reversed(inside):
        pair = f"{_literal(part)}: {{{pair}}}"
    return [remove_key(document, path), *_add(document, table, [pair])]


def _literal(value: Any) -> str:
    """Return a value as JSON; raises ``CannotEdit`` for others."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        raise CannotEdit(f"{type(value).__name__} has no form in JSON") from None


def _existing(document: Document, path: Path) -> Path:
    """Return the object that a new key goes to, or that its own object goes to."""
    values = document.spans.values
    ends = range(len(path) - 1, 0, -1)
    return next((path[:end] for end in ends if path[:end] in values), ())


def _without_comments(document: Document, start: int, end: int) -> None:
    """Raise ``CannotEdit`` if a comment stands in a stretch of text."""
    if any(start <= at < end for at, _ in document.all_comments):
        raise CannotEdit("a comment would be lost")


def _members(document: Document, table: Path) -> list[tuple[Span, Span]]:
    """Return the spans of an object's keys and values, in order."""
    keys, values = document.spans.keys, document.spans.values
    inside = value_at(document.values, table)
    if not isinstance(inside, dict):
        raise CannotEdit(f"`{table[-1]}` is no table")
    paths = ((*table, name) for name in inside)
    return sorted((keys[path], values[path]) for path in paths)


def _add(document: Document, table: Path, pairs: list[str]) -> list[Edit]:
    """Add members to an object: behind its last one, in its layout."""
    text, members = document.text, _members(document, table)
    if not members:
        if table not in document.spans.values:
            raise CannotEdit("a file without braces")
        start, end = document.spans.values[table]
        _without_comments(document, start, end)
        return [Edit(start, end, f"{{{', '.join(pairs)}}}")]
    key, (_, end) = members[-1]
    comma = _COMMA.match(text, end)
    behind = comma.end() if comma else end
    line = text.rfind("\n", 0, key[0]) + 1
    indent, rest = text[line : key[0]], _REST.match(text, behind)
    edits = [] if comma else [Edit(end, end, ",")]
    if indent.strip() or rest is None or not line:
        added = " " + ", ".join(pairs)
        return [*edits[1:], Edit(behind, behind, f"{',' * (not comma)}{added}")]
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = f",{newline}{indent}".join(pairs)
    new = f"{newline}{indent}{lines}{',' * bool(comma)}"
    if rest.end() == end:
        return [Edit(end, end, f",{new}")]
    return [*edits, Edit(rest.end(), rest.end(), new)]


def remove_key(document: Document, path: Path) -> Edit:
    """Remove a key and its value, with the comma that is no longer needed."""
    members = _members(document, path[:-1])
    index = members.index((document.spans.keys[path], document.spans.values[path]))
    (start, _), (_, end) = members[index]
    if index + 1 < len(members):
        end = members[index + 1][0][0]
    elif index:
        start = members[index - 1][1][1]
    elif comma := _COMMA.match(document.text, end):
        end = comma.end()
    _without_comments(document, start, end)
    return Edit(start, end, "")


def add_header(document: Document, path: Path, section: str) -> Edit:  # noqa: ARG001
    """Raise ``CannotEdit``: a section of JSON is no line above its keys."""
    raise CannotEdit("JSON has no headers")
