"""Edit a JSON text: every byte outside an edit stays as it is.

Each function reads its result and raises ``CannotEdit`` unless exactly the wanted
values have changed.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fp8tune.formats.document import InvalidText, Path, Span, Unreadable
from fp8tune.formats.edits import CannotEdit, Edit, apply

if TYPE_CHECKING:
    from fp8tune.formats.json.document import Document

_REST = re.compile(r"[ \t]*+(?:(?:#|//)[^\r\n]*+)?+(?=\r?\n|\Z)")
_COMMA = re.compile(r"[ \t\r\n]*+,")


def set_values(document: Document, values: Mapping[Path, Any]) -> Iterator[Edit]:
    """Set keys: replace their values, or add them to their tables."""
    edits: list[Edit] = []
    added: dict[Path, dict[str, Any]] = {}
    wanted = copy.deepcopy(document.values)
    for path, value in values.items():
        _put(wanted, path, value)
        span = document.spans.values.get(path)
        if span is not None:
            _without_comments(document, *span)
            edits.append(Edit(*span, _literal(value)))
        else:
            table = _existing(document, path)
            _put(added.setdefault(table, {}), path[len(table) :], value)
    for table, new in added.items():
        pairs = [f"{_literal(k)}: {_literal(v)}" for k, v in new.items()]
        edits += _add(document, table, pairs)
    return _checked(document, edits, wanted)


def rename_key(document: Document, path: Path, name: str) -> Iterator[Edit]:
    """Give a key another name in the same object."""
    wanted = copy.deepcopy(document.values)
    table = _at(wanted, path[:-1])
    if name in table or path not in document.spans.keys:
        raise CannotEdit(f"`{name}` is already there")
    table[name] = table.pop(path[-1])
    edit = Edit(*document.spans.keys[path], _literal(name))
    return _checked(document, [edit], wanted)


def remove_key(document: Document, path: Path) -> Edit:
    """Remove a key and its value."""
    wanted = copy.deepcopy(document.values)
    _at(wanted, path[:-1]).pop(path[-1], None)
    return next(_checked(document, [_removal(document, path)], wanted))


def move_key(document: Document, path: Path, to: Path) -> Iterator[Edit]:
    """Move a key with its value as written; in its own object, rename it."""
    if path[:-1] == to[:-1]:
        return rename_key(document, path, str(to[-1]))
    if to in document.spans.keys or path not in document.spans.keys:
        raise CannotEdit("no room for it")
    wanted = copy.deepcopy(document.values)
    _put(wanted, to, _at(wanted, path[:-1]).pop(path[-1]))
    table = _existing(document, to)
    text = document.text[slice(*document.spans.values[path])]
    *inside, name = to[len(table) :]
    pair = f"{_literal(name)}: {text}"
    for part in reversed(inside):
        pair = f"{_literal(part)}: {{{pair}}}"
    edits = [_removal(document, path), *_add(document, table, [pair])]
    return _checked(document, edits, wanted)


def _checked(document: Document, edits: list[Edit], wanted: Any) -> Iterator[Edit]:
    """Return the edits if they give these values; raises ``CannotEdit``."""
    try:
        values = document.read(apply(document.text, edits)).values
    except (InvalidText, Unreadable) as error:
        raise CannotEdit(f"in this layout: {error}") from None
    if _canonical(values) != _canonical(wanted):
        raise CannotEdit("in this layout, other values would change too")
    return iter(edits)


def _canonical(values: Any) -> str:
    """Return a text that is equal for equal values of equal types."""
    return json.dumps(values, sort_keys=True)


def _literal(value: Any) -> str:
    """Return a value as JSON; raises ``CannotEdit`` for others."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        raise CannotEdit(f"{type(value).__name__} has no form in JSON") from None


def _at(values: Any, path: Path) -> Any:
    for part in path:
        values = values[part]
    return values


def _put(values: Any, path: Path, value: Any) -> None:
    """Set a value, and create the tables above it."""
    last: Any = path[-1]
    for part in path[:-1]:
        if isinstance(values, dict):
            values = values.setdefault(part, {})
        elif isinstance(values, list) and part in range(len(values)):
            values = values[int(part)]
    has_room = isinstance(values, dict) or (
        isinstance(values, list) and last in range(len(values))
    )
    if not has_room:
        raise CannotEdit(f"there is no table for `{last}`")
    values[last] = copy.deepcopy(value)


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
    inside = _at(document.values, table)
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


def _removal(document: Document, path: Path) -> Edit:
    """Return the edit that removes a member, with the comma that it no longer needs."""
    keys = document.spans.keys
    if path not in keys:
        raise CannotEdit("not a key")
    members = _members(document, path[:-1])
    index = members.index((keys[path], document.spans.values[path]))
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
