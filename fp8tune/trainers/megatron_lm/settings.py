"""How the fields of a Megatron-LM job are set that follow from several flags.

Each function has the name of a field and returns the flags to write, with their values.
"""

from __future__ import annotations

from typing import Any

from fp8tune.job import Job


def warmup_steps(job: Job, value: int) -> dict[str, Any]:
    """The warmup, in sequences where the length of the run is."""
    if job.find("train_samples"):
        return {"lr_warmup_samples": value * job["global_batch"]}
    return {"lr_warmup_iters": value}
