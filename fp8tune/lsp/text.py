"""Places in the text of an editor: lines from 0, and columns in the client's units."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import pairwise

from lsprotocol import types
from pygls.workspace import PositionCodec

from fp8tune.formats.document import Lines, Span
from fp8tune.lint.diagnostic import Region

_BOM = "\ufeff"


class Text:
    """The text of a file, whose places are characters for lint and units for a client.

    A place behind the text's end is its end: findings may be older than the text.
    ``lint`` is the text that lint reads.
    """

    def __init__(self, text: str, codec: PositionCodec) -> None:
        self.text, self.codec = text, codec
        self._bom = text.startswith(_BOM)  # which is no part of lint's texts
        self.lint = text.removeprefix(_BOM)
        self._lines = Lines(self.lint)
        self._count = text.count("\n") + 1
        ends = (match.end() for match in re.finditer(r"\r\n|\n|\r", text))
        self._starts = [0, *ends]

    def position(self, offset: int) -> types.Position:
        """Return the client's position of one of lint's character offsets."""
        offset = min(max(0, offset) + self._bom, len(self.text))
        line = bisect_right(self._starts, offset) - 1
        before = self.text[self._starts[line] : offset]
        return types.Position(line, self.codec.client_num_units(before))

    def span(self, span: Span) -> types.Range:
        """Return the client's range of a span."""
        return types.Range(*map(self.position, span))

    def region(self, region: Region) -> types.Range:
        """Return the client's range of a region."""
        start, end = (region.line, region.column), (region.end_line, region.end_column)
        return self.span((self._offset(*start), self._offset(*end)))

    def _offset(self, line: int, column: int) -> int:
        if line > self._count:
            return len(self.text)
        return self._lines.offset(line) + column - 1

    def offset(self, position: types.Position) -> int:
        """Return the character offset of a client's position."""
        lines = [self.text[a:b] for a, b in pairwise([*self._starts, len(self.text)])]
        place = self.codec.position_from_client_units(lines, position)
        start = self._starts[min(place.line, len(lines) - 1)]
        return min(start + place.character, len(self.text)) - self._bom


def in_line(region: Region, line: str, codec: PositionCodec) -> types.Range:
    """Return the client's range of a region that begins in a line with this text."""
    column = codec.client_num_units(line[: region.column - 1])
    start = types.Position(region.line - 1, column)
    if region.end_line != region.line:
        return types.Range(start, types.Position(region.line, 0))
    end = codec.client_num_units(line[: region.end_column - 1])
    return types.Range(start, types.Position(region.line - 1, end))
