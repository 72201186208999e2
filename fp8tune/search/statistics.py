"""How fast a setting is, and how sure a few short runs make us."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fp8tune.search.record import Record

RUN_SPREAD = 0.005
"""Relative standard deviation between fresh runs of one setting, before any repeat.

Within a run steps differ by 0.11 % (1 GPU) to 0.17 % (8 GPUs) in 53 published runs
(prime-rl benchmarks); between runs clocks and allocator dominate."""
PRIOR_RUNS = 4
"""How many degrees of freedom that figure is worth."""
SAME = 0.01
"""Relative difference below which two settings are called the same."""


class Speed(NamedTuple):
    """Tokens/s over all GPUs, with a 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def half(self) -> float:
        """Half of the interval, relative to the value."""
        return (self.high - self.low) / 2 / self.value


def spread(settings: Iterable[Sequence[Record]]) -> float:
    """Relative standard deviation between runs, pooled over settings with repeats."""
    total, freedom = PRIOR_RUNS * RUN_SPREAD**2, PRIOR_RUNS
    for records in settings:
        values = [record.tokens_per_second for record in records if record.ok]
        if len(values) > 1:
            middle = statistics.fmean(values)
            total += sum((value / middle - 1) ** 2 for value in values)
            freedom += len(values) - 1
    return math.sqrt(total / freedom)


def speed(records: Sequence[Record], deviation: float = RUN_SPREAD) -> Speed | None:
    """The speed of one setting from its runs, which differ by ``deviation``."""
    values = [record.tokens_per_second for record in records if record.ok]
    if not values:
        return None
    middle = statistics.median(values)
    half = min(1.0, 1.96 * deviation / math.sqrt(len(values)))
    return Speed(middle, middle * (1 - half), middle * (1 + half))


def ratio(one: Speed, other: Speed) -> Speed:
    """How much faster one is than another, with its interval."""
    value = one.value / other.value
    half = math.hypot(one.half, other.half)
    return Speed(value, value * (1 - half), value * (1 + half))


def verdict(chosen: Speed, given: Speed) -> str:
    """``faster``, ``same``, ``slower`` or ``unsure``: where the ratio's interval lies.

    ``faster`` and ``slower`` exclude no difference; ``same`` is within 1 %, and not
    known to be anything else.
    """
    gain = ratio(chosen, given)
    small = abs(gain.value - 1) <= SAME
    if gain.low > 1 and not small:
        return "faster"
    if gain.high < 1 and not small:
        return "slower"
    return "same" if small else "unsure"
