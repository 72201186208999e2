"""What predicted communication leaves open of the difference between two settings."""

from __future__ import annotations

import math
import statistics
from itertools import product

from fp8tune.trials.record import Record


def left_open(one: Record, other: Record) -> float:
    """By how much the ratio of two records' tokens/s may be wrong (log).

    The collectives of both go over one network: where the trials tell their times on
    slower and faster ones, the worst of these for both alike; else each may be wrong by
    itself. 0 where all was measured.
    """
    steps, added = zip(*map(_times, (one, other)), strict=True)
    if not any(added) or not all(steps):
        return 0.0
    expected = _ratio(steps, added)
    mine, theirs = (_ends(r, ms) for r, ms in zip((one, other), added, strict=True))
    alike = len(mine) == len(theirs) > 0
    pairs = zip(mine, theirs, strict=True) if alike else _each(*added)
    return max(abs(math.log(_ratio(steps, pair) / expected)) for pair in pairs)


def _times(record: Record) -> tuple[float, float]:
    """What a step took and what collectives add to it [ms]."""
    measured = statistics.median(record.step_ms) if record.step_ms else 0.0
    return measured, record.communication_ms


def _ends(record: Record, added: float) -> list[float]:
    """What they may add as well [ms], in one order for all trials."""
    ends = record.communication_ends_ms
    sound = all(ms >= 0 for ms in ends)
    return [*ends, added] if ends and sound else []


def _each(mine: float, theirs: float) -> product[tuple[float, float]]:
    """Between nothing and twice the time, each by itself."""
    return product((0.0, 2 * mine), (0.0, 2 * theirs))


def _ratio(steps: tuple[float, ...], added: tuple[float, ...]) -> float:
    return (steps[0] + added[0]) / (steps[1] + added[1])
