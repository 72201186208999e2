"""Render a finding with its source lines, carets and labels, for a terminal."""

from __future__ import annotations

import operator
from collections.abc import Iterator

from fp8tune.lint.diagnostic import Diagnostic, Fix, Label, Region
from fp8tune.words import plain

WIDTH = 110
"""Characters of a source line that are shown; longer lines are cut."""

COMMAND_LINE = " command line"
"""Where an override stands."""

_LEVEL = {"error": "31", "warning": "33", "note": "36"}
_BOLD, _BLUE = "1", "34"


class Painter:
    """Renders findings, in colour or plain."""

    def __init__(self, *, colour: bool) -> None:
        self.colour = colour

    def paint(self, text: str, *codes: str) -> str:
        """Return the text in bold or colour, if colour is on."""
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if self.colour else text

    def finding(self, found: Diagnostic, lines: dict[int, str]) -> str:
        """Return one finding as a block of lines, with an empty line at its end."""
        level = self.paint(
            f"{found.severity}[{found.rule}]", _BOLD, _LEVEL[found.severity]
        )
        line, column = found.region[:2]
        lines_shown = [x.region.line for x in found.labels if x.argument is None]
        gutter = len(str(max(lines_shown, default=0)))
        place = f"{line}:{column}" if found.labels[0].argument is None else COMMAND_LINE
        arrow = self.paint(f"{' ' * gutter}-->", _BLUE)
        text = [
            f"{level} {self.paint(plain(found.message), _BOLD)}",
            f"{arrow} {plain(found.path)}:{place}",
            self._bar(gutter),
            *self._snippet(found, lines, gutter),
            self._bar(gutter),
        ]
        if found.help:
            text.append(self._note(gutter, "help", plain(found.help)))
        if found.fix:
            text.append(self._note(gutter, "fix", _offer(found.fix)))
        text.append(
            self._note(gutter, "why", found.page or f"fp8tune explain {found.rule}")
        )
        return "\n".join(text) + "\n"

    def _bar(self, gutter: int, number: int | str = "") -> str:
        return self.paint(f"{number:>{gutter}} |", _BLUE)

    def _note(self, gutter: int, name: str, text: str) -> str:
        bar = self.paint(f"{' ' * gutter} =", _BLUE)
        return f"{bar} {self.paint(name, _BOLD)}: {text}"

    def _snippet(
        self, found: Diagnostic, lines: dict[int, str], gutter: int
    ) -> Iterator[str]:
        previous = 0
        in_file = [x for x in found.labels if x.argument is None and not x.path]
        for number in sorted({label.region.line for label in in_file}):
            if previous and number > previous + 1:
                yield self.paint("...", _BLUE)
            previous = number
            here = [label for label in in_file if label.region.line == number]
            text = lines.get(number, "")
            end = _window(text, here)[1]
            fit = all(label.region.column <= end for label in here)
            for labels in [here] if fit else [[label] for label in here]:
                yield from self._line(found, text, labels, gutter, number)
        typed = list(_on_command_line(found))
        if typed and previous:
            yield self.paint("...", _BLUE)
        for label, argument in typed:
            yield from self._line(found, argument, [label], gutter)
        for label in filter(operator.attrgetter("path"), found.labels):
            line, column = label.region[:2]
            arrow = self.paint(f"{' ' * gutter}-->", _BLUE)
            yield f"{arrow} {plain(label.path)}:{line}:{column}"
            yield from self._line(found, label.line, [label], gutter, line)

    def _line(
        self,
        found: Diagnostic,
        line: str,
        labels: list[Label],
        gutter: int,
        number: int | str = "",
    ) -> Iterator[str]:
        start, end = _window(line, labels)
        left = "..." if start else ""
        right = "..." if end < len(line) else ""
        shown = _cells(line[start:end])[0]
        yield f"{self._bar(gutter, number)} {left}{shown}{right}".rstrip()
        for label in labels:
            first = found.labels[0]
            typed = label.argument is not None and label.argument == first.argument
            primary = typed or label is first
            codes = (_BOLD, _LEVEL[found.severity]) if primary else (_BLUE,)
            mark = _mark(label, line, start, len(left), "^" if primary else "-")
            yield f"{self._bar(gutter)} {self.paint(mark, *codes)}"


def _on_command_line(found: Diagnostic) -> Iterator[tuple[Label, str]]:
    """Yield labels on arguments as labels of a line that is the argument."""
    for label in found.labels:
        if label.argument is not None:
            text, (start, end) = label.argument
            region = Region(1, start + 1, 1, end + 1)
            yield label._replace(region=region), text


def _offer(fix: Fix) -> str:
    """What a fix does, and the option that asks for it or why it was not applied."""
    if fix.not_applied:
        return f"{plain(fix.title)}: not applied, because {plain(fix.not_applied)}"
    if fix.safety == "safe":
        return f"{plain(fix.title)} (--fix)"
    return f"{plain(fix.title)} (--unsafe-fixes; {plain(fix.changes)})"


def _mark(label: Label, line: str, start: int, indent: int, sign: str) -> str:
    region = label.region
    first = region.column - 1
    last = region.end_column - 1 if region.end_line == region.line else len(line)
    last = min(max(last, first), start + WIDTH)
    before = _cells(line[start:first])[1]
    wide = max(1, _cells(line[first:last])[1])
    return f"{' ' * (indent + before)}{sign * wide} {plain(label.text)}".rstrip()


def _window(line: str, labels: list[Label]) -> tuple[int, int]:
    """Return the part of a long line to show: around its first label."""
    if len(line) <= WIDTH:
        return 0, len(line)
    first = min(label.region.column for label in labels) - 1
    start = 0 if first < WIDTH * 2 // 3 else first - WIDTH // 3
    return start, min(len(line), start + WIDTH)


def _cells(text: str) -> tuple[str, int]:
    """Return text that is safe to print, and the terminal cells that it takes."""
    safe = plain(text.replace("\t", "    "))
    if safe.isascii():
        return safe, len(safe)
    return safe, _width(safe)


def _width(text: str) -> int:
    from unicodedata import combining, east_asian_width

    return sum(
        1 + (east_asian_width(character) in "WF")
        for character in text
        if not combining(character)
    )
