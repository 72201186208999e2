"""What is expected of settings before anything is measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fp8tune.job import Job, Unknown
from fp8tune.search.space import Point, Space


class Expected(NamedTuple):
    """Peak memory of the fullest GPU [GiB], and tokens/s on any scale; 0: unknown."""

    peak_gib: float = 0.0
    tokens_per_second: float = 0.0


Prior = Callable[[Point], Expected]
"""What a point is expected to do."""


def flat(_point: Point) -> Expected:
    """Nothing is expected."""
    return Expected()


def from_job(space: Space, job: Job) -> Prior:
    """What the facts say of the config with a point's values in it."""
    names = job.words.keys
    written = {name: value for name, value in job.items() if name in names}
    target = job.target

    def expect(point: Point) -> Expected:
        changed = Job(job.words, written | space.values(point), job.written, target)
        peak = _number(changed, "memory.peak_gib")
        return Expected(peak, _number(changed, "speed.tokens_per_second"))

    return expect


def _number(job: Job, name: str) -> float:
    try:
        value: Any = job[name]
    except Unknown:
        return 0.0
    plain = isinstance(value, (int, float)) and 0 < value < 1e15
    return float(value) if plain else 0.0


def card_gib(job: Job) -> float:
    """Memory of the GPU that a job is for [GiB]; 0 if unknown."""
    return _number(job, "gpu.memory_gib")
