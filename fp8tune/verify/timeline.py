"""Which operator and which pass an event of a trace is inside of, by its time."""

from __future__ import annotations

import math
import operator
from array import array
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from fp8tune.verify.kernels import FP8, GEMMS, Pattern

ROUNDING_US = 1.0
"""How much later than its parent a child may end; old traces round to 0.25 us."""
MOST_GEMMS = 50_000
"""Most combinations of operator, shape and pass."""
DEEPEST = 10_000
"""Deepest nesting of events."""


class Meaning(NamedTuple):
    """A name in a trace and the pattern that it matches, None for none."""

    name: str
    pattern: Pattern | None

    @property
    def kind(self) -> str:
        """The kind of the pattern, one of ``kernels.KINDS``."""
        return self.pattern.kind if self.pattern else "other"


class Shape(NamedTuple):
    """M, K and N of a GEMM, the batch that it multiplies, its first operand's type."""

    mkn: tuple[int, int, int]
    batch: int
    dtype: str

    @property
    def flops(self) -> float:
        """Floating-point operations of one call."""
        return 2.0 * self.batch * math.prod(self.mkn)


@dataclass
class Rows:
    """Events as columns: start and end [us], an index of its meaning, and a key.

    The key of a GEMM is the index of its shape, that of a kernel or a launch its
    correlation, which both share.
    """

    start: array[float] = field(default_factory=lambda: array("d"))
    end: array[float] = field(default_factory=lambda: array("d"))
    meaning: array[int] = field(default_factory=lambda: array("i"))
    key: array[int] = field(default_factory=lambda: array("q"))

    def add(self, start: float, us: float, meaning: int, key: int = 0) -> None:
        """Append an event."""
        self.start.append(start)
        self.end.append(start + us)
        self.meaning.append(meaning)
        self.key.append(key)

    def __len__(self) -> int:
        return len(self.start)

    def in_order(self) -> Iterator[int]:
        """Return the indices by start, an event before those inside it."""
        start = self.start
        if all(map(operator.le, start, islice(start, 1, None))):
            return iter(range(len(start)))
        order = sorted(range(len(start)), key=self.end.__getitem__, reverse=True)
        return iter(sorted(order, key=start.__getitem__))


class Gemm(NamedTuple):
    """An operator of a GEMM: index of its meaning and shape, and its pass."""

    meaning: int
    shape: int
    phase: str


@dataclass
class Nested:
    """What a thread's operators and launches belong to.

    ``gemms`` has calls and time [us] of the operators that count as GEMMs.
    ``launches`` has the GEMM, or else the pass, of launches, by their correlation.
    """

    gemms: dict[Gemm, tuple[int, float]] = field(default_factory=dict)
    launches: dict[int, Gemm | str] = field(default_factory=dict)


@dataclass(slots=True)
class _Open:
    """An event that later ones may be inside of."""

    end: float
    phase: str
    gemm: Gemm | None = None
    start: float = 0.0
    whole: bool = False
    own: bool = False
    inner: bool = False


class Nesting:
    """Finds out what the events of a thread are inside of.

    ``outside`` is the pass of what is in no node of the backward pass, ``nodes`` are
    the names of these nodes: an operator ``f`` with a node ``fBackward`` is a forward
    pass, even if it is recomputed inside a node. ``correlations`` are those of the
    kernels that matter. Of GEMMs inside one another the innermost counts, unless the
    pattern of an outer one has ``whole``. Results go ``into`` one object for all
    threads.
    """

    def __init__(
        self,
        meanings: list[Meaning],
        *,
        outside: str,
        nodes: Container[str],
        correlations: Container[int],
        into: Nested,
    ) -> None:
        self._meanings = meanings
        self._outside = outside
        self._nodes = nodes
        self._correlations = correlations
        self._into = into
        self._stack: list[_Open] = []

    def of_thread(self, rows: Rows) -> None:
        """Go through the operators and launches of one thread."""
        stack = self._stack = [_Open(math.inf, self._outside)]
        for row in rows.in_order():
            start, end = rows.start[row], rows.end[row]
            while stack[-1].end <= start or end > stack[-1].end + ROUNDING_US:
                self._leave()
            meaning = rows.meaning[row]
            top, kind = stack[-1], self._meanings[meaning].kind
            if kind == "launch":
                key = rows.key[row]
                if key >= 0 and (top.gemm is not None or key in self._correlations):
                    self._into.launches[key] = top.gemm or top.phase
            elif top.phase == "compiling" or len(stack) > DEEPEST:
                continue
            elif kind in GEMMS:
                if not top.whole:
                    stack.append(self._gemm(top, rows, row))
            else:
                self._enter(kind, meaning, end)
        while stack:
            self._leave()

    def _gemm(self, top: _Open, rows: Rows, row: int) -> _Open:
        meaning = rows.meaning[row]
        pattern = self._meanings[meaning].pattern
        assert pattern is not None
        shape = rows.key[row] if len(self._into.gemms) < MOST_GEMMS else 0
        return _Open(
            rows.end[row],
            top.phase,
            Gemm(meaning, shape, top.phase),
            start=rows.start[row],
            whole=pattern.whole or pattern.kind in FP8,
            own=True,
        )

    def _enter(self, kind: str, meaning: int, end: float) -> None:
        """Enter what is no GEMM, if the pass changes inside."""
        top = self._stack[-1]
        if kind == "function":
            if self._meanings[meaning].name + "Backward" not in self._nodes:
                return
            kind = "forward" if top.phase == "backward" else top.phase
        self._stack.append(_Open(end, kind, top.gemm, whole=top.whole))

    def _leave(self) -> None:
        """Leave the innermost event, and count it if it is a GEMM without another."""
        entry = self._stack.pop()
        if self._stack and (entry.own or entry.inner):
            self._stack[-1].inner = True
        if entry.own and not entry.inner:
            assert entry.gemm is not None
            calls, us = self._into.gemms.get(entry.gemm, (0, 0.0))
            us += entry.end - entry.start
            self._into.gemms[entry.gemm] = (calls + 1, us)


def busy(
    rows: Rows, window: tuple[float, float], without: Container[int] = ()
) -> float:
    """Return the time [us] in a window in which at least one event ran.

    Events whose meaning is in ``without`` do not count.
    """
    low, high = window
    merged = _merged(rows, without)
    return sum(max(0.0, min(end, high) - max(begin, low)) for begin, end in merged)


def _merged(rows: Rows, without: Container[int]) -> Iterator[tuple[float, float]]:
    begin = end = -math.inf
    for row in rows.in_order():
        if rows.meaning[row] in without:
            continue
        if rows.start[row] > end:
            if end > begin:
                yield begin, end
            begin, end = rows.start[row], rows.end[row]
        else:
            end = max(end, rows.end[row])
    if end > begin:
        yield begin, end
