"""One YAML file: the values that its trainer's loader reads, and where they stand.

An alias is its anchor's value: spans of what it brings point at the anchor's place. So
do those of keys that ``<<`` merges into a mapping. Keys are named as written, even
those that the loader takes for numbers (``1:``) or booleans (``on:``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import yaml

from fp8tune.formats.document import (
    OneFile,
    Repeated,
    Span,
    Spans,
    Unreadable,
)
from fp8tune.formats.yaml.compose import compose
from fp8tune.formats.yaml.nodes import Reader, Tree, comments_between, scalar_spans
from fp8tune.formats.yaml.scalars import LOADERS

MAX_REPEATED = 100
"""Most keys that are reported as repeated."""


def parse(data: bytes) -> Document:
    """Parse the bytes of a file as ``yaml.safe_load`` does; raises as ``compose``."""
    text, bom, root = compose(data)
    if root is not None and not isinstance(root, yaml.MappingNode):
        raise Unreadable("no train config: at its top there are no keys")
    return Document(text, root, bom=bom)


class Document(OneFile):
    """A valid YAML text: its values, and on demand their positions."""

    format = "yaml"

    def __init__(
        self, text: str, root: Any, *, bom: bool, loader: str = "pyyaml"
    ) -> None:
        self.text = text
        self.bom = bom
        self.root = root
        self.loader, self.fills = loader, ""
        self._read_values()

    def _read_values(self) -> None:
        reader = Reader(self.text, self.loader)
        self.values: dict[str, Any] = {}
        if self.root is not None:
            self.values, _ = reader.read(self.root)
        if self.fills and "$" in self.text:
            from fp8tune.formats.yaml.references import filled

            self.values = filled(self.values, self.fills)
        self._repeats = reader.repeats

    def read_as(self, loader: str) -> None:
        """Change ``values`` to what a trainer's loader makes of the scalars."""
        name, _, fills = loader.partition("+")
        if name in LOADERS and (name, fills) != (self.loader, self.fills):
            self.loader, self.fills = name, fills
            self._read_values()

    @cached_property
    def tree(self) -> Tree:
        """Where everything stands."""
        return Tree(self.text, self.root)

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
        return [Repeated(*e, refused) for e in self.tree.repeated[:MAX_REPEATED]]

    def comments(self) -> Iterator[Span]:
        """The comments, from ``#`` to the end of the line."""
        end = 0
        for start, stop in sorted(scalar_spans(self.text, self.root)):
            yield from comments_between(self.text, end, start)
            end = max(end, stop)
        yield from comments_between(self.text, end, len(self.text))

    def read(self, text: str) -> Document:
        """Another text, read as this one was; raises ``InvalidYaml``."""
        other = parse(text.encode())
        other.read_as(f"{self.loader}+{self.fills}" if self.fills else self.loader)
        return other
