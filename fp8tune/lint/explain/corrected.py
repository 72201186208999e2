"""What measured runs make of a fact: the figure that ``fp8tune estimate`` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fp8tune.facts import calibration
from fp8tune.facts.calibration import Run
from fp8tune.job import Job, Unknown

_MEMORY = {
    "memory.peak_gib": "value",
    "memory.low_gib": "low",
    "memory.high_gib": "high",
}
_SPEED = {
    "speed.tokens_per_second": "value",
    "speed.tokens_low": "low",
    "speed.tokens_high": "high",
}


class Corrected(NamedTuple):
    """A fact as corrected, by how many runs of configs like this one, and how much.

    0 runs where those of other configs on the GPU say how fast it is.
    """

    value: Any
    runs: int
    factor: float


def corrected(name: str, job: Job, runs: Sequence[Run]) -> Corrected | None:
    """The corrected value of a fact; none if no run speaks for it."""
    try:
        if name in _SPEED:
            band = calibration.speed(job, runs)
            value: Any = getattr(band, _SPEED[name])
        elif name in _MEMORY or name == "memory.fit":
            band = calibration.memory(job, runs)
            value = (
                getattr(band, _MEMORY[name])
                if name in _MEMORY
                else str(calibration.memory_fit(job, band))
            )
        else:
            return None
        plain = value == job[name]
    except Unknown:
        return None
    return None if plain and not band.runs else Corrected(value, band.runs, band.factor)
