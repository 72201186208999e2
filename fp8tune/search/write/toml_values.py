"""Set values in a TOML config by tomlkit; every other byte stays as it was.

The result is checked against the original. A layout that tomlkit does not preserve is
refused with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fp8tune.formats.edits import CannotEdit, Edit, apply
from fp8tune.formats.toml.document import comments, parse
from fp8tune.formats.toml.edit import remove_key
from fp8tune.formats.toml.literal import key_text, literal, quote_of

if TYPE_CHECKING:
    from tomlkit import TOMLDocument
    from tomlkit.items import InlineTable, Item, Key, Table

Names = tuple[str, ...]
"""The names of the tables around a key, and its own."""
_HEADERS = r"(?:\s*\[[^\n]*\])*\s*"


def set_values(text: str, values: Mapping[Names, Any]) -> str:
    """Return a TOML text with other values of keys; raises ``CannotEdit``."""
    document = _parsed(text)
    for path, value in values.items():
        try:
            _set(document, path, value, text)
        except CannotEdit as error:
            raise CannotEdit(f"{'.'.join(path)}: {error}") from None
    after: str = document.as_string()
    _check(text, after, values)
    return after


def _parsed(text: str) -> TOMLDocument:
    """Parse a config; raise ``CannotEdit`` if tomlkit would change its bytes."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
        again = document.as_string()
    except (TOMLKitError, RecursionError) as error:
        raise CannotEdit(f"tomlkit cannot read this file: {error}") from None
    if again != text:
        same = (a == b for a, b in zip(text, again, strict=False))
        place = next((i for i, alike in enumerate(same) if not alike), 0)
        line, column = parse(text.encode()).lines.position(place)
        raise CannotEdit(
            f"line {line}, column {column}: tomlkit, which writes the config, would "
            "change this line; rewrite it first"
        )
    return document


class _Place(NamedTuple):
    """The place of a key; ``line`` is the first item on its line."""

    table: TOMLDocument | Table | InlineTable
    item: Item
    line: Item


def _places(document: TOMLDocument) -> dict[Names, _Place]:
    """Return every key that has a value, in the order of the text."""
    return dict(_below(document, ()))


def _below(
    table: Any, path: Names, line: Item | None = None
) -> Iterator[tuple[Names, _Place]]:
    from tomlkit.items import InlineTable, Table

    for key, item in _body(table):
        if key is None:
            continue
        here = (*path, key.key)
        if isinstance(item, Table):
            yield from _below(item, here, line)
            continue
        yield here, _Place(table, item, line or item)
        if isinstance(item, InlineTable):
            yield from _below(item, here, line or item)


def _body(table: Any) -> list[tuple[Key | None, Item]]:
    """Return the items of a document or a table, which may be changed in place."""
    body: list[tuple[Key | None, Item]] = (
        table.body if hasattr(table, "body") else table.value.body
    )
    return body


def _set(document: TOMLDocument, path: Names, value: Any, text: str) -> None:
    """Set one value; its quotes and a comment after it stay."""
    import tomlkit

    place = _places(document).get(path)
    if place is None:
        _add(document, path, tomlkit.value(literal(value)), text)
        return
    old = place.item.unwrap()
    if type(old) is not type(value) or old != value:
        raw = literal(value, quote_of(place.item.as_string()))
        place.table[path[-1]] = tomlkit.value(raw)


def _add(document: TOMLDocument, path: Names, value: Item, text: str) -> None:
    """Add a key after the last one of its table, or in a new table at the end."""
    import tomlkit

    table, name = path[:-1], path[-1]
    places = _places(document)
    key_text(name)  # refuses control characters
    below = any(other[: len(path)] == path for other in places)
    if below or _header(document, path) is not None:
        raise CannotEdit(f"`{name}` is a table")
    if any(path[:end] in places for end in range(1, len(table))):
        raise CannotEdit("a table around it is written in one line")
    if table in places:
        _add_inline(places[table].item, name, value)
        return
    siblings = [
        place
        for other, place in places.items()
        if other[:-1] == table and not place.item.is_aot()
    ]
    newline = _newline(text)
    if siblings:
        parent, above, line = siblings[-1]
        if above is not line:
            raise CannotEdit("a table around it is written in one line")
        value.trivia.indent, at = above.trivia.indent, _index(parent, above) + 1
    elif table:
        parent, at = _header(document, table), 0
        if parent is None:
            parent = _new_table(document, table, newline)
        above = parent
    else:
        raise CannotEdit("the file has no keys outside of tables")
    value.trivia.trail = newline
    if not above.trivia.trail:  # the file ends there, without a line ending
        above.trivia.trail, value.trivia.trail = newline, ""
    _body(parent).insert(at, (tomlkit.key(name), value))


def _add_inline(table: Item, name: str, value: Item) -> None:
    """Add a key after the last one of an inline table."""
    import tomlkit
    from tomlkit.items import Whitespace

    if not table.is_inline_table():
        raise CannotEdit("its parent is not a table")
    body = _body(table)
    keys = [index for index, (key, _) in enumerate(body) if key is not None]
    at = keys[-1] + 1 if keys else 0
    value.trivia.trail = ""
    body[at:at] = [(tomlkit.key(name), value)]
    if keys:
        body[at:at] = [(None, Whitespace(",")), (None, Whitespace(" "))]


def _header(table: Any, path: Names) -> Any:
    """Return the table of a path if it has its own header or dotted keys."""
    from tomlkit.items import Table

    if not path:
        return table
    for key, item in _body(table):
        if key is not None and key.key == path[0] and isinstance(item, Table):
            found = _header(item, path[1:])
            if found is not None and (
                found is not item or key.is_dotted() or not item.is_super_table()
            ):
                return found
    return None


def _new_table(document: TOMLDocument, path: Names, newline: str) -> Table:
    """Append a table of that path to the file."""
    import tomlkit

    table = outer = tomlkit.table()
    if text := document.as_string():
        table.trivia.indent = newline
    if text and not text.endswith("\n"):
        document.body.append((None, tomlkit.ws(newline)))
    table.trivia.trail = newline
    for name in reversed(path[1:]):
        inner, outer = outer, tomlkit.table(is_super_table=True)
        _body(outer).append((tomlkit.key(name), inner))
    document.body.append((tomlkit.key(path[0]), outer))
    return table


def _index(table: Any, item: Item) -> int:
    return next(i for i, (_, other) in enumerate(_body(table)) if other is item)


def _newline(text: str) -> str:
    """Return the first line ending of a text."""
    return "\r\n" if text[: text.find("\n") + 1].endswith("\r\n") else "\n"


def _check(before: str, after: str, values: Mapping[Names, Any]) -> None:
    """Raise ``CannotEdit`` if anything but these values has changed.

    The new values are correct, no comment of the user is lost, and undoing the changes
    with another editor gives the original bytes.
    """
    import tomllib

    wanted = tomllib.loads(before)
    for path, value in values.items():
        table = wanted
        for name in path[:-1]:
            table = table.setdefault(name, {})
        table[path[-1]] = value
    try:
        right = _typed(tomllib.loads(after)) == _typed(wanted)
        right = right and _comments(before) == _comments(after)
        right = right and _is_same(before, _undone(before, after, [*values]))
    except (tomllib.TOMLDecodeError, CannotEdit, KeyError):
        right = False
    if not right:
        keys = ", ".join(map(".".join, values))
        raise CannotEdit(
            f"{keys}: tomlkit cannot write this without changing other parts of the "
            "file; set it in a table of its own, such as [train]"
        )


def _undone(before: str, after: str, paths: Sequence[Names]) -> str:
    """Return the text with the old values restored and the new keys removed."""
    old = parse(before.encode())
    for path in reversed(paths):
        new = parse(after.encode())
        if span := old.spans.values.get(path):
            edit = Edit(*new.spans.values[path], before[slice(*span)])
        else:
            edit = remove_key(new, path)
        after = apply(after, [edit])
    return after


def _is_same(before: str, undone: str) -> bool:
    """Return whether two texts differ only in headers of new tables at the end."""
    stem = before.rstrip("\r\n")
    rest = undone[len(stem) :]
    return undone.startswith(stem) and bool(re.fullmatch(_HEADERS, rest))


def _comments(text: str) -> list[str]:
    return [text[start:end].rstrip() for start, end in comments(text)]


def _typed(value: Any) -> Any:
    """Return values with their types, so that 1 is not true and nan is nan."""
    if isinstance(value, dict):
        return {key: _typed(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return list(map(_typed, value))
    return type(value), repr(value)
