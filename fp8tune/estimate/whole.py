"""All that is estimated of one config."""

from __future__ import annotations

from typing import Any, NamedTuple

from fp8tune.estimate.grid import (
    Cell,
    Saving,
    Variants,
    by_gpu,
    by_world_size,
    grid,
    savings,
    start,
)
from fp8tune.estimate.predict import Prediction, gemms
from fp8tune.facts.calibration import Band

_GPU = ("gpu", "gpu.memory_gib")


class Estimate(NamedTuple):
    """The config's own prediction and those around it.

    ``world_sizes`` are filled where the number of GPUs is not said, ``gpus`` (verdict
    by verdict) where the GPU's memory is not known.
    """

    said: Prediction
    world_sizes: dict[int, Prediction]
    gpus: dict[str, list[str]]
    gemms: list[dict[str, Any]]
    cells: list[Cell]
    start: Cell | None
    savings: list[Saving]


def estimate(variants: Variants) -> Estimate:
    """Everything of one config; raises ``Unknown`` if its precision is none."""
    job = variants.job
    precision = job["precision"]
    said = variants.predict({})
    cells = grid(variants)
    sized = "world_size" in job or said.memory is not None
    return Estimate(
        said,
        {} if sized else by_world_size(variants),
        by_gpu(job, said) if said.missing.get("memory.fit") in _GPU else {},
        gemms(job),
        cells,
        start(cells, precision),
        savings(variants, said),
    )


def as_json(found: Estimate) -> dict[str, Any]:
    """One object; figures that are unknown are null."""
    said = found.said
    memory, speed = _band(said.memory), _band(said.speed)
    return {
        "version": 1,
        "memory": {
            "peak_gib": memory["value"],
            "low_gib": memory["low"],
            "high_gib": memory["high"],
            "at": said.peak_at,
            "breakdown_gib": said.breakdown_gib,
            "calibration": memory["calibration"],
        },
        "speed": {
            "tokens_per_second": speed["value"],
            "low": speed["low"],
            "high": speed["high"],
            "calibration": speed["calibration"],
            "fp8_gain": said.fp8_gain,
            "fp8_gain_low": said.fp8_gain_low,
            "fp8_gain_high": said.fp8_gain_high,
            "fp8_gain_suspicious": said.suspicious,
            "fp8_flop_share": said.fp8_flop_share,
        },
        "fit": said.fit,
        "fp8_pays": said.pays,
        "reasons": said.reasons,
        "missing": said.missing,
        "world_sizes": [
            {"world_size": size, **_short(one)}
            for size, one in found.world_sizes.items()
        ],
        "gpus": found.gpus,
        "gemms": found.gemms,
        "grid": [_cell(cell) for cell in found.cells],
        "start": _cell(found.start) if found.start else None,
        "savings": [saving._asdict() for saving in found.savings],
    }


def _band(band: Band | None) -> dict[str, Any]:
    if band is None:
        return dict.fromkeys(("value", "low", "high", "calibration"))
    used = {"runs": band.runs, "factor": band.factor} if band.runs else None
    ends = {"value": band.value, "low": band.low, "high": band.high}
    return {**ends, "calibration": used}


def _cell(cell: Cell) -> dict[str, Any]:
    return {
        "micro_batch": cell.micro_batch,
        "grad_accum": cell.grad_accum,
        "ac": cell.ac,
        "precision": cell.precision,
        **_short(cell.prediction),
        "tokens_per_second": cell.tokens or None,
    }


def _short(said: Prediction) -> dict[str, Any]:
    peak = said.memory.value if said.memory else None
    return {"peak_gib": peak, "fit": said.fit}
