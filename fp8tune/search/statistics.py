"""How fast a setting is, and how sure a few short runs make us."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from fp8tune.search.record import Record

RUN_SPREAD = 0.005
"""Relative standard deviation between fresh runs of one setting, where fewer than
three were made. Within a run steps differ by 0.11 % (1 GPU) to 0.17 % (8 GPUs) in 53
published runs (prime-rl benchmarks); between runs clocks and allocator dominate."""

SAME = 0.01
"""Relative difference below which two settings are called the same."""


class Speed(NamedTuple):
    """Tokens/s over all GPUs, with a 95 % interval."""

    value: float
    low: float
    high: float


def speed(records: Sequence[Record]) -> Speed | None:
    """The speed of one setting from its runs that measured it."""
    values = [record.tokens_per_second for record in records if record.ok]
    if not values:
        return None
    middle = statistics.median(values)
    spread = RUN_SPREAD
    if len(values) > 2:
        spread = max(spread, statistics.stdev(values) / middle)
    half = 1.96 * spread / math.sqrt(len(values))
    return Speed(middle, middle * (1 - half), middle * (1 + half))


def verdict(chosen: Speed, given: Speed) -> str:
    """``faster``, ``same``, ``slower`` or ``unsure``, by the intervals' distance."""
    ratio = chosen.value / given.value
    noise = math.hypot(_relative(chosen), _relative(given))
    if ratio - noise > 1 + SAME / 2:
        return "faster"
    if ratio + noise < 1 - SAME / 2:
        return "slower"
    return "same" if abs(ratio - 1) <= SAME else "unsure"


def _relative(measured: Speed) -> float:
    return (measured.high - measured.low) / 2 / measured.value
