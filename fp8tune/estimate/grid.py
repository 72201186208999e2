"""The same config with other values: what fits, what is fast, what frees memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from fp8tune.estimate.predict import Prediction, predict
from fp8tune.job import Job, Target, Unknown
from fp8tune.trainers.faults import Loaded
from fp8tune.trainers.trainer import Trainer

MAX_BATCH = 256
BATCHES = 8
"""Micro-batches shown: those around the config's own."""


class Variants:
    """Jobs that differ from a config in some values."""

    def __init__(self, trainer: Trainer, loaded: Loaded, target: Target) -> None:
        self.trainer = trainer
        self.job = trainer.job(loaded, target)

    def with_values(self, changes: dict[str, Any]) -> Job:
        """The job with other values of fields that are keys."""
        return self.job.with_values(changes)


class Cell(NamedTuple):
    """One setting of the grid, and what is predicted of it."""

    micro_batch: int
    grad_accum: int
    ac: str
    precision: str
    prediction: Prediction

    @property
    def tokens(self) -> float:
        """Predicted tokens/s, 0 where they are unknown."""
        return self.prediction.tokens_per_second or 0.0


def grid(variants: Variants) -> list[Cell]:
    """Micro-batch x AC x precision; accumulation keeps the tokens of a step."""
    job = variants.job
    try:
        rows, batch = job["micro_batch"] * job["grad_accum"], job["micro_batch"]
        precisions = list(dict.fromkeys([job["precision"], "bf16", "fp8"]))
    except Unknown:
        return []
    return [
        _cell(variants, size, rows // size, ac, precision)
        for precision in precisions
        for ac in _modes(variants)
        for size in _sizes(rows, batch)
    ]


def _cell(variants: Variants, batch: int, accum: int, ac: str, precision: str) -> Cell:
    changes = {"micro_batch": batch, "grad_accum": accum}
    job = variants.with_values({**changes, "ac": ac, "precision": precision})
    return Cell(batch, accum, ac, precision, predict(job))


def _modes(variants: Variants) -> list[str]:
    key = variants.trainer.schema.job["ac"]
    return list(dict(variants.trainer.schema.dotted_keys())[key].allowed)


def _sizes(rows: int, batch: int) -> list[int]:
    """Micro-batches that divide a step's sequences, near the one that is set."""
    found = [n for n in range(1, min(rows, MAX_BATCH) + 1) if rows % n == 0]
    at = found.index(batch) if batch in found else 0
    start = max(0, min(at - BATCHES // 2, len(found) - BATCHES))
    return found[start : start + BATCHES]


def start(cells: list[Cell], precision: str) -> Cell | None:
    """The fastest setting that surely fits, in the config's own precision."""
    fitting = [
        cell
        for cell in cells
        if cell.precision == precision and cell.prediction.fit == "fits" and cell.tokens
    ]
    return max(fitting, key=lambda cell: cell.tokens, default=None)


class Saving(NamedTuple):
    """A change of values and the memory that it frees [GiB]."""

    change: str
    freed_gib: float
    peak_gib: float


def savings(variants: Variants) -> list[Saving]:
    """Changes of one knob that free memory, most first."""
    try:
        now = variants.job["memory.peak_gib"]
        found = [
            Saving(words, now - peak, peak)
            for words, changes in _changes(variants.job)
            for peak in [_peak(variants.with_values(changes))]
            if peak is not None and now - peak > 0.5
        ]
    except Unknown:
        return []
    return sorted(found, key=lambda saving: -saving.freed_gib)


def _peak(job: Job) -> float | None:
    try:
        peak: float = job["memory.peak_gib"]
    except Unknown:
        return None
    return peak


def _changes(job: Job) -> Iterator[tuple[str, dict[str, Any]]]:
    batch, accum = job["micro_batch"], job["grad_accum"]
    if accum > 1:
        rows = batch * accum
        yield (
            f"one micro-batch of {rows} instead of {accum} x {batch}",
            {"micro_batch": rows, "grad_accum": 1},
        )
        yield f"no accumulation ({batch} sequences per step)", {"grad_accum": 1}
    if batch > 1:
        half = batch // 2
        accumulated = batch * accum // half
        yield (
            f"micro-batch {half} with {accumulated} accumulated",
            {"micro_batch": half, "grad_accum": accumulated},
        )
    if job["ac"] != "full":
        yield "full activation checkpointing", {"ac": "full"}
