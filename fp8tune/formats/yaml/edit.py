"""Edit a YAML text: every byte outside an edit stays as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import yaml

from fp8tune.formats.document import Path, Span
from fp8tune.formats.edits import CannotEdit, Edit
from fp8tune.formats.values import copied, put, same, value_at
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


def set_values(document: Document, values: Mapping[Path, Any]) -> list[Edit]:
    """Set keys: replace their values, or add them to their tables."""
    edits: list[Edit] = []
    added: dict[Path, _Section] = {}
    for path, given in values.items():
        value = str(given) if isinstance(given, str) else given  # no name of a fact
        if path in document.spans.values:
            edits += _replaced(document, path, value)
        elif path in document.spans.keys:
            raise CannotEdit(f"`{path[-1]}` is a table")
        else:
            table = _existing(document, path)
            put(added.setdefault(table, _Section()), path[len(table) :], value)
    return edits + [_add(document, table, new) for table, new in added.items()]


def rename_key(document: Document, path: Path, name: str) -> list[Edit]:
    """Give a key another name in the same table."""
    return [Edit(*span, key_text(name)) for span in document.spans.names[path]]


def move_key(document: Document, path: Path, to: Path) -> list[Edit]:
    """Move a key with its value as written and its comments."""
    text = document.text
    start, end = _span(document, path)
    if "\n" in text[start:end]:
        raise CannotEdit("a value of several lines")
    table = _existing(document, to)
    target = document.tree.nodes[table]
    removal, value, above = remove_key(document, path), text[start:end], ""
    if not (isinstance(target, yaml.MappingNode) and target.flow_style):
        removal, value, above = _with_comments(document, path, removal)
    new = _Section()
    put(new, to[len(table) :], _Written(value))
    return [removal, _add(document, table, new, above=above.splitlines())]


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
    old = value_at(document.values, path)
    if same(old, value := copied(value)):
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
    elif value_at(document.values, table) is None and table in document.spans.keys:
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


def remove_key(document: Document, path: Path) -> Edit:
    """Remove a key and its value, of a block with its line; a comment stays."""
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


def remove_table(document: Document, path: Path) -> Iterator[Edit]:
    """Remove a block mapping with its key, and the comments in it."""
    text, table = document.text, document.tree.nodes[path[:-1]]
    pair = next((each for each in table.value if each[0].value == path[-1]), None)
    if pair is None or table.flow_style:
        raise CannotEdit("not a table with lines of its own")
    key, value = pair
    start = key.start_mark.index
    line = _line_start(text, start)
    is_alias = value.start_mark.index < start
    newline = text.find("\n", start)
    end = newline if is_alias else document.tree.end_of(pair)
    rest = _REST.match(text, end) if end >= 0 else None
    if rest is None or text[line:start].strip():
        raise CannotEdit("the line has more on it")
    yield Edit(line, rest.end(), "")


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
