"""Predict variants of a config: what fits, what is fast, what frees memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple

from fp8tune.config.reader import Config
from fp8tune.estimate import refusals
from fp8tune.estimate.predict import Prediction, predict
from fp8tune.estimate.refusals import Refusal
from fp8tune.facts.memory.verdict import FITS
from fp8tune.facts.runs import Run
from fp8tune.job import Job, Unknown
from fp8tune.trainers.unknown_keys import joined
from fp8tune.words import shown

MAX_BATCH = 256
BATCHES = 8
"""Micro-batches shown: those around the config's own."""

LEAST_GIB = 0.5
"""Smaller savings are not shown."""


class Variants:
    """Variants of a config with other values, and runs that correct their estimates."""

    def __init__(self, config: Config, runs: Sequence[Run] = ()) -> None:
        self.config, self.trainer, self.loaded = config, config.trainer, config.loaded
        self.runs = runs
        self.job = config.job
        self.target = self.job.target

    @cached_property
    def refused(self) -> list[Refusal]:
        """Why the config itself cannot run; empty if it can."""
        faults = joined(self.loaded.faults, self.trainer)
        return refusals.of_file(faults, self.job) + refusals.of_job(self.job)

    @cached_property
    def fp8_off(self) -> list[Refusal]:
        """Why nothing computes in FP8 although it is asked for; empty if FP8 is on."""
        return refusals.fp8_off(self.job)

    def refusals(self, changes: dict[str, Any]) -> list[Refusal]:
        """Return why the config with other values cannot run."""
        if not changes:
            return self.refused
        job, fields = self._changed(changes), set(changes)
        kept = [one for one in self.refused if not _rests_on(one, job, fields)]
        return kept + refusals.of_job(job, fields)

    def _changed(self, changes: dict[str, Any]) -> Job:
        """Return the job with other values.

        It stays as it is if the keys to change hold values that the trainer refuses.
        """
        with suppress(Unknown):
            return self.job.with_values(changes) if changes else self.job
        return self.job

    def on(self, world_size: int, origin: str = "") -> Variants:
        """Return the same on ``world_size`` GPUs; ``origin`` says who set that."""
        target = self.target._replace(world_size=world_size, world_size_origin=origin)
        return Variants(self.config.on(target), self.runs)

    def predict(self, changes: dict[str, Any]) -> Prediction:
        """Predict the job with other values.

        Predicts nothing if these values are why it cannot run: they must not be
        offered.
        """
        job = self._changed(changes)
        refused = [
            one._replace(voids=one.voids or self._by_values(one, job, set(changes)))
            for one in self.refusals(changes)
        ]
        found = predict(job, self.runs, refused)
        return found.without_fp8 if self.fp8_off else found

    def _by_values(self, refusal: Refusal, job: Job, fields: set[str]) -> bool:
        """Return whether other values of these fields could avoid the refusal."""
        return refusal.rule not in self._always and _rests_on(refusal, job, fields)

    @cached_property
    def _always(self) -> set[str]:
        return {refusal.rule for refusal in self.refusals({"micro_batch": 1})}


def _rests_on(refusal: Refusal, job: Job, fields: set[str]) -> bool:
    rule = refusals.named(refusal.rule)
    rests = rule is not None and rule.source and refusals.rests_on(rule, job, fields)
    return bool(rests)


class Cell(NamedTuple):
    """One setting of the grid, and its prediction."""

    micro_batch: int
    grad_accum: int
    ac: str
    precision: str
    prediction: Prediction

    @property
    def values(self) -> dict[str, Any]:
        """Its values by field of the job."""
        return dict(zip(self._fields[:-1], self, strict=False))

    @property
    def rank_sequences(self) -> int:
        """Sequences per data-parallel rank and optimizer step."""
        return self.micro_batch * self.grad_accum

    @property
    def tokens(self) -> float:
        """Predicted tokens/s, 0 if unknown."""
        speed = self.prediction.speed
        return speed.value if speed else 0.0


def grid(variants: Variants) -> list[Cell]:
    """Predict micro-batch x AC x precision; accumulation keeps the tokens of a step."""
    job = variants.job
    try:
        rows, batch = job.rank_sequences, job["micro_batch"]
        both = ["bf16"] if variants.fp8_off else ["bf16", "fp8"]
        precisions = list(dict.fromkeys([job["precision"], *both]))
        modes = _modes(variants)
    except Unknown:
        return []
    return [
        _cell(variants, size, rows // size, ac, precision)
        for precision in precisions
        for ac in modes
        for size in _sizes(rows, batch)
    ]


def _cell(variants: Variants, batch: int, accum: int, ac: str, precision: str) -> Cell:
    changes = {"micro_batch": batch, "grad_accum": accum}
    said = variants.predict({**changes, "ac": ac, "precision": precision})
    return Cell(batch, accum, ac, precision, said)


def _modes(variants: Variants) -> list[str]:
    """Return the AC modes that find something to wrap, and the config's own."""
    job, allowed = variants.job, variants.trainer.values_of("ac")
    return [mode for mode in allowed if mode in (*job["ac_modes"], job["ac"])]


def _sizes(rows: int, batch: int) -> list[int]:
    """Return micro-batches that divide a step's sequences, near the config's own.

    None for a micro-batch below 1, which no trainer runs.
    """
    if batch < 1:
        return []
    usual = {n for n in range(1, min(rows, MAX_BATCH) + 1) if rows % n == 0}
    found = sorted(usual | {batch})
    at = found.index(batch)
    start = max(0, min(at - BATCHES // 2, len(found) - BATCHES))
    return found[start : start + BATCHES]


def in_reach(cells: list[Cell], job: Job) -> list[Cell]:
    """Return the cells without the largest micro-batches at which nothing fits.

    The config's own and one of those stay. A larger one may need less memory, because
    it accumulates less. None is in reach if no cell has a figure.
    """
    if not any(cell.prediction.has_memory for cell in cells):
        return []
    sizes = sorted({cell.micro_batch for cell in cells})
    reached = {cell.micro_batch for cell in cells if cell.prediction.may_fit}
    largest = max({job["micro_batch"], *reached})
    rest = [size for size in sizes if size > largest]
    return [cell for cell in cells if cell.micro_batch not in rest[1:]]


def start(cells: list[Cell], precision: str) -> Cell | None:
    """Return the fastest setting that fits, in the config's own precision if it runs.

    If no speed is known: the largest micro-batch, with the least AC.
    """
    mine = [cell for cell in cells if cell.precision == precision]
    if all(cell.prediction.impossible for cell in mine):
        mine = [cell for cell in cells if cell.precision == "bf16"]
    fitting = [cell for cell in mine if cell.prediction.fit == FITS]
    order = {"none": 2, "selective": 1}
    return max(
        fitting,
        key=lambda cell: (cell.tokens, cell.micro_batch, order.get(cell.ac, 0)),
        default=None,
    )


def preferred(cells: list[Cell], precision: str, pays: str) -> Cell | None:
    """Return the same in the other precision, if the verdict on FP8 prefers that."""
    is_fp8 = precision == "fp8"
    other = {"yes": "" if is_fp8 else "fp8", "no": "bf16" if is_fp8 else ""}.get(pays)
    return start([cell for cell in cells if cell.precision == other], other or "")


class Saving(NamedTuple):
    """A change of values, the memory that it frees [GiB], and the verdict after it."""

    change: str
    freed_gib: float
    peak_gib: float
    fit: str


def savings(variants: Variants, said: Prediction, precision: str = "") -> list[Saving]:
    """Return changes that free memory, largest first; in ``precision`` if named.

    None where the number of micro-batches is unknown, as the changes keep the tokens.
    """
    if said.memory is None or variants.job.find("grad_accum") is None:
        return []
    found: dict[str, Saving] = {}
    own = {name: variants.job[name] for name in ("micro_batch", "grad_accum", "ac")}
    other = {"precision": precision} if precision else {}
    for kind, words, changes in (*_changes(**own), *_others(variants.job)):
        after = variants.predict(own | changes | other)
        if after.memory and kind not in found:
            freed = said.memory.value - after.memory.value
            found[kind] = Saving(words, freed, after.memory.value, after.fit)
    large = [saving for saving in found.values() if saving.freed_gib > LEAST_GIB]
    return sorted(large, key=lambda saving: -saving.freed_gib)


def _others(job: Job) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield changes of settings that are not in the grid."""
    with suppress(Unknown):
        if job["expert_padding"] and job.can_set("packed_experts"):
            words = f"`{job.key('packed_experts')} = false`: FSDP pads packed experts"
            yield "unpacked", words, {"packed_experts": False}
    with suppress(Unknown):
        if job["z_loss"] > 0:
            words = f"`{job.key('z_loss')} = 0`: no fp32 copies of the logits"
            yield "z-loss", words, {"z_loss": 0.0}
    for key, (value, words) in (job.find("memory.lighter") or {}).items():
        yield key, f"`{key} = {shown(value)}`: {words}", {key: value}


LARGEST_BATCH = 4096
"""The largest micro-batch that is suggested: a config may hold any number."""


def _changes(
    micro_batch: int, grad_accum: int, ac: str
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield changes: kind, words, values; of each kind the first that runs counts."""
    rows = micro_batch * grad_accum
    if grad_accum > 1:
        yield (
            "once",
            f"one micro-batch of {rows} instead of {grad_accum} x {micro_batch}",
            {"micro_batch": rows, "grad_accum": 1},
        )
        yield (
            "less",
            f"no accumulation: {micro_batch} instead of {rows} sequences per rank and "
            "step",
            {"grad_accum": 1},
        )
    for size in range(min(micro_batch // 2, LARGEST_BATCH), 0, -1):
        if rows % size == 0:
            yield (
                "smaller",
                f"micro-batch {size} with {rows // size} accumulated",
                {"micro_batch": size, "grad_accum": rows // size},
            )
    if ac != "full":
        yield "full", "full activation checkpointing", {"ac": "full"}
