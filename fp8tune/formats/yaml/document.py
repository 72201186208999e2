"""One YAML file: the values that its trainer's loader reads, and where they stand.

An alias is its anchor's value: spans of what it brings point at the anchor's place. So
do those of keys that ``<<`` merges into a mapping. Keys are named as written, even
those that the loader takes for numbers (``1:``) or booleans (``on:``).
"""

from __future__ import annotations

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
from fp8tune.formats.yaml.compose import compose
from fp8tune.formats.yaml.nodes import Reader, Tree, comments_between, scalar_spans
from fp8tune.formats.yaml.scalars import LOADERS

if TYPE_CHECKING:
    from fp8tune.formats.edits import Edit

MAX_REPEATED = 100
"""Most keys that are reported as repeated."""


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
        reader = Reader(self.text, self.loader)
        self.values: dict[str, Any] = {}
        if self.root is not None:
            self.values, _ = reader.read(self.root)
        self._repeats = reader.repeats

    def read_as(self, loader: str) -> None:
        """Change ``values`` to what a trainer's loader makes of the scalars."""
        if loader in LOADERS and loader != self.loader:
            self.loader = loader
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
