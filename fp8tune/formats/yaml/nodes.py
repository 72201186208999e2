"""What a tree of PyYAML's nodes says: its values, and where everything stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from fp8tune.formats.document import Lines, Path, Span, Spans, Unreadable
from fp8tune.formats.yaml import scalars
from fp8tune.formats.yaml.compose import MAX_DEPTH, TOO_DEEP, InvalidYaml, refusal

MAX_VALUES = 1 << 17
"""Most values of a file; what an alias stands for is counted each time."""

_PROPERTIES = re.compile(
    r"(?:(?:&[\w-]++|!<[^>\s]*+>|![\w;/?:@&=+$,.!~*'()\[\]%-]*+)(?:\s++|(?=[,\]}])|\Z))++"
)
_LINE = re.compile("[^\r\n\x85\u2028\u2029]*+")
_OTHER_TYPES = ("binary", "omap", "pairs", "set")


class Reader:
    """Reads each node once, however often aliases use it.

    ``repeats`` says whether a mapping has a key twice.
    """

    def __init__(self, text: str, loader: str) -> None:
        self.text = text
        self.loader = loader
        self.repeats = False
        self._read: dict[int, tuple[Any, int]] = {}
        self._open: set[int] = set()

    def read(self, node: Any, depth: int = 0) -> tuple[Any, int]:
        """Return the value of a node, and how many values it stands for."""
        known = self._read.get(id(node))
        if known is not None:
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
            raise Unreadable(f"more than {MAX_VALUES} values: not a train config")
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
    found = _PROPERTIES.match(text, node.start_mark.index)
    return found[0] if found else ""


class Tree:
    """Where every key and value of a document stands; ``nodes`` has them by path."""

    def __init__(self, text: str, root: Any) -> None:
        self.text = text
        self.spans = Spans({}, {}, {})
        self.nodes: dict[Path, Any] = {(): root}
        self.repeated: list[tuple[Path, Span, Span]] = []
        if root is not None:
            self._walk((), root)

    def _walk(self, path: Path, node: Any) -> None:
        self.nodes[path] = node
        in_block = isinstance(node, yaml.MappingNode) and not node.flow_style
        if path and not (in_block and isinstance(path[-1], str)):
            self.spans.values[path] = self.span(node)
        if isinstance(node, yaml.MappingNode):
            self._mapping(path, node)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self._walk((*path, index), item)

    def _mapping(self, path: Path, node: Any) -> None:
        found: dict[str, Any] = {}
        own: set[str] = set()
        for key, value, merged in pairs(node):
            here, span = (*path, key.value), self.span(key)
            names = self.spans.names.setdefault(here, [])
            if key.value in own:
                self.repeated.append((here, span, names[-1]))
            else:
                names.clear()
            if not merged:
                own.add(key.value)
            names.append(span)
            self.spans.keys[here] = span
            found[key.value] = value
        for name, value in found.items():
            self._walk((*path, name), value)

    def span(self, node: Any) -> Span:
        """Return where a node stands, without its anchor, its tag and what follows."""
        start = node.start_mark.index + len(properties(self.text, node))
        return start, max(start, self.end_of(node))

    def end_of(self, node: Any) -> int:
        """Return where the text of a node or pair ends, without what follows."""
        if isinstance(node, tuple):
            return max(map(self.end_of, node))
        end: int = node.end_mark.index
        if isinstance(node, yaml.ScalarNode):
            if node.style not in ("|", ">"):
                return end
            start: int = node.start_mark.index
            return start + len(self.text[start:end].rstrip())
        return (
            end if node.flow_style else max(map(self.end_of, node.value), default=end)
        )


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
