"""Whether a run of FP8 diverged: by itself, and beside bf16 on the same seed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from fp8tune.search.stability.curve import Curve

END = 0.25
"""Share of a run, at its end, over which its loss is averaged."""
FORGOTTEN = 0.5
"""Share of what a run had learned that it has lost when it is called diverged."""
CLIMBED = 0.05
"""The same, where bf16 on the same seed has not lost it: 0.35 of 7 nats."""
LATE = 0.125
"""Share of a run over which a loss is averaged to see that it climbs."""
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
    start, means = curve.losses[0], _means(curve.losses, _last(curve.losses))
    best, last = min(means), means[-1]
    noise = BEYOND * _noise(curve.losses)
    rise = max(means) - start
    if rise > noise and last > start - rise:
        return True
    settled = noise / math.sqrt(_last(curve.losses))
    return last - best > max(FORGOTTEN * (start - best), settled)


def _climbs(fp8: Curve, bf16: Curve) -> bool:
    """Whether FP8 ends above its best, and bf16 on the same data does not."""
    width = max(1, round(LATE * len(fp8.losses)))
    gaps = [a - b for a, b in zip(fp8.losses, bf16.losses, strict=False)]
    ours, beside = _means(fp8.losses, width), _means(gaps, width)
    best = ours.index(min(ours))
    rise = min(means[-1] - means[best] for means in (ours, beside))
    noise = BEYOND * _noise(gaps) * math.sqrt(2 / width)
    return rise > max(CLIMBED * (fp8.losses[0] - ours[best]), noise)


def _means(losses: Sequence[float], width: int) -> list[float]:
    """Means over so many steps, from each step on."""
    starts = range(len(losses) - width + 1)
    return [statistics.fmean(losses[i : i + width]) for i in starts]


def _last(losses: Sequence[float]) -> int:
    return max(1, round(END * len(losses)))


def _noise(values: Sequence[float]) -> float:
    """The deviation of steps from a smooth line, by their second differences."""
    bends = [
        abs(a - 2 * b + c)
        for a, b, c in zip(values, values[1:], values[2:], strict=False)
    ]
    return 1.4826 * statistics.median(bends) / math.sqrt(6) if bends else 0.0
