"""Which steps of a run count: those after the last event and the last change of level.

A recompile, and memory that the allocator asks the driver for, take time that a long
run does not spend again. Then the level may still change (clocks, caches, autotuning),
and it may do so late: fewer than half of benchmarks settle as a fixed number of
warm-up steps assumes (Barrett et al., "Virtual Machine Warmup Blows Hot and Cold",
OOPSLA 2017). As there, the steps are cut where their level changes, and the last
stretch counts. A cut has to shorten the absolute deviations from the stretches' medians
by more than a penalty that grows with the logarithm of the steps, as binary
segmentation with an information criterion does (Killick, Fearnhead and Eckley, JASA
2012); medians, so that a single slow step is no change of level. Standard library
only: trials and their parent both read steps by it.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

PENALTY = 4.0
"""Of a cut, in mean deviations per logarithm of the steps: steps of one level are cut
less than once in 50 times."""
SMALLEST = 0.003
"""A smaller relative change of level is none."""
QUIET = 0.0005
"""The least relative deviation of a step that is believed."""
LEAST = 3
"""Steps that there have to be after an event."""
TAIL = 5
"""Steps that the last level has at least: two slow ones at the end are none."""
DRAWS = 400


class Left(NamedTuple):
    """Steps that do not count: the first and the last of them, and why."""

    first: int
    last: int
    why: str


class Steady(NamedTuple):
    """The first step that counts, and what was left out before it.

    ``settled`` is false where no level was reached: too few steps after an event.
    """

    start: int
    left: tuple[Left, ...]
    settled: bool


def steady(times: Sequence[float], events: Mapping[int, str], warm: int) -> Steady:
    """The steady end of a run's step times, from step 0.

    ``events`` are what happened in which step; the first ``warm`` steps never count.
    """
    first = min(warm, max(0, len(times) - 1))
    left = [Left(0, first - 1, "warm-up")] if first else []
    last = max((step for step in events if step >= first), default=None)
    settled = last is None or len(times) - 1 - last >= LEAST
    if last is not None and settled:
        left.append(Left(first, last, events[last]))
        first = last + 1
    change = last_change(times[first:])
    if change:
        left.append(Left(first, first + change - 1, "change of level"))
    return Steady(first + change, tuple(left), settled)


def last_change(times: Sequence[float]) -> int:
    """Where the last level of some step times begins; 0 where there is but one."""
    logs = [math.log(max(time, 1e-9)) for time in times]
    start = 0
    while cut := _cut(logs[start:]):
        start += cut
    return start


def _cut(logs: Sequence[float]) -> int:
    """Where a change of level shortens the deviations most; 0 where none is sure."""
    count = len(logs)
    if count <= TAIL:
        return 0
    whole = _deviation(logs)
    saved, cut = max(
        (whole - _deviation(logs[:k]) - _deviation(logs[k:]), k)
        for k in range(1, count - TAIL + 1)
    )
    change = abs(statistics.median(logs[:cut]) - statistics.median(logs[cut:]))
    sure = saved > PENALTY * math.log(count) * _noise(logs)
    return cut if sure and change > SMALLEST else 0


def _deviation(logs: Sequence[float]) -> float:
    middle = statistics.median(logs)
    return math.fsum(abs(value - middle) for value in logs)


def _noise(logs: Sequence[float]) -> float:
    """The mean deviation of steps of one level, from neighbours: levels cancel."""
    steps = [abs(b - a) for a, b in itertools.pairwise(logs)]
    return max(QUIET, statistics.median(steps) * 0.84)


def interval(times: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the median of step times, by bootstrap.

    Neighbours are drawn together, in blocks of the cube root of the steps, because
    steps follow each other's lead. The same times have the same interval.
    """
    count = len(times)
    length = max(1, round(count ** (1 / 3)))
    draw = random.Random(count)  # noqa: S311
    ring = [*times, *times[: length - 1]]
    medians = sorted(
        statistics.median(_drawn(ring, count, length, draw)) for _ in range(DRAWS)
    )
    return medians[int(0.025 * DRAWS)], medians[int(0.975 * DRAWS) - 1]


def _drawn(
    ring: Sequence[float], count: int, length: int, draw: random.Random
) -> list[float]:
    found: list[float] = []
    while len(found) < count:
        start = draw.randrange(count)
        found.extend(ring[start : start + length])
    return found[:count]


def half_width(times: Sequence[float]) -> float:
    """Half of the median's interval, relative to the median."""
    low, high = interval(times)
    return (high - low) / 2 / statistics.median(times)
