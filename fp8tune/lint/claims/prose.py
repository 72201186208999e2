"""Split the comments of a config into lines, paragraphs and sentences."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from fp8tune.formats.document import ConfigDocument, Span

MAX_COMMENTS = 5000
MAX_LENGTH = 400
WINDOW = 1000
"""How far a sentence is read on either side [characters]."""

_HEADER = re.compile(r"(?:[ \t]*+(?:#[^\n]*+)?+\r?\n)*+(?:[ \t]*+#[^\n]*+)?+")
_COMMENT = re.compile(r"#[^\n0-9]*+([0-9]?)[^\n]*+")
_BREAK = (
    r"(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)(?<!\bca)[.;!](?=\s|$)"
    r"|\n[ \t]*#+[ \t]*(?=[-*\u2022] |[A-Za-z][^:\n]{0,40}:(?:\s|$))"
)


class Line(NamedTuple):
    """A comment: its text after the ``#``, where that starts, and in lower case.

    ``header``: it is above all keys; ``inline``: it follows a key on its line.
    """

    text: str
    start: int
    lowered: str
    header: bool
    inline: bool


class Comments:
    """The comments of a valid text."""

    def __init__(self, document: ConfigDocument) -> None:
        self.document = document
        self.text = document.text
        header = _HEADER.match(self.text)
        self.header_end = header.end() if header else 0

    def lines(self) -> Iterator[Line]:
        """Yield the comments that contain a digit or a mode and are not commands."""
        for match in islice(_COMMENT.finditer(self.text), MAX_COMMENTS):
            said = match[0]
            if match[1] or "AC" in said or "checkpoint" in said:
                yield from self._line(match.start(), match.end(), said)

    def _line(self, mark: int, end: int, said: str) -> Iterator[Line]:
        header, inline = end <= self.header_end, False
        if not header:
            start = self.text.rfind("\n", 0, mark) + 1
            before = self.text[start:mark]
            if self._tricky or '"' in before or "'" in before:
                mark = self._mark(start, end)
                said = self.text[mark:end]
            inline = self.text[start:mark].strip() != ""
        said = said.lstrip("#")
        plain = "--" not in said and not _is_ours(said)
        if plain and mark >= 0 and len(said) <= MAX_LENGTH:
            yield Line(said, end - len(said), lower(said), header, inline)

    @cached_property
    def _tricky(self) -> bool:
        """Whether a string may span several lines."""
        long_strings = '"""' in self.text or "'''" in self.text
        return long_strings or self.document.format != "toml"

    @cached_property
    def exact(self) -> list[Span]:
        """Every comment, however the strings around it are written."""
        return list(self.document.comments())

    def _mark(self, start: int, end: int) -> int:
        """Return where the comment of a line starts, or -1."""
        at = bisect_left(self.exact, (start, 0))
        mark = self.exact[at][0] if at < len(self.exact) else end
        return mark if mark < end else -1

    @cached_property
    def header(self) -> list[Span]:
        """The paragraphs of the header."""
        matches = re.finditer(_COMMENT, self.text[: self.header_end])
        return self._paragraphs(match.span() for match in matches)

    @cached_property
    def paragraphs(self) -> list[Span]:
        """The spans of consecutive comment lines."""
        return self._paragraphs(self.exact)

    def _paragraphs(self, spans: Iterable[Span]) -> list[Span]:
        found: list[Span] = []
        last = 0
        for start, end in spans:
            gap = self.text[last:start]
            said = self.text[start:end].strip("# \t\r")
            if said and not _is_ours(said):
                joined = found and gap.count("\n") == 1 and not gap.strip()
                if joined and found[-1][1] == last:
                    found[-1] = (found[-1][0], end)
                else:
                    found.append((start, end))
            last = end
        return found

    def sentence(self, span: Span) -> tuple[str, int, bool]:
        """Return the sentence of a span, its paragraph, and whether it is the first.

        A label such as ``Alternatives:`` hedges everything below it, so the label of
        the paragraph is part of the result.
        """
        found = self.header if span[0] < self.header_end else self.paragraphs
        number = bisect_right(found, (span[0], len(self.text))) - 1
        begin = max(found[number][0], span[0] - WINDOW)
        whole = self.text[begin : min(found[number][1], span[1] + WINDOW)]
        first, last = 0, len(whole)
        for match in re.finditer(_BREAK, whole):
            if begin + match.end() <= span[0]:
                first = match.end()
            elif begin + match.start() >= span[1]:
                last = match.start()
                break
        alone = begin == found[number][0] and not whole[:first].strip("# \t\r\n")
        return f"{self._label(found, number)} {whole[first:last]}", number, alone

    def _label(self, found: list[Span], number: int) -> str:
        """Return a paragraph's label, or the paragraph above if it is a label."""
        for at in (number, number - 1):
            begin, end = found[max(0, at)]
            stop = self.text.find("\n", begin, end)
            line = self.text[begin : end if stop < 0 else stop]
            if line.rstrip().endswith(":") and (at == number or stop < 0):
                return line[-WINDOW:]
        return ""


def _is_ours(said: str) -> bool:
    """Return whether a comment is a directive, or was written by a search."""
    return "fp8tune:" in said or "fp8tune search:" in said


def lower(text: str) -> str:
    """Return the text in lower case, with each character at its position."""
    return text.replace("\u0130", "I").lower()  # its lower case has two characters
