"""Correct a fact by measured runs, as ``fp8tune estimate`` does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fp8tune.facts import calibration
from fp8tune.facts.runs import Run
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
_GAIN = (
    "speed.fp8_gain",
    "speed.fp8_gain_low",
    "speed.fp8_gain_high",
    "speed.fp8_gain_suspicious",
    "fp8.pays",
)


class Corrected(NamedTuple):
    """A corrected fact, the number of runs of similar configs, and the factor.

    The number is 0 if only runs of other configs on the GPU correct its speed.
    """

    value: Any
    runs: int
    factor: float


def corrected(name: str, job: Job, runs: Sequence[Run]) -> Corrected | None:
    """Return the corrected value of a fact; ``None`` if no run applies to it."""
    try:
        found = _found(name, job, runs)
        plain = found is None or found.value == job[name]
    except Unknown:
        return None
    return None if found is None or (plain and not found.runs) else found


def _found(name: str, job: Job, runs: Sequence[Run]) -> Corrected | None:
    if name in _SPEED:
        band = calibration.speed(job, runs)
        return Corrected(getattr(band, _SPEED[name]), band.runs, band.factor)
    if name in _MEMORY:
        band = calibration.memory(job, runs)
        return Corrected(getattr(band, _MEMORY[name]), band.runs, band.factor)
    if name == "memory.fit":
        band = calibration.memory(job, runs)
        fit = str(calibration.memory_fit(job, band))
        return Corrected(fit, band.runs, band.factor)
    gain = calibration.gain(job, runs) if name in _GAIN else None
    if gain is None:
        return None
    return Corrected(job.with_values(gain.facts)[name], gain.runs, gain.factor)
