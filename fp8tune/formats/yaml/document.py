"""One YAML file: the values that its trainer's loader reads, and where they stand.

An alias is its anchor's value: spans of what it brings point at the anchor's place. So
do those of keys that ``<<`` merges into a mapping. Keys are named as written, even
those that the loader takes for numbers (``1:``) or booleans (``on:``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import yaml

from fp8tune.formats.document import (
    Lines,
    Path,
    Repeated,
    Span,
    Spans,
    Unreadable,
)
from fp8tune.formats.edits import CannotEdit
from fp8tune.formats.yaml import scalars
from fp8tune.formats.yaml.compose import (
    MAX_DEPTH,
    TOO_DEEP,
    InvalidYaml,
    compose,
    refusal,
)

if TYPE_CHECKING:
    from fp8tune.formats.edits import Edit

MAX_VALUES = 1 << 17
"""Most values that aliases may stand for; each is counted as often as it is used."""

_PROPERTIES = re.compile(r"(?:[&!][^\s,\[\]{}]*+(?:\s++|(?=[,\]}])|\Z))++")
_LINE = re.compile("[^\r\n\x85\u2028\u2029]*+")
_OTHER_TYPES = ("binary", "omap", "pairs", "set")


def parse(data: bytes) -> Document:
    """Parse the bytes of a file as ``yaml.safe_load`` does; raises as ``compose``."""
    text, bom, root = compose(data)
    if root is not None and not isinstance(root, yaml.MappingNode):
        raise Unreadable("no train config: at its top there are no keys")
    return Document(text, root, bom=bom)


class Document:
    """A valid YAML text: its values, and on demand their positions."""

    format = "yaml"

    def __init__(
        self, text: str, root: Any, *, bom: bool, loader: str = "pyyaml"
    ) -> None:
        self.text = text
        self.bom = bom
        self.root = root
        self.loader = loader
        self._read_values()

    def _read_values(self) -> None:
        reader = _Reader(self)
        self.values: dict[str, Any] = {}
        if self.root is not None:
            self.values, _ = reader.read(self.root)
        self.shared = reader.shared
        self._repeats = reader.repeats

    def read_as(self, loader: str) -> None:
        """Change ``values`` to what a trainer's loader makes of the scalars."""
        if loader in scalars.LOADERS and loader != self.loader:
            self.loader = loader
            self._read_values()

    @cached_property
    def tree(self) -> Tree:
        """Where everything stands."""
        return Tree(self)

    @property
    def spans(self) -> Spans:
        """Spans of keys and values, as character offsets into ``text``.

        A block mapping has a key span alone, or as an item of a list a value span.
        """
        return self.tree.spans

    @property
    def repeated(self) -> Sequence[Repeated]:
        """Keys that stand in one mapping more than once."""
        if not self._repeats:
            return ()
        refused = self.loader == "omegaconf"
        return [Repeated(*each, refused) for each in self.tree.repeated]

    @cached_property
    def lines(self) -> Lines:
        """Line numbers and columns of character offsets."""
        return Lines(self.text)

    def span(self, path: Path, part: str) -> Span | None:
        """Return the span of the ``"key"`` or ``"value"`` at ``path``, if any."""
        spans = self.spans
        table = spans.values if part == "value" else spans.keys
        return table.get(path) or spans.keys.get(path)

    def comments(self) -> Iterator[Span]:
        """The comments, from ``#`` to the end of the line."""
        end = 0
        for start, stop in sorted(scalar_spans(self.text, self.root)):
            yield from comments_between(self.text, end, start)
            end = max(end, stop)
        yield from comments_between(self.text, end, len(self.text))

    def read(self, text: str) -> dict[str, Any]:
        """The values of another text; raises ``InvalidYaml``."""
        other = parse(text.encode())
        other.read_as(self.loader)
        return other.values

    def set_values(self, values: Mapping[Path, Any]) -> Iterator[Edit]:
        """Set keys: replace their values, or add them to their tables."""
        from fp8tune.formats.yaml import edit

        return edit.set_values(self, values)

    def rename_key(self, path: Path, name: str) -> Iterator[Edit]:
        """Give a key another name wherever it is named."""
        from fp8tune.formats.yaml import edit

        return edit.rename_key(self, path, name)

    def remove_key(self, path: Path) -> Edit:
        """Remove a key with its value, or an empty table, with its line."""
        from fp8tune.formats.yaml import edit

        return edit.remove_key(self, path)

    def move_key(self, path: Path, to: Path) -> Iterator[Edit]:
        """Move a key with its comments to another place."""
        from fp8tune.formats.yaml import edit

        return edit.move_key(self, path, to)

    def add_header(self, path: Path, section: str) -> Edit:  # noqa: ARG002
        """Refuse: a section of YAML is no line above its keys."""
        raise CannotEdit("YAML has no headers")


class _Reader:
    """Reads each node once; finds the nodes that several places share."""

    def __init__(self, document: Document) -> None:
        self.text = document.text
        self.loader = document.loader
        self.shared: set[int] = set()
        self.repeats = False
        self._read: dict[int, tuple[Any, int]] = {}
        self._open: set[int] = set()

    def read(self, node: Any, depth: int = 0) -> tuple[Any, int]:
        """Return the value of a node, and how many values it stands for."""
        known = self._read.get(id(node))
        if known is not None:
            self.shared.add(id(node))
            return known
        if id(node) in self._open:
            raise self._unreadable(node, "an alias contains itself")
        if depth > MAX_DEPTH:
            raise Unreadable(TOO_DEEP)
        self._open.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            found = self._scalar(node), 1
        else:
            found = self._collection(node, depth + 1)
        if found[1] > MAX_VALUES:
            raise Unreadable(f"its aliases stand for more than {MAX_VALUES} values")
        self._open.discard(id(node))
        self._read[id(node)] = found
        return found

    def _collection(self, node: Any, depth: int) -> tuple[Any, int]:
        kind = "map" if isinstance(node, yaml.MappingNode) else "seq"
        if node.tag != f"{scalars.TAG}{kind}":
            raise self._odd_tag(node)
        if kind == "map":
            return self._mapping(node, depth)
        items = [self.read(item, depth) for item in node.value]
        return [value for value, _ in items], sum(size for _, size in items) + 1

    def _mapping(self, node: Any, depth: int) -> tuple[dict[str, Any], int]:
        values: dict[str, Any] = {}
        own: dict[str, Any] = {}
        size = 1
        for key, value in node.value:
            if key.tag == scalars.MERGE:
                for source in self._sources(value):
                    merged, more = self.read(source, depth)
                    self.shared.add(id(source))
                    values |= merged
                    size += more
                continue
            if not isinstance(key, yaml.ScalarNode):
                raise self._invalid(key, "a key that is itself a list or mapping")
            self.repeats = self.repeats or key.value in own
            own[key.value], more = self.read(value, depth)
            size += more
        return values | own, size

    def _sources(self, node: Any) -> list[Any]:
        """Return the mappings that ``<<`` merges, the one that wins last."""
        items = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for item in items:
            if not isinstance(item, yaml.MappingNode):
                raise self._invalid(item, "`<<` takes mappings")
        return [*reversed(items)]

    def _scalar(self, node: Any) -> Any:
        tagged = "!" in properties(self.text, node)
        try:
            value = scalars.read_scalar(node, self.loader, tagged=tagged)
        except ValueError as error:
            raise self._invalid(node, str(error)) from None
        except scalars.OddTag:
            raise self._odd_tag(node) from None
        if self.loader == "omegaconf" and isinstance(value, str) and "${" in value:
            reason = "what OmegaConf fills in for ${...} is known when the run starts"
            raise self._unreadable(node, reason)
        return value

    def _odd_tag(self, node: Any) -> Exception:
        tag = str(node.tag)
        if tag.removeprefix(scalars.TAG) in _OTHER_TYPES:
            return self._unreadable(node, f"fp8tune does not read {tag}")
        return self._invalid(node, f"yaml.safe_load does not know the tag {tag}")

    def _unreadable(self, node: Any, reason: str) -> Unreadable:
        line = Lines(self.text).position(node.start_mark.index).line
        return Unreadable(f"line {line}: {reason}")

    def _invalid(self, node: Any, reason: str) -> InvalidYaml:
        position = Lines(self.text).position(node.start_mark.index)
        return refusal(self.text, reason, position)


def properties(text: str, node: Any) -> str:
    """Return the anchor and tag that are written before a node."""
    start: int = node.start_mark.index
    if text[start : start + 1] not in ("&", "!"):
        return ""
    found = _PROPERTIES.match(text, start)
    assert found is not None
    return found[0]


class Tree:
    """Where every key and value of a document stands, and what may be edited.

    ``nodes`` has the node of each path; ``borrowed`` the paths of what an alias or a
    merge uses a second time, so that an edit would change more than one place.
    """

    def __init__(self, document: Document) -> None:
        self.text = document.text
        self.shared = document.shared
        self.spans = Spans({}, {}, {})
        self.nodes: dict[Path, Any] = {(): document.root}
        self.borrowed: set[Path] = set()
        self.repeated: list[tuple[Path, Span, Span]] = []
        if document.root is not None:
            self._walk((), document.root, borrowed=False)

    def _walk(self, path: Path, node: Any, *, borrowed: bool) -> None:
        self.nodes[path] = node
        borrowed = borrowed or id(node) in self.shared
        if borrowed:
            self.borrowed.add(path)
        in_block = isinstance(node, yaml.MappingNode) and not node.flow_style
        if path and not (in_block and isinstance(path[-1], str)):
            self.spans.values[path] = self.span(node)
        if isinstance(node, yaml.MappingNode):
            self._mapping(path, node, borrowed)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self._walk((*path, index), item, borrowed=borrowed)

    def _mapping(self, path: Path, node: Any, borrowed: bool) -> None:
        last = {key.value: value for key, value in node.value if not _merges(key)}
        seen: dict[str, Span] = {}
        for key, value, merged in pairs(node):
            here = (*path, key.value)
            span = self.span(key)
            if merged:
                if key.value in last:
                    continue
                self._forget(here)
            elif key.value in seen:
                self.repeated.append((here, span, seen[key.value]))
                self._forget(here)
            self.spans.names.setdefault(here, []).append(span)
            self.spans.keys[here] = span
            if not merged:
                seen[key.value] = span
            self._walk(here, value, borrowed=borrowed or merged)

    def _forget(self, path: Path) -> None:
        """Leave out what an earlier key of the same name said."""
        for table in (self.spans.keys, self.spans.values, self.spans.names, self.nodes):
            for other in [p for p in table if p[: len(path)] == path]:
                if table is not self.spans.names or len(other) > len(path):
                    del table[other]

    def span(self, node: Any) -> Span:
        """Return where a node stands, without its anchor, its tag and what follows."""
        start = node.start_mark.index + len(properties(self.text, node))
        return start, max(start, self.end(node))

    def end(self, node: Any) -> int:
        """Return the end of a node's last character that is no blank or comment."""
        end: int = node.end_mark.index
        if isinstance(node, yaml.ScalarNode):
            if node.style in ("|", ">"):
                start: int = node.start_mark.index
                return start + len(self.text[start:end].rstrip())
            return end
        if node.flow_style or not node.value:
            return end
        last = node.value[-1]
        return max(map(self.end, last)) if isinstance(last, tuple) else self.end(last)


def pairs(node: Any) -> Iterator[tuple[Any, Any, bool]]:
    """Yield keys and values of a mapping in the order in which later ones win.

    First those that ``<<`` merges into it, for which the third is true.
    """
    for key, value in node.value:
        if _merges(key):
            items = value.value if isinstance(value, yaml.SequenceNode) else [value]
            for item in reversed(items):
                for name, part, _ in pairs(item):
                    yield name, part, True
    for key, value in node.value:
        if not _merges(key):
            yield key, value, False


def _merges(key: Any) -> bool:
    return bool(key.tag == scalars.MERGE)


def _leaves(root: Any) -> Iterator[Any]:
    """Yield each scalar of a tree once."""
    seen: set[int] = set()
    waiting = [root] if root is not None else []
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            yield node
        elif isinstance(node, yaml.MappingNode):
            waiting += [part for pair in node.value for part in pair]
        else:
            waiting += node.value


def scalar_spans(text: str, root: Any) -> Iterator[Span]:
    """Yield what is no comment: scalars, of blocks the lines below the header."""
    for node in _leaves(root):
        start, end = node.start_mark.index, node.end_mark.index
        start += len(properties(text, node))
        if node.style in ("|", ">"):
            header = _LINE.match(text, start)
            start = header.end() if header else start
        if start < end:
            yield start, end


def comments_between(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the comments of a stretch of text without scalars."""
    at = text.find("#", start, end)
    while at >= 0:
        line = _LINE.match(text, at)
        stop = line.end() if line else end
        yield at, stop
        at = text.find("#", stop, end)
