"""What was measured beside what the facts predict, and beside published figures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fp8tune.job import Job, Unknown
from fp8tune.search.plan import Plan
from fp8tune.trials.record import Record

PUBLISHED = 10471.0
"""Tokens/s of KempnerForge in bf16 on one H200, batch 2, accumulation 4, full AC.

Source: KempnerForge mfu_scaling.md at commit 5666d0d, 7B on 1 GPU.
"""


class Compared(NamedTuple):
    """One setting: memory [GiB] and tokens/s, measured and predicted; 0 if unknown."""

    knobs: dict[str, object]
    peak_gib: float
    predicted_gib: float
    tokens_per_second: float
    predicted_tokens_per_second: float


def compare(plan: Plan, records: Iterable[Record]) -> list[Compared]:
    """Every setting that ran; a trial that ended early tells of its memory alone.

    Runs for their losses are left out.
    """
    found = []
    for record in records:
        if record.ok and not record.loss_run:
            names = plan.config.job.words
            fields = {
                key: value for key, value in record.knobs.items() if key in names.keys
            }
            job = plan.config.job.keep_tokens(fields)
            found.append(
                Compared(
                    record.knobs,
                    record.peak_gib,
                    _number(job, "memory.peak_gib"),
                    record.tokens_per_second * record.ok,
                    _number(job, "speed.tokens_per_second"),
                )
            )
    return found


def _number(job: Job, name: str) -> float:
    try:
        return float(job[name])
    except Unknown:
        return 0.0


def worst(pairs: Iterable[tuple[float, float]]) -> float | None:
    """The largest relative error of those predicted; ``None`` if none was."""
    errors = [abs(b / a - 1) for a, b in pairs if a and b]
    return max(errors, default=None)
