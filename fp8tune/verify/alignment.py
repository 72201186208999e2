"""Lay the losses of several runs side by side, by the tokens that they have seen."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from fp8tune.verify.runs import Run, is_loss

MAX_ROWS = 400
"""Rows of an alignment; of longer runs neighbouring steps are averaged."""
SAME_BATCH = 0.05
"""Relative difference of the tokens per step up to which they are taken as equal: they
may be computed from rounded figures of a log."""
SHARED = 0.5
"""Share of the logged steps that runs must have in common to be compared step by step;
else each row has the means of all steps nearby."""
SAME_DATA = 0.5
"""Correlation of the changes from step to step above which the data had one order. On
recorded runs it is 0.99 with one order, and below 0.2 with another."""


@dataclass(frozen=True)
class Aligned:
    """The losses of all runs at the same places.

    ``unit`` of ``places`` is ``tokens`` or ``steps``. ``losses`` has a row per run.
    ``other_batch`` is whether the runs have other numbers of tokens per step;
    ``tokens_per_step`` is None if unknown. ``same_data`` is whether the first run and
    the others saw the data in one order, None if that cannot be told.
    """

    unit: str
    places: tuple[float, ...]
    losses: tuple[tuple[float, ...], ...]
    tokens_per_step: float | None = None
    other_batch: bool = False
    same_data: bool | None = None

    def __len__(self) -> int:
        """Return the number of places."""
        return len(self.places)


def align(runs: Sequence[Run]) -> Aligned:
    """Return the losses of all runs where all of them have some.

    Steps count as tokens where the batch is known, and where it is equal but not known
    as steps.
    """
    sizes = [run.tokens_per_step for run in runs]
    known = [size for size in sizes if size]
    other = bool(known) and max(known) > (1 + SAME_BATCH) * min(known)
    if len(known) < len(runs):
        unit, per_step = "steps", [1.0] * len(runs)
    elif other:
        unit, per_step = "tokens", known
    else:
        unit, per_step = "tokens", [statistics.median(known)] * len(runs)
    curves = list(map(_finite, runs, per_step))
    places, losses, by_step = _rows(curves)
    aligned = Aligned(unit, *_averaged(places, losses), per_step[0], other)
    if unit == "steps":
        aligned = replace(aligned, tokens_per_step=None)
    if by_step and len(places) > 2 * len(runs):
        aligned = replace(aligned, same_data=_same_data(losses))
    return aligned


def _finite(run: Run, per_step: float) -> dict[float, float]:
    """Return the finite losses by their place."""
    pairs = zip(run.curve.step, run.curve.loss, strict=True)
    return {step * per_step: loss for step, loss in pairs if is_loss(loss)}


def _rows(
    curves: Sequence[dict[float, float]],
) -> tuple[list[float], list[list[float]], bool]:
    """Return common places, the losses there, and whether they are single steps."""
    if not all(curves):
        return [], [[] for _ in curves], False
    low = max(min(curve) for curve in curves)
    high = min(max(curve) for curve in curves)
    inside = [
        {place: loss for place, loss in curve.items() if low <= place <= high}
        for curve in curves
    ]
    fewest = min(map(len, inside))
    common = sorted(set(inside[0]).intersection(*inside[1:]))
    if common and len(common) >= SHARED * fewest:
        return common, [[curve[at] for at in common] for curve in inside], True
    if not fewest or high <= low:
        return [], [[] for _ in curves], False
    count = min(MAX_ROWS, fewest)
    width = (high - low) / count
    bins = [_binned(curve, low, width, count) for curve in inside]
    full = [n for n in range(count) if all(row[n] for row in bins)]
    places = [low + (n + 0.5) * width for n in full]
    return places, [[statistics.fmean(row[n]) for n in full] for row in bins], False


def _binned(
    curve: dict[float, float], low: float, width: float, count: int
) -> list[list[float]]:
    bins: list[list[float]] = [[] for _ in range(count)]
    for place, loss in curve.items():
        bins[min(count - 1, int((place - low) / width))].append(loss)
    return bins


def _averaged(
    places: Sequence[float], losses: Sequence[Sequence[float]]
) -> tuple[tuple[float, ...], tuple[tuple[float, ...], ...]]:
    """Return at most ``MAX_ROWS`` rows, each the mean of as many neighbours."""
    size = math.ceil(len(places) / MAX_ROWS) or 1

    def means(values: Sequence[float]) -> tuple[float, ...]:
        last = len(values) - size + 1
        return tuple(
            statistics.fmean(values[n : n + size]) for n in range(0, last, size)
        )

    return means(places), tuple(map(means, losses))


def _same_data(losses: Sequence[Sequence[float]]) -> bool | None:
    """Return whether the losses of all runs go up and down together."""
    changes = [[b - a for a, b in pairwise(row)] for row in losses]
    try:
        return all(
            statistics.correlation(changes[0], other) > SAME_DATA
            for other in changes[1:]
        )
    except statistics.StatisticsError:
        return None
