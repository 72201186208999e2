"""Edit a TOML text: every byte outside an edit stays as it is.

tomlkit checks a tuned config (``search/write/toml_check.py``) but does not edit: it
adds a key below the comment above the next table, and mixes the line ends of a file
from Windows. Lint proves each fix by an edit, and must not wait for tomlkit's import.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from fp8tune.formats.document import Path, Span
from fp8tune.formats.edits import CannotEdit, Edit
from fp8tune.formats.toml.document import Document, comments
from fp8tune.formats.toml.literal import key_text, literal, quote_of
from fp8tune.formats.values import value_at

_REST = r"([ \t]*)(#[^\n]*?)?(\r?\n|\Z)"
_SPACE = r"[ \t\r\n]*"
_CLOSING = r"[ \t]*\]\]?"


def set_values(document: Document, values: Mapping[Path, Any]) -> Iterator[Edit]:
    """Set keys: replace their values, or add them to their tables."""
    added: dict[Path, list[str]] = {}
    for path, value in values.items():
        span = document.spans.values.get(path)
        if span is not None:
            yield from replace_value(document, path, value)
        elif path in document.spans.keys:
            raise CannotEdit(f"`{path[-1]}` is a table")
        else:
            pair = f"{key_text(path[-1])} = {literal(value)}"
            added.setdefault(path[:-1], []).append(pair)
    for table, pairs in added.items():
        yield _add(document, table, pairs)


def replace_value(document: Document, path: Path, value: Any) -> Iterator[Edit]:
    """Replace a value; of an array, only the items that differ.

    Raises ``CannotEdit`` where a comment inside the old value would be lost.
    """
    span = document.spans.values[path]
    if document.text[span[0]] == "[" and isinstance(value, (list, tuple)):
        edits = _replace_items(document, path, list(value))
        if edits is not None:
            yield from edits
            return
    if _told(value) == _told(value_at(document.values, path)):
        return
    _without_comments(document.text, span)
    yield Edit(*span, literal(value, quote_of(document.text[slice(*span)])))


def _replace_items(document: Document, path: Path, new: list[Any]) -> list[Edit] | None:
    """Return the edits between two arrays, ``None`` if an item is removed or moved."""
    from difflib import SequenceMatcher

    old = value_at(document.values, path)
    quote = quote_of(document.text[slice(*document.spans.values[path])])
    matcher = SequenceMatcher(None, [*map(_told, old)], [*map(_told, new)], False)
    edits: list[Edit] = []
    for kind, start, end, at, stop in matcher.get_opcodes():
        if kind == "replace" and end - start == stop - at:
            for index, value in zip(range(start, end), new[at:stop], strict=True):
                edits += replace_value(document, (*path, index), value)
        elif kind == "insert" and old:
            added = [literal(value, quote) for value in new[at:stop]]
            edits.append(_insert(document, path, start, added))
        elif kind != "equal":
            return None
    return edits


def _told(value: Any) -> Hashable:
    """Return a key that is equal for equal values of equal types, at any depth."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_told, value))
    if isinstance(value, dict):
        return frozenset((key, _told(item)) for key, item in value.items())
    return str if isinstance(value, str) else type(value), value


def _insert(document: Document, path: Path, index: int, added: list[str]) -> Edit:
    """Insert items before an item of an array, or after the last."""
    values, text = document.spans.values, ", ".join(added)
    if (*path, index) in values:
        start = values[(*path, index)][0]
        return Edit(start, start, f"{text}, ")
    end = values[(*path, index - 1)][1]
    return Edit(end, end, f", {text}")


def _without_comments(text: str, span: Span) -> None:
    """Raise ``CannotEdit`` if a comment stands inside a value."""
    if "\n" in text[slice(*span)] and any(comments(text[slice(*span)])):
        raise CannotEdit("a comment would be lost")


def rename_key(document: Document, path: Path, name: str) -> Iterator[Edit]:
    """Give a key another name in the same table, wherever it is named."""
    for span in document.spans.names[path]:
        yield Edit(*span, key_text(name))


def remove_key(document: Document, path: Path) -> Edit:
    """Remove a key and its value, or an empty table; a comment after it stays."""
    is_table = path in document.spans.keys and path not in document.spans.values
    if is_table and not value_at(document.values, path):
        return _remove_header(document, path)
    key, value = _span(document.spans.keys, path), _span(document.spans.values, path)
    _without_comments(document.text, value)
    if _inline(document, path[:-1]):
        return _remove_inline(document.text, key, value)
    start, rest = _own_lines(document.text, key, value)
    return Edit(start, rest.start(2) if rest[2] else rest.end(), "")


def _remove_header(document: Document, path: Path) -> Edit:
    """Remove the header of an empty table, which no other header names."""
    (place, end), *more = document.spans.names.get(path, [(0, 0)])
    closing = re.compile(_CLOSING).match(document.text, end)
    if more or closing is None or not _is_header(document.text, place):
        raise CannotEdit("not a table with a header of its own")
    rest = re.compile(_REST).match(document.text, closing.end())
    assert rest is not None
    start = _line_start(document.text, place)
    return Edit(start, rest.start(2) if rest[2] else rest.end(), "")


def remove_table(document: Document, path: Path) -> Iterator[Edit]:
    """Remove a table with all tables in it: what stands below their headers.

    And the dotted keys of it that stand elsewhere.
    """
    text, keys = document.text, document.spans.keys
    inside = {each for each in keys if each[: len(path)] == path}
    headers: dict[int, bool] = {}
    for each, (start, _) in keys.items():
        if _is_header(text, start):
            line = _line_start(text, start)
            headers[line] = headers.get(line, False) or each in inside
    for start, end in pairwise([*sorted(headers), len(text)]):
        if headers[start]:
            yield Edit(start, end, "")
            inside = {each for each in inside if not start <= keys[each][0] < end}
    for each in inside & document.spans.values.keys():
        if not _inline(document, each[:-1]):
            yield remove_key(document, each)


def move_key(document: Document, path: Path, to: Path) -> Iterator[Edit]:
    """Move a key with its value as written and its comments, or rename a table.

    Its comments are that after it and those right above it. A comment below the
    table's header stays there if the table has other keys.
    """
    spans = document.spans
    if _inline(document, to[:-1]):
        raise CannotEdit("no room for it")
    if path in spans.keys and path not in spans.values:
        yield from _rename_table(document, path, to)
        return
    key, value = _span(spans.keys, path), _span(spans.values, path)
    start, rest = _own_lines(document.text, key, value)
    above, start = _comments_above(document, path, start)
    line = document.text[key[1] : rest.end(2) if rest[2] else value[1]]
    yield Edit(start, rest.end(), "")
    yield _add(document, to[:-1], [*above, f"{key_text(to[-1])}{line}"])


def _comments_above(
    document: Document, path: Path, start: int
) -> tuple[list[str], int]:
    """Return the comments right above a line, and where they start."""
    lines: list[str] = []
    first = start
    while first:
        before = _line_start(document.text, first - 1)
        line = document.text[before : first - 1].strip()
        if not line.startswith("#"):
            if line.startswith("[") and len(value_at(document.values, path[:-1])) > 1:
                return [], start
            break
        lines.insert(0, line)
        first = before
    return (lines, first) if len(path) > 1 else ([], start)


def _rename_table(document: Document, path: Path, to: Path) -> Iterator[Edit]:
    """Write another name in every header of a table and of the tables inside it."""
    text, names = document.text, document.spans.names
    for first, end in names[path]:
        for depth in range(len(path) - 1, 0, -1):
            before = (
                s
                for s, e in names.get(path[:depth], ())
                if text[e:first].strip() == "."
            )
            first = next(before, 0)
        if text[_line_start(text, first) : first].strip() not in ("[", "[["):
            raise CannotEdit("the table is not written as a header")
        yield Edit(first, end, ".".join(map(key_text, to)))


def add_header(document: Document, path: Path, section: str) -> Edit:
    """Write ``[section]`` above the line of a key.

    All keys below, up to the next header, then belong to the section. None of them may
    be a table, because a table may be another section written with dots.
    """
    start = _line_start(document.text, _span(document.spans.keys, path)[0])
    for (name, *below), (place, _) in document.spans.keys.items():
        moved = not below and place >= start and not _is_header(document.text, place)
        if moved and isinstance(document.values[str(name)], dict):
            raise CannotEdit(f"`{name}` is a table")
    return Edit(start, start, f"[{key_text(section)}]{_newline(document.text, start)}")


def _span(spans: dict[Path, Span], path: Path) -> Span:
    span = spans.get(path)
    if span is None:
        raise CannotEdit("not a key with a value")
    return span


def _own_lines(text: str, key: Span, value: Span) -> tuple[int, re.Match[str]]:
    """Return where the lines of a key and value start, and what follows the value."""
    start = _line_start(text, key[0])
    rest = re.compile(_REST).match(text, value[1])
    if rest is None or _shared(text[start : key[0]]):
        raise CannotEdit("the key shares its line")
    return start, rest


def _add(document: Document, table: Path, pairs: list[str]) -> Edit:
    """Add keys to a table: after its last key, below its header, or with a header."""
    text, spans = document.text, document.spans
    if _inline(document, table):
        return _add_inline(document, spans.values[table], ", ".join(pairs))
    siblings = [
        (span, spans.keys[path][0])
        for path, span in spans.values.items()
        if path[:-1] == table and path in spans.keys
    ]
    if siblings:
        (_, end), key = max(siblings)
        return _below(text, end, text[_line_start(text, key) : key], pairs)
    if (*table, 0) in spans.keys or table in spans.values:
        raise CannotEdit("not a table")
    header = spans.keys.get(table)
    if header is None and not table:  # above the first header
        start = _line_start(text, min((at for at, _ in spans.keys.values()), default=0))
        newline = _newline(text, start)
        return Edit(start, start, "".join(f"{pair}{newline}" for pair in pairs))
    if header is None:
        return _new_table(text, table, pairs)
    if not _is_header(text, header[0]):
        end = min(end for start, end in spans.values.values() if start > header[1])
        prefix = text[_line_start(text, header[0]) : header[1]]
        return _below(text, end, f"{prefix}.", pairs)
    closing = re.compile(_CLOSING).match(text, header[1])
    if closing is None:
        return _new_table(text, table, pairs)
    return _below(text, closing.end(), "", pairs)


def _inline(document: Document, table: Path) -> bool:
    span = document.spans.values.get(table)
    return span is not None and document.text[span[0]] == "{"


def _add_inline(document: Document, table: Span, pairs: str) -> Edit:
    start, stop = table
    ends = (end for at, end in document.spans.values.values() if start < at < stop)
    last = max(ends, default=0)
    return Edit(last, last, f", {pairs}") if last else Edit(*table, f"{{ {pairs} }}")


def _below(text: str, offset: int, prefix: str, pairs: list[str]) -> Edit:
    """Insert lines below the line that contains ``offset``."""
    rest = re.compile(_REST).match(text, offset)
    if rest is None or _shared(prefix):
        raise CannotEdit("the table shares its line")
    newline = _newline(text, offset)
    indent = prefix[: len(prefix) - len(prefix.lstrip())]
    lines = newline.join(
        f"{indent if pair.startswith('#') else prefix}{pair}" for pair in pairs
    )
    added = f"{lines}{rest[3]}" if rest[3] else f"{newline}{lines}"
    return Edit(rest.end(), rest.end(), added)


def _new_table(text: str, table: Path, pairs: list[str]) -> Edit:
    newline = _newline(text, len(text))
    gap = newline if text.endswith("\n") else 2 * newline
    header = f"[{'.'.join(map(key_text, table))}]"
    lines = [gap * bool(text) + header, *pairs, ""]
    return Edit(len(text), len(text), newline.join(lines))


def _remove_inline(text: str, key: Span, value: Span) -> Edit:
    before = len(text[: key[0]].rstrip(" \t\r\n"))
    space = re.compile(_SPACE).match(text, value[1])
    after = space.end() if space else value[1]
    if text[before - 1] not in "{,":
        raise CannotEdit("a dotted key in an inline table")
    if text[after] == ",":
        space = re.compile(_SPACE).match(text, after + 1)
        return Edit(key[0], space.end() if space else after + 1, "")
    return Edit(before - (text[before - 1] == ","), value[1], "")


def _line_start(text: str, offset: int) -> int:
    return text.rfind("\n", 0, offset) + 1


def _is_header(text: str, offset: int) -> bool:
    """Return whether the line of a key is a table's header."""
    return text[_line_start(text, offset) : offset].lstrip().startswith("[")


def _shared(prefix: str) -> bool:
    """Return whether more than parts of a dotted key precedes a key on its line."""
    return any(sign in prefix for sign in "={[,")


def _newline(text: str, offset: int) -> str:
    """Return the line ending at ``offset``; for the last line, of the one before."""
    end = text.find("\n", offset)
    end = text.rfind("\n") if end < 0 else end
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"
