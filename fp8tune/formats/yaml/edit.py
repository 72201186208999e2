"""Edit a YAML text: every byte outside an edit stays as it is.

Each function reads its result and raises ``CannotEdit`` unless exactly the wanted
values have changed: an edit at an anchor, for instance, would change other places too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import yaml

from fp8tune.formats.document import InvalidText, Path, Span, Unreadable
from fp8tune.formats.edits import CannotEdit, Edit, apply
from fp8tune.formats.yaml.literal import key_text, literal, quote_of
from fp8tune.formats.yaml.nodes import properties

if TYPE_CHECKING:
    from fp8tune.formats.yaml.document import Document

_REST = re.compile(r"([ \t]*)(#[^\r\n]*)?(\r?\n|\Z)")
_COMMENT_LINE = re.compile(r"[ \t]*#[^\n]*\n\Z")


class _Section(dict[str, Any]):
    """A mapping that is to be written as a block, its keys on lines of their own."""


class _Written(str):
    """The text of a value, to be written as it is."""

    __slots__ = ()


def set_values(document: Document, values: Mapping[Path, Any]) -> Iterator[Edit]:
    """Set keys: replace their values, or add them to their tables."""
    edits: list[Edit] = []
    added: dict[Path, _Section] = {}
    wanted = _copy(document.values)
    for path, given in values.items():
        value = str(given) if isinstance(given, str) else given  # no name of a fact
        _put(wanted, path, value)
        if path in document.spans.values:
            edits += _replaced(document, path, value)
        elif path in document.spans.keys:
            raise CannotEdit(f"`{path[-1]}` is a table")
        else:
            table = _existing(document, path)
            _put(added.setdefault(table, _Section()), path[len(table) :], value)
    edits += [_add(document, table, new) for table, new in added.items()]
    return _checked(document, edits, wanted)


def rename_key(document: Document, path: Path, name: str) -> Iterator[Edit]:
    """Give a key another name in the same table."""
    wanted = _copy(document.values)
    table = _at(wanted, path[:-1])
    if name in table or path not in document.spans.names:
        raise CannotEdit(f"`{name}` is already there")
    table[name] = table.pop(path[-1])
    new = key_text(name)
    edits = [Edit(*span, new) for span in document.spans.names[path]]
    return _checked(document, edits, wanted)


def remove_key(document: Document, path: Path) -> Edit:
    """Remove a key and its value; a comment after it stays."""
    wanted = _copy(document.values)
    _at(wanted, path[:-1]).pop(path[-1], None)
    return next(_checked(document, [_removal(document, path)], wanted))


def move_key(document: Document, path: Path, to: Path) -> Iterator[Edit]:
    """Move a key with its value as written and its comments; or rename it in place."""
    if path[:-1] == to[:-1]:
        return rename_key(document, path, str(to[-1]))
    if to in document.tree.nodes:
        raise CannotEdit("no room for it")
    wanted = _copy(document.values)
    _put(wanted, to, _at(wanted, path[:-1]).pop(path[-1]))
    text = document.text
    start, end = _span(document, path)
    if "\n" in text[start:end]:
        raise CannotEdit("a value of several lines")
    table = _existing(document, to)
    target = document.tree.nodes[table]
    removal, value, above = _removal(document, path), text[start:end], ""
    if not (isinstance(target, yaml.MappingNode) and target.flow_style):
        removal, value, above = _with_comments(document, path, removal)
    new = _Section()
    _put(new, to[len(table) :], _Written(value))
    added = _add(document, table, new, above=above.splitlines())
    return _checked(document, [removal, added], wanted)


def _with_comments(
    document: Document, path: Path, removal: Edit
) -> tuple[Edit, str, str]:
    """Return a removal that takes a key's comments along, its value, and those above.

    Above the first key of a table may be what is said of the whole table.
    """
    text, (start, end) = document.text, document.spans.values[path]
    line, rest = _line_start(text, removal.start), _REST.match(text, end)
    if rest is None or text[line : removal.start].strip() or removal.text:
        return removal, text[start:end], ""
    if rest[2]:
        removal = Edit(line, rest.end(), "")
    first, _ = document.tree.nodes[path[:-1]].value[0]
    place = line if first.value == path[-1] else _above(text, line)
    value = text[start : rest.end(2) if rest[2] else end]
    return removal._replace(start=min(place, removal.start)), value, text[place:line]


def _checked(document: Document, edits: list[Edit], wanted: Any) -> Iterator[Edit]:
    """Return the edits if they give these values; raises ``CannotEdit``."""
    try:
        values = document.read(apply(document.text, edits)).values
    except (InvalidText, Unreadable) as error:
        raise CannotEdit(f"in this layout: {error}") from None
    if not same(values, wanted):
        raise CannotEdit("in this layout, other values would change too")
    return iter(edits)


def same(one: Any, other: Any) -> bool:
    """Return whether values are equal and of equal types; NaN equals itself."""
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(same(one[key], other[key]) for key in one)
        )
    if isinstance(one, list):
        return (
            isinstance(other, list)
            and len(one) == len(other)
            and all(map(same, one, other))
        )
    if isinstance(one, str) and isinstance(other, str):
        return one == other  # a fix may write a kind of text
    return type(one) is type(other) and (one == other or one != one)


def _copy(value: Any) -> Any:
    """Return a copy in which nothing is shared; a tuple becomes a list."""
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [*map(_copy, value)] if isinstance(value, (list, tuple)) else value


def _at(values: Any, path: Path) -> Any:
    for part in path:
        values = values[part]
    return values


def _put(values: Any, path: Path, value: Any) -> None:
    """Set a value, and create the tables above it."""
    for part in path[:-1]:
        if isinstance(values, dict) and values.get(part) is None:
            values[part] = type(values)()
        values = values[part] if _has_room(values, part) else None
    if not _has_room(values, path[-1]):
        raise CannotEdit(f"there is no table for `{path[-1]}`")
    values[path[-1]] = value if isinstance(value, _Written) else _copy(value)


def _has_room(values: Any, part: str | int) -> bool:
    if isinstance(values, dict):
        return isinstance(part, str)
    return isinstance(values, list) and part in range(len(values))


def _span(document: Document, path: Path) -> Span:
    if path not in document.spans.values:
        raise CannotEdit(f"`{path[-1]}` is a table")
    return document.spans.values[path]


def _existing(document: Document, path: Path) -> Path:
    """Return the table that a new key goes to, or that its own table goes to."""
    ends = range(len(path) - 1, -1, -1)
    return next(path[:end] for end in ends if path[:end] in document.tree.nodes)


def _without_comments(document: Document, start: int, end: int) -> None:
    """Raise ``CannotEdit`` if a comment stands in a stretch of text."""
    if "#" in document.text[start:end] and any(
        start <= comment[0] < end for comment in document.comments()
    ):
        raise CannotEdit("a comment would be lost")


def _replaced(document: Document, path: Path, value: Any) -> Iterator[Edit]:
    """Yield what replaces a value; in a list of equal length, the items that differ."""
    node, text = document.tree.nodes[path], document.text
    start, end = document.spans.values[path]
    old = _at(document.values, path)
    if same(old, value := _copy(value)):
        return
    if isinstance(old, list) and isinstance(value, list) and len(old) == len(value):
        for index, item in enumerate(value):
            yield from _replaced(document, (*path, index), item)
        return
    _without_comments(document, start, end)
    if "!" in properties(text, node):
        raise CannotEdit("a value with a tag")
    new = literal(value, quote_of(text[start:end]))
    if start == end:
        if text[start - 1 : start] not in (":", "-"):
            raise CannotEdit("a key without a colon")
        yield Edit(start, end, f" {new}")
    elif isinstance(node, yaml.SequenceNode) and not node.flow_style:
        yield _one_line(document, path, new)
    else:
        yield Edit(start, end, new)


def _one_line(document: Document, path: Path, new: str) -> Edit:
    """Replace a block list by its text on the line of its key."""
    start, end = document.spans.values[path]
    before = document.text[:start].rstrip()
    if before.endswith(":"):
        return Edit(len(before), end, f" {new}")
    if before.endswith("-"):
        return Edit(start, end, new)
    raise CannotEdit("something stands between the key and its list")


def _add(
    document: Document, table: Path, new: _Section, above: list[str] | None = None
) -> Edit:
    """Add keys to a table; ``above`` are comments above the first of them."""
    node, text = document.tree.nodes[table], document.text
    if isinstance(node, yaml.MappingNode) and node.flow_style:
        return _add_to_flow(document, node, new)
    newline = "\r\n" if "\r\n" in text else "\n"
    if isinstance(node, yaml.MappingNode):
        end = document.tree.end_of(node)
        indent = _column(text, node.value[0][0].start_mark.index)
    elif node is None:
        end, indent = len(text), 0
        if not text or text.endswith("\n"):
            lines = [*(above or ()), *_lines(new, 0, 2)]
            return Edit(end, end, "".join(f"{line}{newline}" for line in lines))
    elif _at(document.values, table) is None and table in document.spans.keys:
        end = document.spans.values[table][1]
        indent = _column(text, document.spans.keys[table][0]) + _step(document)
    else:
        raise CannotEdit(f"`{table[-1]}` is no table")
    rest = _REST.match(text, end)
    if rest is None:
        raise CannotEdit("the table's last line has more on it")
    blanks = " " * indent
    remarks = [f"{blanks}{line.strip()}" for line in above or ()]
    lines = [*remarks, *_lines(new, indent, _step(document))]
    at = rest.start(3)
    return Edit(at, at, "".join(f"{newline}{line}" for line in lines))


def _add_to_flow(document: Document, node: Any, new: _Section) -> Edit:
    start, _ = document.tree.span(node)
    if document.text[start] != "{":
        raise CannotEdit("a mapping without braces")
    pairs = ", ".join(f"{key_text(k)}: {_text_of(v)}" for k, v in new.items())
    if not node.value:
        return Edit(start + 1, start + 1, pairs)
    end = document.tree.end_of(node.value[-1])
    return Edit(end, end, f", {pairs}")


def _text_of(value: Any) -> str:
    if isinstance(value, _Section):
        pairs = (f"{key_text(k)}: {_text_of(v)}" for k, v in value.items())
        return f"{{{', '.join(pairs)}}}"
    return value if isinstance(value, _Written) else literal(value)


def _lines(new: _Section, indent: int, step: int) -> Iterator[str]:
    for name, value in new.items():
        if isinstance(value, _Section):
            yield f"{' ' * indent}{key_text(name)}:"
            yield from _lines(value, indent + step, step)
        else:
            yield f"{' ' * indent}{key_text(name)}: {_text_of(value)}"


def _step(document: Document) -> int:
    """Return by how many columns the file indents, two if it does not."""
    keys = document.spans.keys
    first = next((path for path in keys if len(path) == 2), ())
    if not first or first[:1] not in keys:
        return 2
    inner, outer = (_column(document.text, keys[p][0]) for p in (first, first[:1]))
    return inner - outer if 0 < inner - outer <= 8 else 2


def _removal(document: Document, path: Path) -> Edit:
    """Return the edit that removes a key and its value, of a block with its line."""
    names, text = document.spans.names.get(path, []), document.text
    value = _span(document, path)
    if len(names) != 1:
        raise CannotEdit("no key of its own")
    table = document.tree.nodes[path[:-1]]
    own = [key.value for key, _ in table.value]
    if path[-1] not in own:
        raise CannotEdit("a key that << brings")
    index = own.index(path[-1])
    start = table.value[index][0].start_mark.index
    end = max(value[1], names[0][1])
    _without_comments(document, start, end)
    if table.flow_style:
        return _removal_in_flow(document, table, index)
    if len(table.value) == 1:
        return Edit(start, end, "{}")
    line = _line_start(text, start)
    rest = _REST.match(text, end)
    if rest is None or (rest[2] and text[line:start].strip()):
        raise CannotEdit("a comment would be lost")
    if not text[line:start].strip():
        return Edit(start, rest.start(2), "") if rest[2] else Edit(line, rest.end(), "")
    if index + 1 == len(table.value):
        raise CannotEdit("the line has more on it")
    following = table.value[index + 1][0].start_mark.index
    _without_comments(document, end, following)
    return Edit(start, following, "")


def _removal_in_flow(document: Document, table: Any, index: int) -> Edit:
    end_of, pairs = document.tree.end_of, table.value
    start, end = pairs[index][0].start_mark.index, end_of(pairs[index])
    if index + 1 < len(pairs):
        end = pairs[index + 1][0].start_mark.index
    elif index:
        start = end_of(pairs[index - 1])
    _without_comments(document, start, end)
    return Edit(start, end, "")


def _above(text: str, line: int) -> int:
    """Return the start of the comment lines right above a line."""
    while (place := _line_start(text, line - 1)) < line:
        if not _COMMENT_LINE.fullmatch(text[place:line]):
            break
        line = place
    return line


def _line_start(text: str, offset: int) -> int:
    return text.rfind("\n", 0, max(offset, 0)) + 1


def _column(text: str, offset: int) -> int:
    return offset - _line_start(text, offset)


def add_header(document: Document, path: Path, section: str) -> Edit:  # noqa: ARG001
    """Raise ``CannotEdit``: a section of YAML is no line above its keys."""
    raise CannotEdit("YAML has no headers")
