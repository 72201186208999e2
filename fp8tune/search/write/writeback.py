"""Write the chosen values into the user's config, with comments that say why.

A block of whole sentences is written above the first changed key, and a reason above
each changed key. Comments go above, not after, a key: then the user's own comment after
a key stays, keys that share a line have room, and the next search replaces whole lines.
Every other byte stays: the result is checked against the original. A layout that
tomlkit does not preserve is refused with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fp8tune.config.mark import SEARCH
from fp8tune.formats.edits import CannotEdit, Edit, apply
from fp8tune.formats.toml.document import comments, parse
from fp8tune.formats.toml.edit import remove_key
from fp8tune.formats.toml.literal import key_text, literal, quote_of
from fp8tune.search import CannotSearch
from fp8tune.words import plain, wrapped

if TYPE_CHECKING:
    from tomlkit import TOMLDocument
    from tomlkit.items import InlineTable, Item, Key, Table

MARK = SEARCH
"""How every comment begins that a search writes into a config."""
MEASURED = "fp8tune search measured"
"""How the reason of an ignore comment begins that a search has written."""
WIDTH = 100
"""Longest line of a comment, unless a word is longer [characters]."""
BLOCK = 16
"""Most lines of the block above the first changed key."""
LONGEST = 400
"""Longest text that is written [characters]; records may hold anything."""
Names = tuple[str, ...]
"""The names of the tables around a key, and its own."""
_BOM = "\ufeff"
_HEADERS = r"(?:\s*\[[^\n]*\])*\s*"


class Choice(NamedTuple):
    """A key, its new value, and one line with its old value and the reason."""

    key: str
    value: Any
    reason: str = ""

    @property
    def path(self) -> Names:
        """The names of the tables and the key."""
        return tuple(self.key.split("."))


class CannotWrite(CannotSearch):
    """The values cannot be written into this file; the message says why in one line."""


def write_back(
    data: bytes, choices: Iterable[Choice], summary: Iterable[str] = ()
) -> bytes:
    """Return the bytes of a config with the choices and their comments written.

    ``summary`` is the text of the block, one sentence per line. Comments of an earlier
    search are replaced. ``data`` must be valid TOML. Raises ``CannotWrite``.
    """
    whole = data.decode()
    text = _without_own(whole.removeprefix(_BOM))
    chosen = list(choices)
    document = _parsed(text)
    for choice in chosen:
        _set(document, choice, text)
    if chosen:
        _comment(document, chosen, list(summary), _newline(text))
    after: str = document.as_string()
    _check(text, after, chosen)
    return f"{_BOM * whole.startswith(_BOM)}{after}".encode()


def _without_own(text: str) -> str:
    """Return the config without the comments of an earlier search."""
    edits = []
    for start, end in comments(text):
        line, newline = text.rfind("\n", 0, start) + 1, text.find("\n", end)
        if not text[line:start].strip() and is_own(text[start:end]):
            edits.append(Edit(line, len(text) if newline < 0 else newline + 1, ""))
    return apply(text, edits)


def is_own(comment: str) -> bool:
    """Return whether a search, of this version or an earlier one, wrote a comment."""
    ignores = comment.startswith("# fp8tune: ignore[") and f" -- {MEASURED}" in comment
    return ignores or comment.startswith(MARK)


def _parsed(text: str) -> TOMLDocument:
    """Parse a config; raise ``CannotWrite`` if tomlkit would change its bytes."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
        again = document.as_string()
    except (TOMLKitError, RecursionError) as error:
        raise CannotWrite(f"tomlkit cannot read this file: {error}") from None
    if again != text:
        same = (a == b for a, b in zip(text, again, strict=False))
        place = next((i for i, alike in enumerate(same) if not alike), 0)
        line, column = parse(text.encode()).lines.position(place)
        raise CannotWrite(
            f"line {line}, column {column}: tomlkit, which writes the config, would "
            "change this line; rewrite it first"
        )
    return document


class _Place(NamedTuple):
    """The place of a key; ``line`` is the first item on its line, in ``line_of``."""

    table: TOMLDocument | Table | InlineTable
    item: Item
    line_of: TOMLDocument | Table
    line: Item


def _places(document: TOMLDocument) -> dict[Names, _Place]:
    """Return every key that has a value, in the order of the text."""
    return dict(_below(document, ()))


def _below(
    table: Any, path: Names, line: tuple[Any, Any] | None = None
) -> Iterator[tuple[Names, _Place]]:
    from tomlkit.items import InlineTable, Table

    for key, item in _body(table):
        if key is None:
            continue
        here = (*path, key.key)
        if isinstance(item, Table):
            yield from _below(item, here, line)
            continue
        yield here, _Place(table, item, *(line or (table, item)))
        if isinstance(item, InlineTable):
            yield from _below(item, here, line or (table, item))


def _body(table: Any) -> list[tuple[Key | None, Item]]:
    """Return the items of a document or a table, which may be changed in place."""
    body: list[tuple[Key | None, Item]] = (
        table.body if hasattr(table, "body") else table.value.body
    )
    return body


def _set(document: TOMLDocument, choice: Choice, text: str) -> None:
    """Set one value; its quotes and a comment after it stay."""
    import tomlkit

    path, place = choice.path, _places(document).get(choice.path)
    try:
        if place is None:
            _add(document, path, tomlkit.value(literal(choice.value)), text)
            return
        old = place.item.unwrap()
        if type(old) is type(choice.value) and old == choice.value:
            return
        raw = literal(choice.value, quote_of(place.item.as_string()))
    except CannotEdit as error:
        raise CannotWrite(f"{choice.key}: {error}") from None
    place.table[path[-1]] = tomlkit.value(raw)


def _add(document: TOMLDocument, path: Names, value: Item, text: str) -> None:
    """Add a key after the last one of its table, or in a new table at the end."""
    import tomlkit

    table, name = path[:-1], path[-1]
    places = _places(document)
    key_text(name)  # refuses control characters
    below = any(known[: len(path)] == path for known in places)
    if below or _header(document, path) is not None:
        raise CannotEdit(f"`{name}` is a table")
    if any(path[:end] in places for end in range(1, len(table))):
        raise CannotEdit("a table around it is written in one line")
    if table in places:
        _add_inline(places[table].item, name, value)
        return
    siblings = [
        place
        for known, place in places.items()
        if known[:-1] == table and not place.item.is_aot()
    ]
    newline = _newline(text)
    if siblings:
        _, above, parent, line = siblings[-1]
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


def _comment(
    document: TOMLDocument, chosen: list[Choice], summary: list[str], newline: str
) -> None:
    """Write the block above the first changed key, and a line above each."""
    import tomlkit

    places, by_path = _places(document), {choice.path: choice for choice in chosen}
    lines: dict[int, list[Names]] = {}
    for path in places:
        if path in by_path:
            lines.setdefault(id(places[path].line), []).append(path)
    for number, paths in enumerate(lines.values()):
        _, _, table, item = places[paths[0]]
        indent = item.trivia.indent
        width = max(20, WIDTH - len(indent) - len(MARK))
        own = [by_path[path] for path in paths if by_path[path].reason]
        alone = len(paths) == 1
        texts = [c.reason if alone else f"{c.key}: {c.reason}" for c in own]
        said = _block(summary, width) if number == 0 else []
        at = _index(table, item)
        reasons = (line for text in texts for line in _wrapped(text, width))
        for line in [*said, *reasons]:
            made = tomlkit.comment(f"{MARK.removeprefix('# ')}{line}")
            made.trivia.indent, made.trivia.trail = indent, item.trivia.trail or newline
            _body(table).insert(at, (None, made))
            at += 1


def _block(summary: Sequence[str], width: int) -> list[str]:
    """Return the lines of the block: the texts that fit as a whole."""
    lines: list[str] = []
    for text in summary:
        more = _wrapped(text, width)
        if len(lines) + len(more) <= BLOCK:
            lines += more
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    """Return a text in lines, the last of which is no single word.

    A text that is longer than people read has none.
    """
    if len(text := plain(text[: LONGEST + 1])) > LONGEST:
        return []
    lines = wrapped(text, width)
    while len(lines) > 1 and " " not in lines[-1] and width > len(lines[-1]):
        width -= 1
        lines = wrapped(text, width)
    return lines


def _newline(text: str) -> str:
    """Return the first line ending of a text."""
    return "\r\n" if text[: text.find("\n") + 1].endswith("\r\n") else "\n"


def _check(before: str, after: str, chosen: Sequence[Choice]) -> None:
    """Raise ``CannotWrite`` if anything but the chosen values has changed.

    The new values are correct, no comment of the user is lost, and undoing the changes
    with another editor gives the original bytes.
    """
    import tomllib

    wanted = tomllib.loads(before)
    for choice in chosen:
        table = wanted
        for name in choice.path[:-1]:
            table = table.setdefault(name, {})
        table[choice.path[-1]] = choice.value
    undone = _without_own(after)
    try:
        right = _typed(tomllib.loads(after)) == _typed(wanted)
        right = right and _users_comments(before) == _users_comments(undone)
        right = right and _is_same(before, _undone(before, undone, chosen))
    except (tomllib.TOMLDecodeError, CannotEdit, KeyError):
        right = False
    if not right:
        keys = ", ".join(choice.key for choice in chosen)
        raise CannotWrite(
            f"{keys}: tomlkit cannot write this without changing other parts of the "
            "file; set it in a table of its own, such as [train]"
        )


def _undone(before: str, after: str, chosen: Sequence[Choice]) -> str:
    """Return the text with the old values restored and the new keys removed."""
    old = parse(before.encode())
    for choice in reversed(chosen):
        new, path = parse(after.encode()), choice.path
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


def _users_comments(text: str) -> list[str]:
    return [text[start:end].rstrip() for start, end in comments(text)]


def _typed(value: Any) -> Any:
    """Return values with their types, so that 1 is not true and nan is nan."""
    if isinstance(value, dict):
        return {key: _typed(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return list(map(_typed, value))
    return type(value), repr(value)
