"""What is expected of settings before anything is measured."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fp8tune.facts import calibration
from fp8tune.facts.runs import Run
from fp8tune.job import Job, Unknown
from fp8tune.search.sampler import Expected
from fp8tune.search.sampler.memory import PRIOR_ERROR
from fp8tune.search.sampler.speed import AC_EFFECT, COMPILE_EFFECT
from fp8tune.search.tokens import with_knobs
from fp8tune.trials.space import Point, Space

CORRECTED = 0.05
"""Smallest relative deviation of a peak that measured runs have corrected."""

Prior = Callable[[Point], Expected]
"""What a point is expected to do."""


def flat(_point: Point) -> Expected:
    """Nothing is expected."""
    return Expected()


def from_job(space: Space, job: Job, runs: Sequence[Run] = ()) -> Prior:
    """What the facts say of the config with a point's values in it.

    Measured runs of configs like it correct that.
    """

    def expect(point: Point) -> Expected:
        changed = with_knobs(job, space.values(point))
        peak = _number(changed, "memory.peak_gib")
        speed = _number(changed, "speed.tokens_per_second")
        if not runs:
            return Expected(peak, speed)
        return _corrected(Expected(peak, speed), changed, runs)

    return expect


def _corrected(found: Expected, job: Job, runs: Sequence[Run]) -> Expected:
    with contextlib.suppress(Unknown):
        band = calibration.memory(job, runs)
        if band.runs:
            error = max(CORRECTED, math.log(band.high / band.low) / 2)
            found = found._replace(peak_gib=band.value, error=min(error, PRIOR_ERROR))
    with contextlib.suppress(Unknown):
        found = found._replace(tokens_per_second=calibration.speed(job, runs).value)
    return found


def _number(job: Job, name: str) -> float:
    try:
        value: Any = job[name]
    except Unknown:
        return 0.0
    plain = isinstance(value, (int, float)) and 0 < value < 1e15
    return float(value) if plain else 0.0


def completed(
    space: Space, expected: Mapping[Point, Expected]
) -> dict[Point, Expected]:
    """Expectations with a speed for every point, or for none.

    Where most are known, the others are as the usual effects of AC and compile have
    them, beside the nearest that is known: the same batch, as much else as there is.
    """
    known = {p: e for p, e in expected.items() if e.tokens_per_second}
    if 2 * len(known) < len(expected):
        return {p: e._replace(tokens_per_second=0.0) for p, e in expected.items()}

    def speed(point: Point) -> float:
        near = min(known, key=lambda other: _distance(space, point, other))
        change = _usual_effect(space, point) - _usual_effect(space, near)
        return known[near].tokens_per_second * math.exp(change)

    return {
        point: e if point in known else e._replace(tokens_per_second=speed(point))
        for point, e in expected.items()
    }


def _usual_effect(space: Space, point: Point) -> float:
    """Log of what AC and compile usually do to tokens/s."""
    ac, compiled = (space.value(point, role) for role in ("ac", "compile"))
    return AC_EFFECT.get(ac, 0.0) + COMPILE_EFFECT.get(compiled, 0.0)


def _distance(space: Space, one: Point, other: Point) -> tuple[float, int]:
    differing = sum(a != b for a, b in zip(one, other, strict=True))
    return abs(space.batch(one) - space.batch(other)), differing


def card_gib(job: Job) -> float:
    """Memory of the GPU that a job is for [GiB]; 0 if unknown."""
    return _number(job, "gpu.memory_gib")
