"""A config with other values, whose steps keep their tokens."""

from __future__ import annotations

from typing import Any

from fp8tune.job import Job, Unknown


def with_knobs(job: Job, knobs: dict[str, Any]) -> Job:
    """The job with other values and, by its accumulation, as many tokens per step."""
    changed = job.with_values(knobs)
    key = job.words.renamed.get("grad_accum")
    if key is None or key in knobs:
        return changed
    try:
        rows, batch = job["micro_batch"] * job["grad_accum"], changed["micro_batch"]
        return job.with_values({**knobs, key: max(1, round(rows / batch))})
    except (ArithmeticError, TypeError, Unknown):
        return changed


def rows(job: Job, knobs: dict[str, Any]) -> int:
    """Sequences per rank and optimizer step with other values; 0 where unknown."""
    changed = with_knobs(job, knobs)
    try:
        return int(changed["micro_batch"] * changed["grad_accum"])
    except (TypeError, Unknown):
        return 0
