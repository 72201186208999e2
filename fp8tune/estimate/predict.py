"""What the facts say of one job, with what they leave open."""

from __future__ import annotations

from typing import Any, NamedTuple

from fp8tune.job import Job, Unknown


class Prediction(NamedTuple):
    """Memory of rank 0 [GiB], tokens/s over all GPUs, and two verdicts.

    What is not known is ``None``, and ``fit`` and ``pays`` then say ``unknown``;
    ``missing`` names the facts that would be needed, by what they are needed for.
    """

    peak_gib: float | None
    low_gib: float | None
    high_gib: float | None
    peak_at: str | None
    breakdown_gib: dict[str, float]
    fit: str
    tokens_per_second: float | None
    tokens_low: float | None
    tokens_high: float | None
    fp8_gain: float | None
    fp8_gain_low: float | None
    fp8_gain_high: float | None
    fp8_flop_share: float | None
    pays: str
    reasons: list[str]
    missing: dict[str, str]


_NAMES = {
    "peak_gib": "memory.peak_gib",
    "low_gib": "memory.low_gib",
    "high_gib": "memory.high_gib",
    "peak_at": "memory.peak_at",
    "breakdown_gib": "memory.breakdown",
    "fit": "memory.fit",
    "tokens_per_second": "speed.tokens_per_second",
    "tokens_low": "speed.tokens_low",
    "tokens_high": "speed.tokens_high",
    "fp8_gain": "speed.fp8_gain",
    "fp8_gain_low": "speed.fp8_gain_low",
    "fp8_gain_high": "speed.fp8_gain_high",
    "fp8_flop_share": "fp8.flop_share",
    "pays": "fp8.pays",
    "reasons": "fp8.reasons",
}
_INSTEAD: dict[str, Any] = {
    "breakdown_gib": {},
    "fit": "unknown",
    "pays": "unknown",
    "reasons": [],
}


def predict(job: Job) -> Prediction:
    """Everything that can be said of a job."""
    values: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for field, fact in _NAMES.items():
        try:
            values[field] = job[fact]
        except Unknown as error:
            values[field] = _INSTEAD.get(field)
            missing[fact] = str(error.args[0])
    return Prediction(**values, missing=missing)


def gemms(job: Job) -> list[dict[str, Any]]:
    """The rows of ``gemm.table``, none where it is unknown."""
    try:
        rows: list[dict[str, Any]] = job["gemm.table"]
    except Unknown:
        return []
    return rows
