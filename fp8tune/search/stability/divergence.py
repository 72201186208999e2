"""Whether a run of FP8 diverged: by itself, and beside bf16 on the same seed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from fp8tune.search.stability.course import Curve

END = 0.25
"""Share of a run, at its end, over which its loss is averaged."""
FORGOTTEN = 0.5
"""Share of what a run had learned that it has lost when it is called diverged."""
CLIMBED = 0.1
"""The same, where bf16 on the same seed has not lost it: 0.7 of 7 nats."""
BEYOND = 7.0
"""Deviations from step to step that a change of the loss must exceed."""


def end(curve: Curve) -> float:
    """The loss of a run: the mean of its last steps."""
    return statistics.fmean(curve.losses[-_last(curve.losses) :])


def is_lost(fp8: Curve, bf16: Curve) -> bool:
    """Whether FP8 diverged, climbs, or learned less than half of what bf16 did."""
    if diverged(fp8) or diverged(bf16):
        return diverged(fp8)
    if _climbs(fp8, bf16):
        return True
    ours, theirs = (run.losses[0] - end(run) for run in (fp8, bf16))
    return theirs > BEYOND * _noise(bf16.losses) and ours < FORGOTTEN * theirs


def diverged(curve: Curve) -> bool:
    """Whether a run ended in NaN, or worse than it had been.

    Of means over as many steps as the end has: half of what was learned at best is
    lost again, or the loss rose above that of the untrained model and the end makes up
    for less than that. A rise that may be noise is none.
    """
    if curve.nan:
        return True
    start, means = curve.losses[0], _means(curve.losses)
    best, last = min(means), means[-1]
    noise = BEYOND * _noise(curve.losses)
    rise = max(means) - start
    if rise > noise and last > start - rise:
        return True
    return last - best > max(FORGOTTEN * (start - best), _settled(curve))


def _climbs(fp8: Curve, bf16: Curve) -> bool:
    """Whether FP8 ends above its best, and bf16 on the same data does not."""
    ours, theirs = _means(fp8.losses), _means(bf16.losses)
    rise = (ours[-1] - min(ours)) - (theirs[-1] - min(theirs))
    learned = fp8.losses[0] - min(ours)
    return rise > max(CLIMBED * learned, _settled(fp8) + _settled(bf16))


def _means(losses: Sequence[float]) -> list[float]:
    """Means over as many steps as the end has, from each step on."""
    width = _last(losses)
    starts = range(len(losses) - width + 1)
    return [statistics.fmean(losses[i : i + width]) for i in starts]


def _settled(curve: Curve) -> float:
    """What such a mean may be off by chance."""
    return BEYOND * _noise(curve.losses) / math.sqrt(_last(curve.losses))


def _last(losses: Sequence[float]) -> int:
    return max(1, round(END * len(losses)))


def _noise(values: Sequence[float]) -> float:
    """The deviation of steps from a smooth line, by their second differences."""
    bends = [
        abs(a - 2 * b + c)
        for a, b, c in zip(values, values[1:], values[2:], strict=False)
    ]
    return 1.4826 * statistics.median(bends) / math.sqrt(6) if bends else 0.0
