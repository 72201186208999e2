"""The same config with other values: what fits, what is fast, what frees memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fp8tune.estimate.predict import Prediction, predict
from fp8tune.facts.calibration import Run
from fp8tune.facts.gpus import Gpu, members
from fp8tune.facts.peak import fit, usable_gib
from fp8tune.job import Job, Target, Unknown
from fp8tune.trainers.faults import Loaded
from fp8tune.trainers.trainer import Trainer

MAX_BATCH = 256
BATCHES = 8
"""Micro-batches shown: those around the config's own."""

LEAST_GIB = 0.5
"""Savings smaller than this are not worth a line."""

SIZES = 8
"""Numbers of GPUs shown where it is not said."""


class Variants:
    """Jobs that differ from a config in some values, and runs that correct them."""

    def __init__(
        self,
        trainer: Trainer,
        loaded: Loaded,
        target: Target,
        runs: Sequence[Run] = (),
    ) -> None:
        self.trainer = trainer
        self.loaded = loaded
        self.target = target
        self.runs = runs
        self.job = trainer.job(loaded, target)

    def with_values(self, changes: dict[str, Any]) -> Job:
        """The job with other values of fields that are keys."""
        return self.job.with_values(changes)

    def on(self, world_size: int) -> Variants:
        """The same on so many GPUs."""
        target = self.target._replace(world_size=world_size)
        return Variants(self.trainer, self.loaded, target, self.runs)

    def predict(self, changes: dict[str, Any]) -> Prediction:
        """What is predicted of the job with other values."""
        return predict(self.with_values(changes), self.runs)


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
        speed = self.prediction.speed
        return speed.value if speed else 0.0


def grid(variants: Variants) -> list[Cell]:
    """Micro-batch x AC x precision; accumulation keeps the tokens of a step.

    FP8 beside tensor parallelism is left out: the trainer refuses it.
    """
    job = variants.job
    try:
        rows, batch = job["micro_batch"] * job["grad_accum"], job["micro_batch"]
        others = ["bf16", "fp8"] if job["tp"] == 1 else ["bf16"]
        precisions = list(dict.fromkeys([job["precision"], *others]))
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
    said = variants.predict({**changes, "ac": ac, "precision": precision})
    return Cell(batch, accum, ac, precision, said)


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
    """The fastest setting that surely fits, in the config's own precision.

    Where no speed is known, that of the largest micro-batch, with the least AC.
    """
    fitting = [
        cell
        for cell in cells
        if cell.precision == precision and cell.prediction.fit == "fits"
    ]
    order = {"none": 2, "selective": 1}
    return max(
        fitting,
        key=lambda cell: (cell.tokens, cell.micro_batch, order.get(cell.ac, 0)),
        default=None,
    )


def by_world_size(variants: Variants) -> dict[int, Prediction]:
    """What is predicted on other numbers of GPUs, doubling from the fewest."""
    job = variants.job
    try:
        least: int = job["tp"] * job["pp"]
    except Unknown:
        return {}
    sizes = [least << power for power in range(SIZES)]
    found = {size: variants.on(size).predict({}) for size in sizes}
    return {size: said for size, said in found.items() if said.memory}


def by_gpu(job: Job, said: Prediction) -> dict[str, list[str]]:
    """GPUs with FP8 by the verdict that the peak would have there, smallest first."""
    found: dict[str, list[str]] = {}
    if said.memory:
        for gpu in sorted(members(), key=lambda gpu: gpu.memory_gib or 0.0):
            try:
                verdict = _verdict(job, said, gpu)
            except Unknown:
                continue
            found.setdefault(verdict, []).append(gpu.name)
    return found


def _verdict(job: Job, said: Prediction, gpu: Gpu) -> str:
    if not gpu.fp8_matmul or not gpu.memory_gib or not said.memory:
        raise Unknown("gpu.memory_gib")
    size = gpu.memory_gib
    low, high = said.memory.low, said.memory.high
    return str(fit(job["pp"], size, low, high, usable_gib(size)))


class Saving(NamedTuple):
    """A change of values and the memory that it frees [GiB]."""

    change: str
    freed_gib: float
    peak_gib: float


def savings(variants: Variants, said: Prediction) -> list[Saving]:
    """Changes of one knob that free memory, most first."""
    if said.memory is None:
        return []
    now = said.memory.value
    found = [
        Saving(words, now - memory.value, memory.value)
        for words, changes in _changes(variants.job)
        if (memory := variants.predict(changes).memory)
    ]
    large = [saving for saving in found if saving.freed_gib > LEAST_GIB]
    return sorted(large, key=lambda saving: -saving.freed_gib)


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
