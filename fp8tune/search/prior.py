"""Predict all settings with the estimate, before anything is measured."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterable, Sequence

from fp8tune.facts import calibration
from fp8tune.facts.runs import Run
from fp8tune.job import Job, Unknown
from fp8tune.search.sampler import Expected
from fp8tune.search.sampler.memory import PRIOR_ERROR
from fp8tune.search.sampler.speed import AC_EFFECT, COMPILE_EFFECT
from fp8tune.trials.record import positive
from fp8tune.trials.space import Point, Space

CORRECTED = 0.05
"""Smallest relative deviation of a peak that measured runs have corrected."""

Prior = Callable[[Point], Expected]
"""What is expected of a setting."""


def prior_of_job(space: Space, job: Job, runs: Sequence[Run] = ()) -> Prior:
    """Return the prediction of the config with the values of each setting.

    Measured ``runs`` of similar configs correct it.
    """

    def expect(point: Point) -> Expected:
        try:
            changed = job.keep_tokens(space.values(point))
        except Unknown:  # no key sets such a value
            return Expected()
        peak = _number(changed, "memory.peak_gib")
        expected = Expected(peak, _number(changed, "speed.tokens_per_second"))
        return _corrected(expected, changed, runs) if runs else expected

    return expect


def _corrected(expected: Expected, job: Job, runs: Sequence[Run]) -> Expected:
    with contextlib.suppress(Unknown):
        band = calibration.memory(job, runs)
        if band.runs:
            error = max(CORRECTED, math.log(band.high / band.low) / 2)
            error = min(error, PRIOR_ERROR)
            expected = expected._replace(peak_gib=band.value, error=error)
    with contextlib.suppress(Unknown):
        speed = calibration.speed(job, runs).value
        expected = expected._replace(tokens_per_second=speed)
    return expected


def _number(job: Job, name: str) -> float:
    """Return a fact of a job; 0 if it is unknown or not a positive finite number."""
    value = job.find(name)
    return float(value) if positive(value) and value < 1e15 else 0.0


def with_speeds(
    space: Space, prior: Prior, points: Iterable[Point]
) -> dict[Point, Expected]:
    """Return predictions of points and their bf16 versions, all with speeds or none.

    If most speeds are known, each other setting takes the speed of the most similar
    one, scaled by the typical effects of AC and compile. For FP8 without compile that
    is bf16 without compile, since its casts cost more than its GEMMs save (the rule
    ``fp8-without-compile``).
    """
    pairs = ((point, space.in_bf16(point) or point) for point in points)
    every = dict.fromkeys(itertools.chain.from_iterable(pairs))
    expected = {point: prior(point) for point in every}
    known = {p: e for p, e in expected.items() if e.tokens_per_second}
    if 2 * len(known) < len(expected):
        return {p: e._replace(tokens_per_second=0.0) for p, e in expected.items()}

    def speed(point: Point) -> float:
        similar = min(known, key=lambda other: _distance(space, point, other))
        change = _typical_effect(space, point) - _typical_effect(space, similar)
        return known[similar].tokens_per_second * math.exp(change)

    return {
        point: e if point in known else e._replace(tokens_per_second=speed(point))
        for point, e in expected.items()
    }


def _typical_effect(space: Space, point: Point) -> float:
    """Return the log of the typical effect of AC and compile on tokens/s."""
    ac, compiled = (space.value(point, role) for role in ("ac", "compile"))
    return AC_EFFECT.get(ac, 0.0) + COMPILE_EFFECT.get(compiled, 0.0)


def _distance(space: Space, one: Point, other: Point) -> tuple[float, bool, int]:
    differing = sum(a != b for a, b in zip(one, other, strict=True))
    compiled = space.value(one, "compile") != space.value(other, "compile")
    return abs(space.batch(one) - space.batch(other)), compiled, differing


def card_gib(job: Job) -> float:
    """Return the memory of the job's GPU; 0 if unknown [GiB]."""
    return _number(job, "gpu.memory_gib")
