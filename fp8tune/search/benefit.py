"""What the chosen setting and FP8 gain, in tokens/s and in tokens per joule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fp8tune.search.aim import ENERGY, aimed
from fp8tune.search.answer import Answer, Beside
from fp8tune.search.plan import Plan
from fp8tune.search.runs import by_point
from fp8tune.search.statistics import Speed
from fp8tune.search.study import Trial
from fp8tune.search.twins import Pair, fp8_gain


class Benefit(NamedTuple):
    """The best that bf16 was, what FP8 gains over it, and of which settings."""

    bf16: Speed | None = None
    gain: Speed | None = None
    pair: Pair | None = None


UNKNOWN = Benefit()
"""Where nothing tells it."""


def in_speed(found: Answer) -> Benefit:
    """What FP8 gains in tokens/s."""
    return Benefit(found.twin, found.fp8, found.pair)


def in_joules(plan: Plan, found: Answer, trials: Sequence[Trial]) -> Benefit:
    """What FP8 gains in tokens per joule: nothing where no watts are known."""
    points = [plan.given] if found.chosen is None else [found.chosen, plan.given]
    runs = by_point(plan.space, aimed(trials, ENERGY))
    return Benefit(*fp8_gain(plan.space, runs, points))


def reached(found: Answer, *, aimed_at: bool = True) -> Beside:
    """What the settings reach by the aim, or by the other figure."""
    if (found.aim == ENERGY) == aimed_at:
        return found.energy
    return Beside(found.speed, found.given, found.twin, found.gain)
