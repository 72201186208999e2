"""When a slow trial need go no further: what its steady steps so far allow.

Standard library only: trials and their parent both ask it.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from fp8tune.runners.steady import TAIL, interval
from fp8tune.search.record import Record

STEPS = TAIL
"""Steady steps before which nothing is ended: fewer hide a change of level."""


def bounds(times: Sequence[float], tokens: float) -> tuple[float, float]:
    """The 95 % interval of tokens/s, from times [ms] of steps of so many tokens."""
    low, high = interval(times)
    return tokens / high * 1e3, tokens / low * 1e3


def is_hopeless(times: Sequence[float], tokens: float, floor: float) -> bool:
    """Whether steady steps are surely slower than ``floor`` tokens/s."""
    if not floor or len(times) < STEPS or not min(times):
        return False
    likely = tokens / statistics.median(times) * 1e3
    return likely < floor and bounds(times, tokens)[1] < floor


def ended_early(whole: Record, floor: float) -> Record:
    """The record that a recorded trial would have left with that floor.

    It costs less by the steps that were not taken.
    """
    times = whole.step_ms
    if not floor or not whole.measured or len(times) <= STEPS:
        return whole
    tokens = whole.tokens_per_second * statistics.median(times) / 1e3
    for count in range(STEPS, len(times)):
        if is_hopeless(times[:count], tokens, floor):
            return _cut(whole, count, bounds(times[:count], tokens)[1])
    return whole


def _cut(whole: Record, count: int, bound: float) -> Record:
    times = whole.step_ms[:count]
    said = {
        "censored": True,
        "median_step_ms": statistics.median(times),
        "median_step_ms_95": list(interval(times)),
    }
    return whole._replace(
        tokens_per_second=bound,
        step_ms=times,
        cost_s=max(0.0, whole.cost_s - sum(whole.step_ms[count:]) / 1e3),
        more={**whole.more, **said},
    )
