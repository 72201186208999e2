"""Measured runs of configs: their stored form, and the jobs that they apply to.

Within one family (trainer, precision, kind of model and of parallelism, with or without
full AC) the error of an estimate is nearly the same. Only runs on the same GPU and
version of fp8tune count, and of these the ones whose other versions are those of the
newest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fp8tune import __version__
from fp8tune.facts.off import NOISE
from fp8tune.job import Job

MEMORY, SPEED, OUT = "memory", "speed", "out-of-memory"
"""What is measured; of a run that ran out of memory, how much there was."""

SMALL = 1024
"""Smaller hidden sizes are a family of their own: their errors are, too."""

DECIDING = ("memory.peak_gib", "memory.low_gib", "speed.tokens_per_second")
"""What two configs have in common that are the same for measured runs."""

PLAUSIBLE = 3.0
"""A value further off than this factor was not measured on the config that is meant."""


class Run(NamedTuple):
    """A measured run: memory in GiB, or speed in tokens/s over all GPUs.

    For a run that was out of memory ``measured`` is the GPU's memory, a lower bound.
    ``exact`` is as in `Measured`, ``config`` the digest of its config.
    """

    gpu: str
    quantity: str
    family: str
    predicted: float
    measured: float
    versions: dict[str, str]
    exact: float = 0.0
    config: str = ""


class BadCalibration(Exception):
    """A file is not a calibration; ``args[0]`` says where and why."""


def config_of(job: Job) -> str:
    """A digest of a job's values and GPUs, equal for equal configs.

    It covers the values that memory and speed depend on. With experts it covers all
    values, because data, router and schedule decide how tokens are routed.
    """
    from hashlib import sha256

    named = {key for fact in DECIDING for key in job.words.origins(fact)}
    keys = job.given if job["experts"] else named & job.given.keys()
    said = (sorted((key, job.given[key]) for key in keys), job["world_size"])
    return sha256(repr(said).encode()).hexdigest()[:16]


def family(job: Job, quantity: str) -> str:
    """The family of a job's runs; raises ``Unknown``."""
    small = ", small" if job["hidden_size"] < SMALL else ""
    kind = f"{job['estimate_family']}, {job['precision']}{small}"
    parallel = quantity == SPEED and (job.find("tp") or 1) > 1
    return f"{kind}, TP" if parallel else kind


def _speaks_for(quantity: str, family: str) -> str:
    """One name for all families whose runs apply to each other.

    Errors of memory are the same in FP8 and bf16 (published pairs differ by 2 % at
    most), unless the compiler may keep FP8 weights.
    """
    shared = quantity != SPEED and "kept compiled" not in family
    return family.replace(", fp8", ", bf16") if shared else family


def of_family(
    job: Job,
    quantities: tuple[str, ...],
    runs: Sequence[Run],
    kind: str = "",
    *,
    any_family: bool = False,
) -> list[Run]:
    """The runs of a family that apply to a job, if its GPU is known.

    Without ``kind`` it is the job's own family.
    """
    if not runs or "gpu" not in job:
        return []
    quantity = quantities[0]
    name = _speaks_for(quantity, kind or family(job, quantity))
    mine = [
        run
        for run in runs
        if run.gpu == job["gpu"]
        and (any_family or _speaks_for(quantity, run.family) == name)
        and run.quantity in quantities
        and run.versions.get("fp8tune") == __version__
    ]
    newest = mine[-1].versions if mine else {}
    return [
        run
        for run in mine
        if all(newest.get(key, said) == said for key, said in run.versions.items())
    ]


def of_job(
    job: Job,
    peak_gib: float = 0.0,
    tokens_per_second: float = 0.0,
    versions: dict[str, str] | None = None,
    *,
    ran_out: bool = False,
) -> list[Run]:
    """The runs to store for a measured job.

    0 means not measured; ``ran_out``: the GPU's memory was not enough; ``versions`` are
    those of torch and other software. Raises ``Unknown``, and ``BadCalibration`` for a
    value that cannot be this job's, or says nothing about other jobs.
    """
    if peak_gib or ran_out:
        _check_steps(job, peak_gib)
    names = {MEMORY: "memory.peak_gib", SPEED: "speed.tokens_per_second"}
    known = {"fp8tune": __version__, **(versions or {})}
    limit = job["gpu.memory_gib"] if ran_out else 0.0
    values = ((MEMORY, peak_gib), (SPEED, tokens_per_second), (OUT, limit))
    runs = [
        Run(
            job["gpu"],
            what,
            family(job, what),
            job[names.get(what, "memory.peak_gib")],
            measured,
            known,
            0.0 if what == SPEED else job["memory.exact_gib"],
            config_of(job),
        )
        for what, measured in values
        if measured
    ]
    for run in runs:
        if not is_plausible(run):
            raise BadCalibration(
                f"a {run.quantity} of {run.measured:,.1f} is too far from the "
                f"estimate, {run.predicted:,.1f}: memory is GiB allocated on one GPU, "
                "speed is tokens/s of all GPUs"
            )
    return runs


def _check_steps(job: Job, peak_gib: float) -> None:
    """Raise ``BadCalibration`` for a peak that may be that of building the model."""
    built = job["memory.init_gib"]
    if job["memory.peak_at"] == "init" or 0 < peak_gib <= built * (1 + NOISE):
        raise BadCalibration(
            f"memory peaks while the model is built, at {built:.1f} GiB, "
            "which is known exactly: a measured peak of this config corrects "
            "nothing"
        )


def is_plausible(run: Run) -> bool:
    """Whether the value is possible for its config."""
    ratio = run.measured / run.predicted
    routed = run.quantity == MEMORY and "mixture of experts" in run.family
    least = 0.0 if routed or run.quantity == OUT else 1 / PLAUSIBLE
    return least < ratio < PLAUSIBLE
