"""Several files that together describe one job, as one document.

The values of the first file stand at the root or in a section, those of each other file
in a section of its own. Offsets count through the texts in order, so that what knows
spans, lines and comments of one file works for all of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

from fp8tune.formats.document import (
    ConfigDocument,
    InvalidText,
    OneFile,
    Path,
    Placed,
    Position,
    Repeated,
    Span,
    Spans,
)
from fp8tune.formats.edits import CannotEdit, Edit

_BETWEEN = "\n\x1e\n"
"""Stands between two texts; no format allows this control character."""

_EXTRA_LINES = _BETWEEN.count("\n")


class Part(NamedTuple):
    """One file of a job: ``section`` is where its keys stand, ``""`` the root."""

    section: str
    path: str
    document: ConfigDocument


class Place(NamedTuple):
    """Where one file stands in the joined text: behind so many lines."""

    part: Part
    line: int


class Joined(Placed):
    """The files of a job as one document; the first is the one that is checked."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self.parts = tuple(parts)
        texts = [part.document.text for part in self.parts]
        self.text = _BETWEEN.join(texts)
        lengths = accumulate((len(t) + len(_BETWEEN) for t in texts), initial=0)
        self._starts = [*lengths][:-1]
        lines = (text.count("\n") + _EXTRA_LINES for text in texts)
        self._lines_before = [*accumulate(lines, initial=0)][:-1]
        self.places = tuple(map(Place, self.parts, self._lines_before))
        self.values = _merged((p.section, p.document.values) for p in self.parts)
        self.bom = self.parts[0].document.bom
        self.format = self.parts[0].document.format

    def read_as(self, loader: str) -> None:
        """Change ``values`` to what a trainer's loader makes of the scalars."""
        for part in self.parts:
            part.document.read_as(loader)
        self.values = _merged((p.section, p.document.values) for p in self.parts)

    @property
    def repeated(self) -> list[Repeated]:
        """The keys that stand in one table of a file more than once."""
        return [
            Repeated(
                _path(part.section) + path,
                _shifted(span, start),
                _shifted(first, start),
                refused,
            )
            for part, start in zip(self.parts, self._starts, strict=True)
            for path, span, first, refused in part.document.repeated
        ]

    @cached_property
    def spans(self) -> Spans:
        """Spans of all files; a file's section spans the start of that file."""
        found = Spans({}, {}, {})
        for part, start in zip(self.parts, self._starts, strict=True):
            above = _path(part.section)
            if above:
                found.keys[above] = found.values[above] = start, start
            own = part.document.spans
            for path, span in own.keys.items():
                found.keys[above + path] = _shifted(span, start)
            for path, span in own.values.items():
                if path:  # not the whole text
                    found.values[above + path] = _shifted(span, start)
            for path, places in own.names.items():
                found.names[above + path] = [_shifted(s, start) for s in places]
        return found

    def comments(self) -> Iterator[Span]:
        """The comments of all files."""
        for part, start in zip(self.parts, self._starts, strict=True):
            for span in part.document.comments():
                yield _shifted(span, start)

    def place(self, line: int) -> Place:
        """Return the file that a line of the joined text is of."""
        return self.places[bisect_right(self._lines_before, line - 1) - 1]

    def read(self, text: str) -> Joined:
        """Other texts of these files, read as these were; raises ``InvalidText``."""
        texts = text.split(_BETWEEN)
        if len(texts) != len(self.parts):
            raise InvalidText("a control character", Position(1, 1), text)
        pairs = zip(self.parts, texts, strict=True)
        return Joined(p._replace(document=p.document.read(text)) for p, text in pairs)

    def set_values(self, values: Mapping[Path, Any]) -> Iterator[Edit]:
        """Set keys, each in its file."""
        by_part: dict[int, dict[Path, Any]] = {}
        for path, value in values.items():
            index, own = self._own(path)
            by_part.setdefault(index, {})[own] = value
        for index, mine in by_part.items():
            document = self.parts[index].document
            yield from self._moved(index, document.set_values(mine))

    def rename_key(self, path: Path, name: str) -> Iterator[Edit]:
        """Give a key another name in its file."""
        index, own = self._own(path)
        document = self.parts[index].document
        yield from self._moved(index, document.rename_key(own, name))

    def remove_key(self, path: Path) -> Edit:
        """Remove a key from its file."""
        index, own = self._own(path)
        document = self.parts[index].document
        return next(self._moved(index, [document.remove_key(own)]))

    def remove_table(self, path: Path) -> Iterator[Edit]:
        """Remove a table with all that is in it from its file."""
        index, own = self._own(path)
        document = self.parts[index].document
        assert isinstance(document, OneFile)
        return self._moved(index, document.remove_table(own))

    def move_key(self, path: Path, to: Path) -> Iterator[Edit]:
        """Move a key within its file."""
        (index, own), (target, place) = self._own(path), self._own(to)
        if index != target:
            raise CannotEdit(f"{path[-1]} stands in another file")
        document = self.parts[index].document
        yield from self._moved(index, document.move_key(own, place))

    def add_header(self, path: Path, section: str) -> Edit:
        """Put the header of a section above a key of its file."""
        index, own = self._own(path)
        document = self.parts[index].document
        return next(self._moved(index, [document.add_header(own, section)]))

    def _own(self, path: Path) -> tuple[int, Path]:
        """Return the number of the file of a path, and the path in that file."""
        sections = [part.section for part in self.parts]
        if path[0] in sections and len(path) > 1:
            return sections.index(str(path[0])), path[1:]
        if "" not in sections or path[0] in sections:
            raise CannotEdit(f"the file of {path[0]} is not known")
        return sections.index(""), path

    def _moved(self, index: int, edits: Iterable[Edit]) -> Iterator[Edit]:
        start = self._starts[index]
        for edit in edits:
            if edit.start < 0:
                raise CannotEdit("a byte-order mark")
            yield Edit(edit.start + start, edit.end + start, edit.text)


def _path(section: str) -> Path:
    return (section,) if section else ()


def _shifted(span: Span, by: int) -> Span:
    return span[0] + by, span[1] + by


def _merged(parts: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """Return the values of files, each in its section.

    A key of the root that has the name of another file's section is left out: the
    trainer has no such key.
    """
    merged: dict[str, Any] = {}
    for section, values in sorted(parts, key=_root_first):
        merged |= {section: values} if section else values
    return merged


def _root_first(part: tuple[str, dict[str, Any]]) -> str:
    return part[0]
