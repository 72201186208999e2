"""Which lines of a log may match a pattern, told by their shapes.

The shape of a line is the line without colours, padding, digits and the letters a to e,
as in addresses: a log has millions of lines and few shapes. Patterns and causes name
triggers, texts of which each line that they match contains one; only shapes with a
trigger are looked at further.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from fp8tune.verify import patterns

MOST = 20_000
"""Shapes that are remembered."""

LONGEST = 512
"""Bytes of a shape that is remembered."""

VARIABLE = b"0123456789abcde"
"""What a shape leaves out: digits, also most of those of addresses and hashes."""

COLOURS = tuple(b"\x1b[" + code for code in (b"m", b";m", b";;m", b";;;;m", b"K", b"A"))

NOT_FINITE = re.compile(rb"(?i)(?<![a-z])(?:nn|inf(?:inity)?)(?![a-z])")
"""NaN and infinity in a shape."""


class Text(NamedTuple):
    """A text that a cause leaves in a log.

    Each line that ``pattern`` matches holds one of the literals ``triggers``.
    ``name`` is that of the cause. The examples are tests.
    """

    name: str
    pattern: re.Pattern[str]
    triggers: tuple[bytes, ...]
    examples: tuple[str, ...] = ()
    counterexamples: tuple[str, ...] = ()


class Wanted:
    """What a line of one shape may match.

    ``thinnable`` is whether it can only be a step with a finite loss.
    """

    def __init__(self) -> None:
        self.lines: list[patterns.Line] = []
        self.causes: list[Text] = []
        self.thinnable = False

    def add(self, other: Wanted) -> None:
        """Add what another trigger of the same line asks for."""
        self.lines += [line for line in other.lines if line not in self.lines]
        self.causes += [cause for cause in other.causes if cause not in self.causes]


class Shapes:
    """The shapes of a log so far, and what each may match."""

    def __init__(self, causes: Sequence[Text]) -> None:
        self._triggers: dict[bytes, Wanted] = {}
        for trainer in patterns.known().values():
            for line in trainer.lines:
                for trigger in line.triggers:
                    self._wanted_at(trigger).lines.append(line)
        for cause in causes:
            for trigger in cause.triggers:
                self._wanted_at(trigger).causes.append(cause)
        self._known: dict[bytes, Wanted | None] = {}

    def _wanted_at(self, trigger: bytes) -> Wanted:
        (shape,) = shapes_of(trigger)
        return self._triggers.setdefault(shape, Wanted())

    def wanted(self, shapes: list[bytes]) -> dict[bytes, Wanted]:
        """Return the shapes that have a trigger, and what they may match."""
        unique = set(shapes)
        new = unique.difference(self._known)
        found = self._search(new) if new else {}
        if len(self._known) + len(new) > MOST:
            self._known.clear()
            new = unique
            found = self._search(new)
        for shape in new:
            if len(shape) <= LONGEST and len(self._known) < MOST:
                self._known[shape] = found.get(shape)
        for shape in unique - new:
            if wanted := self._known[shape]:
                found[shape] = wanted
        return found

    def _search(self, new: set[bytes]) -> dict[bytes, Wanted]:
        found: dict[bytes, Wanted] = {}
        text = b"\n".join(new)
        for trigger, wanted in self._triggers.items():
            if trigger in text:
                for shape in new:
                    if trigger in shape:
                        found.setdefault(shape, Wanted()).add(wanted)
        for shape, wanted in found.items():
            steps = all(line.kind == "step" for line in wanted.lines)
            plain = not wanted.causes and not NOT_FINITE.search(shape)
            wanted.thinnable = steps and plain
        return found


def shapes_of(block: bytes) -> list[bytes]:
    """Return the shapes of the lines of a block.

    A carriage return ends a line as well: each state of a progress bar is one.
    """
    block = block.translate(None, VARIABLE)
    if b"\x1b" in block:
        for colour in COLOURS:
            block = block.replace(colour, b"")
    while b"  " in block:
        block = block.replace(b"  ", b" ")
    if b"\r" in block:
        block = block.replace(b"\r", b"\n")
    return block.split(b"\n")
