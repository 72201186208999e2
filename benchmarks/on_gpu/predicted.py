"""What was measured beside what is predicted, setting by setting."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from benchmarks.on_gpu.records import Measured
from fp8tune.estimate.predict import predict
from fp8tune.facts.calibration import Band
from fp8tune.job import Job, Unknown
from fp8tune.trials.record import Record

PUBLISHED = 10471.0
"""Tokens/s of KempnerForge in bf16 on one H200, 7B with full AC.

Source: KempnerForge mfu_scaling.md at commit 5666d0d, 7B on 1 GPU.
"""
PUBLISHED_SETTING: Mapping[str, object] = {
    "gpu": "h200",
    "world_size": 1,
    "layers": 32,
    "hidden_size": 4096,
    "seq_len": 4096,
    "micro_batch": 2,
    "grad_accum": 4,
    "ac": "full",
    "precision": "bf16",
}
"""The fields of the job that ``PUBLISHED`` is of."""


class Compared(NamedTuple):
    """One setting: its runs, and the predictions of memory [GiB] and of tokens/s.

    ``setting`` are the values of the knobs by role. ``records`` are its runs that
    measured speed. Unknown predictions are ``None``.
    """

    config: str
    setting: dict[str, object]
    records: list[Record]
    memory: Band | None
    speed: Band | None
    published: float | None

    @property
    def tokens_per_second(self) -> float:
        """The median of the runs."""
        return statistics.median(r.tokens_per_second for r in self.records)

    @property
    def peak_gib(self) -> float:
        """The largest peak of the runs [GiB]."""
        return max(r.peak_gib for r in self.records)

    @property
    def between_runs(self) -> float | None:
        """The standard deviation of log tokens/s over the runs; ``None`` of one run."""
        speeds = [math.log(r.tokens_per_second) for r in self.records]
        return statistics.stdev(speeds) if len(speeds) > 1 else None


def compare(measured: Iterable[Measured]) -> list[Compared]:
    """Return every setting that ran, beside its predictions, in the order of the runs.

    Runs for their losses, and trials that failed, are left out.
    """
    jobs: dict[str, Job] = {}
    runs: dict[str, list[Record]] = defaultdict(list)
    names: dict[str, str] = {}
    for one in measured:
        config, record = one
        if not record.ok or record.loss_run:
            continue
        job = one.job
        key = f"{config.path} {job.target} {sorted(job.given.items(), key=str)}"
        jobs[key], names[key] = job, config.path
        runs[key].append(record)
    return [_compared(names[key], jobs[key], runs[key]) for key in jobs]


ROLES = ("precision", "micro_batch", "grad_accum", "ac", "compile", "world_size")


def _compared(name: str, job: Job, records: list[Record]) -> Compared:
    setting = {role: _value(job, role) for role in ROLES}
    if records[0].rehearsal:  # predictions are of GPUs
        return Compared(name, setting, records, None, None, None)
    said = predict(job)
    same = all(_value(job, role) == v for role, v in PUBLISHED_SETTING.items())
    published = PUBLISHED if same else None
    return Compared(name, setting, records, said.memory, said.speed, published)


def _value(job: Job, name: str) -> object:
    if name in ("gpu", "world_size"):
        return getattr(job.target, name)
    try:
        return job[name]
    except Unknown:
        return None


class GainOfFp8(NamedTuple):
    """FP8's tokens/s over those of bf16, all else equal, measured and predicted."""

    config: str
    setting: dict[str, object]
    measured: float
    predicted: float | None


def gains(rows: Iterable[Compared]) -> Iterator[GainOfFp8]:
    """Yield FP8's gain of each pair of settings that differ in precision alone."""
    by_rest: dict[str, dict[object, Compared]] = defaultdict(dict)
    for row in rows:
        rest = {k: v for k, v in row.setting.items() if k != "precision"}
        by_rest[f"{row.config} {rest}"][row.setting["precision"]] = row
    for pair in by_rest.values():
        if {"fp8", "bf16"} <= set(pair):
            fp8, bf16 = pair["fp8"], pair["bf16"]
            yield GainOfFp8(
                fp8.config,
                {k: v for k, v in fp8.setting.items() if k != "precision"},
                fp8.tokens_per_second / bf16.tokens_per_second,
                _ratio(fp8.speed, bf16.speed),
            )


def _ratio(above: Band | None, below: Band | None) -> float | None:
    return above.value / below.value if above and below else None
