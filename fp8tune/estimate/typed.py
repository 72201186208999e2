"""Check figures that a user has measured, before they correct an estimate."""

from __future__ import annotations

from fp8tune.facts.gpus import find
from fp8tune.facts.memory.verdict import CALIBRATED
from fp8tune.facts.off import NOISE
from fp8tune.facts.runs import MEMORY, BadCalibration, Run, of_job
from fp8tune.job import Job

FARTHEST = 1.25
"""How far from the estimate a typed peak may lie, as a factor.

The published run farthest off has 1.18 times what is predicted, and that is reserved
memory (70B with TP 8); nvidia-smi shows 1.40 times what is allocated (73,300 MiB where
51.3 GiB are). Both in ``docs/accuracy.md``.
"""

OTHER = "another config, another number of GPUs, or not the peak of one GPU?"
COUNTED = "what counts is torch.cuda.max_memory_allocated of one GPU"
CACHED = (
    "; nvidia-smi shows the allocator's cache, the CUDA context and NCCL too: 71.6 GiB "
    "for a published run that had 51.3 allocated"
)


def typed(
    job: Job, peak_gib: float, tokens: float, versions: dict[str, str]
) -> list[Run]:
    """Return the runs to store; raises ``Unknown`` and ``BadCalibration``."""
    if (peak_gib or tokens) and (names := find(job["gpu"]).members):
        raise BadCalibration(
            f"{job['gpu']} is not one GPU: name the one that it was measured on, "
            f"{' or '.join(names)}"
        )
    runs = of_job(job, 0.0, tokens, versions)
    if peak_gib:
        _check(job, peak_gib)
        runs = of_job(job, peak_gib, 0.0, versions) + runs
    return runs


def _check(job: Job, gib: float) -> None:
    """Raise ``BadCalibration`` for a peak that no run of this config can have."""
    low, peak, high = (job[f"memory.{name}_gib"] for name in ("low", "peak", "high"))
    least = _exact_gib(job)
    said = f"--measured {gib:g}"
    built = (1 - NOISE) * job["memory.init_gib"]
    if least <= gib < built:
        raise BadCalibration(
            f"{said}: the whole model alone is {job['memory.init_gib']:.1f} GiB while "
            "it is built, before it is sharded, and no run can have allocated less: "
            f"was it {OTHER}"
        )
    if gib < least:
        raise BadCalibration(
            f"{said}: weights, optimizer state, gradients, logits and what else "
            f"is known by its number format alone are {least:.1f} GiB per GPU, "
            f"and no run can have allocated less: was it {OTHER}"
        )
    if not min(low, peak / FARTHEST) <= gib <= max(high, peak * FARTHEST):
        raise BadCalibration(
            f"{said} is too far from the estimate, {peak:.1f} GiB ({low:.1f} to "
            f"{high:.1f}), to be of this config: {_counted(gib > peak)}"
        )


def _exact_gib(job: Job) -> float:
    """Return the memory that follows from dtypes and shards alone [GiB]."""
    gradients = max(job["memory.gradients_gib"], job["memory.reduced_gradients_gib"])
    margin = 1 - max(CALIBRATED[""])
    held = max(job["memory.state_gib"] + gradients, job["memory.exact_gib"])
    return float(margin * held)


def _counted(more: bool) -> str:
    return COUNTED + CACHED * more


def doubt(runs: list[Run], job: Job) -> str:
    """Return a warning if a measured peak lies outside the error band, else ``""``."""
    for run in runs:
        low, high = job["memory.low_gib"], job["memory.high_gib"]
        if run.quantity == MEMORY and not low <= run.measured <= high:
            return (
                f"--measured {run.measured:g} is outside the range of published "
                f"runs, {low:.1f} to {high:.1f} GiB, and is used anyway: "
                f"{_counted(run.measured > high)}"
            )
    return ""
