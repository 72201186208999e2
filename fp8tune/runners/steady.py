"""Find the steps of a run that count: after the last event and change of level.

Events are recompiles and new memory from the driver; a long run does not repeat their
cost. Afterwards the level of step times may still change (clocks, caches, autotuning),
possibly late: fewer than half of benchmarks settle as a fixed number of warm-up steps
assumes (Barrett et al., "Virtual Machine Warmup Blows Hot and Cold", OOPSLA 2017). As
in that paper, steps are split where their level changes, and the last segment counts. A
split must reduce the absolute deviations from the segments' medians by more than a
penalty that grows with the logarithm of the steps, as in binary segmentation with an
information criterion (Killick, Fearnhead and Eckley, JASA 2012). Medians are used so
that a single slow step is not a change of level. Standard library only: trials and
their parent both use it.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from fp8tune.trials.record import Discarded

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
OUTSIDE = 0.05
"""How often the interval of a median does not hold it."""
RANGES = {2: 6.353, 3: 1.304, 4: 0.717, 5: 0.507}
"""Half of the interval of so many steps' middle, in parts of their range (Lord, "The
use of range in place of standard deviation in the t-test", Biometrika 34, 1947)."""
FEW = 6
"""Steps from which the least and the largest hold the median often enough."""
WIDEST = 5.0
"""The most that an interval reaches to each side (log): beyond, nothing is known."""
MOST_LEAD = 0.9
"""The largest correlation of neighbouring steps that so few of them are asked for."""


class Steady(NamedTuple):
    """The first step that counts, and the ranges left out before it.

    ``settled`` is false if no level was reached: too few steps after an event.
    """

    start: int
    left: tuple[Discarded, ...]
    settled: bool


def steady(times: Sequence[float], events: Mapping[int, str], warm: int) -> Steady:
    """Return the steady end of a run, given its step times from step 0.

    ``events`` maps steps to what happened in them; the first ``warm`` steps never
    count.
    """
    first = min(warm, max(0, len(times) - 1))
    left = [Discarded(0, first - 1, "warm-up")] if first else []
    last = max((step for step in events if step >= first), default=None)
    settled = last is None or len(times) - 1 - last >= LEAST
    if last is not None and settled:
        left.append(Discarded(first, last, events[last]))
        first = last + 1
    change = last_change(times[first:])
    if change:
        left.append(Discarded(first, first + change - 1, "change of level"))
    return Steady(first + change, tuple(left), settled)


def last_change(times: Sequence[float]) -> int:
    """Return where the last level of step times begins; 0 if there is only one."""
    logs = [math.log(max(time, 1e-9)) for time in times]
    start = 0
    while cut := _cut(logs[start:]):
        start += cut
    return start


def _cut(logs: Sequence[float]) -> int:
    """Return the split that reduces the deviations most; 0 if none is significant."""
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
    """Return the mean deviation within a level, from neighbouring steps."""
    steps = [abs(b - a) for a, b in itertools.pairwise(logs)]
    return max(QUIET, statistics.median(steps) * 0.84)


def interval(times: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the median of step times.

    It uses order statistics, and is wider if neighbouring steps are correlated, because
    these count as fewer.
    """
    middle = statistics.median(times)
    if len(times) < 2 or not min(times):
        return min(times), max(times)
    low, high = (_of_few if len(times) < FEW else _of_order)(sorted(times))
    lead = _lead(times)
    by = math.sqrt((1 + lead) / (1 - lead))
    return middle * (low / middle) ** by, middle * (high / middle) ** by


def _of_few(ordered: Sequence[float]) -> tuple[float, float]:
    """Return an interval around the mean, by the range of a few steps."""
    first = ordered[0]
    middle = first * math.exp(
        math.fsum(math.log(t / first) for t in ordered) / len(ordered)
    )
    by = math.exp(min(WIDEST, RANGES[len(ordered)] * math.log(ordered[-1] / first)))
    return middle / by, middle * by


def _of_order(ordered: Sequence[float]) -> tuple[float, float]:
    """Return the interval between the order statistics that contain the median."""
    place, by = _place(len(ordered))
    ends = ordered, ordered[::-1]
    low, high = ((1 - by) * end[place] + by * end[place + 1] for end in ends)
    return low, high


@cache
def _place(count: int) -> tuple[int, float]:
    """Return how far from both ends the 95 % interval of the median begins.

    The result is a step, and the fraction of the way to the next one (Hettmansperger
    and Sheather, "Confidence intervals based on interpolated order statistics",
    Statistics & Probability Letters 4, 1986).
    """
    tail = list(itertools.accumulate(_binomial(count, k) for k in range(count // 2)))
    place = max(k for k in range(count // 2) if 2 * tail[k] <= OUTSIDE)
    part = (OUTSIDE / 2 - tail[place]) / (tail[place + 1] - tail[place])
    k = place + 1
    return place, (count - k) * part / (k + (count - 2 * k) * part)


def _binomial(count: int, k: int) -> float:
    """Return the probability that ``k`` of ``count`` steps are below the median."""
    ways = math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)
    return math.exp(ways - count * math.log(2))


def _lead(times: Sequence[float]) -> float:
    """Return the correlation of neighbouring steps, at least 0."""
    middle = statistics.fmean(times)
    apart = [time - middle for time in times]
    squares = math.fsum(a * a for a in apart)
    both = math.fsum(a * b for a, b in itertools.pairwise(apart))
    return min(MOST_LEAD, max(0.0, both / squares)) if squares else 0.0


def half_width(times: Sequence[float]) -> float:
    """Return half the interval of the median, relative to the median."""
    low, high = interval(times)
    return (high - low) / 2 / statistics.median(times)
