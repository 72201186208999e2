"""Measured runs that correct the estimates of configs like them.

Within one family (trainer, precision, kind of model and of parallelism, with or without
full AC) the error of an estimate is nearly one factor, so one run corrects the others
(``docs/accuracy.md`` leaves each published run out in turn and says by how much). Only
runs on the same GPU and version of fp8tune count, and of these the ones whose other
versions are those of the newest.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import NamedTuple

from fp8tune import __version__
from fp8tune.facts.peak import CALIBRATED, fit
from fp8tune.job import Job, Unknown

MEMORY, SPEED, OUT = "memory", "speed", "out-of-memory"
"""What is measured; of a run that ran out of memory, how much there was."""

WIDTHS = {MEMORY: CALIBRATED, SPEED: {"": (0.14, 0.10)}}
"""Smallest half-width of the band after one run and after more, by family."""

ALIKE = 8.0
"""A run speaks for jobs whose memory is so many times more or less at most."""

SMALL = 1024
"""Smaller hidden sizes are a family of their own: their errors are, too."""

PLAUSIBLE = 3.0
"""A value further off than this factor was not measured on the config that is meant."""


class Measured(NamedTuple):
    """A value as predicted and as measured, of one family of configs."""

    family: str
    predicted: float
    measured: float


class Run(NamedTuple):
    """A measured run: memory in GiB, speed in tokens/s of all GPUs.

    One out of memory has ``measured`` what there was, and may have needed all of it.
    """

    gpu: str
    quantity: str
    family: str
    predicted: float
    measured: float
    versions: dict[str, str]


class Band(NamedTuple):
    """An estimate with its band, and how many runs corrected it by what factor.

    ``beside`` is how many runs of other families the band was widened for.
    """

    value: float
    low: float
    high: float
    runs: int = 0
    factor: float = 1.0
    beside: int = 0


class BadCalibration(Exception):
    """A file holds no calibration; ``args[0]`` says where and why."""


def factor(runs: Sequence[Measured]) -> float:
    """What the estimates of a family are multiplied by: the median error, or 1."""
    ratios = sorted(run.measured / run.predicted for run in runs)
    middle = len(ratios) // 2
    return (ratios[middle] + ratios[~middle]) / 2 if ratios else 1.0


def corrected(
    quantity: str,
    band: Band,
    runs: Sequence[Measured],
    least: float = 0.0,
    own: str = "",
) -> Band:
    """An estimate of a family, corrected by runs of that family.

    The band becomes what one run or more leave, if it was wider, and holds every run;
    ``least`` is the smallest factor that runs out of memory allow. Runs of another
    family than ``own`` leave no less than where none is published.
    """
    by = factor(runs)
    ratios = [run.measured / run.predicted for run in runs] or [by]
    widths = WIDTHS[quantity]
    families = {run.family for run in runs} | ({own} if own else set())
    kinds = (*families, "") if len(families) > 1 else families
    each = (widths.get(kind, widths[""])[len(runs) > 1] for kind in kinds)
    left = max(each) if runs else math.inf
    below = max(min(left, 1 - band.low / band.value), 1 - min(ratios) / by)
    above = max(min(left, band.high / band.value - 1), max(*ratios, least) / by - 1)
    value = band.value * by
    return Band(value, value * (1 - below), value * (1 + above), len(runs), by)


def family(job: Job, quantity: str) -> str:
    """The family of a job's runs; raises ``Unknown``."""
    small = ", small" if job["hidden_size"] < SMALL else ""
    kind = f"{job['estimate_family']}, {job['precision']}{small}"
    return f"{kind}, TP" if quantity == SPEED and job["tp"] > 1 else kind


def _speaks_for(quantity: str, family: str) -> str:
    """The families that speak for each other, by one of their names.

    Memory in FP8 is off as in bf16: published pairs differ by 2 % at most. Not where
    the compiler may keep FP8 weights.
    """
    shared = quantity != SPEED and "kept compiled" not in family
    return family.replace(", fp8", ", bf16") if shared else family


def memory(job: Job, runs: Sequence[Run]) -> Band:
    """The peak of a job [GiB]; raises ``Unknown``. What building needs is exact.

    Where only runs of other families are known on the GPU, the band holds the factor of
    those of like size too. The estimate stays: published errors of one family say
    nothing of another's.
    """
    values = (job[f"memory.{name}_gib"] for name in ("peak", "low", "high"))
    band = Band(*values)
    if job["memory.peak_at"] == "init":
        return band
    alike = [run for run in runs if 1 / ALIKE < run.predicted / band.value < ALIKE]
    mine = _of(job, (MEMORY, OUT), alike)
    out = [run.measured / run.predicted for run in mine if run.quantity == OUT]
    whole = [run for run in mine if run.quantity == MEMORY]
    least, own = max(out, default=0.0), family(job, MEMORY)
    found = corrected(MEMORY, band, list(map(_measured, whole)), least, own)
    if whole:
        return found
    others = _of(job, (MEMORY,), alike, any_family=True)
    others = [run for run in others if _is_small(run.family) == _is_small(own)]
    by = factor(list(map(_measured, others)))
    low, high = found.low * min(1, by), found.high * max(1, by)
    return found._replace(low=low, high=high, beside=len(others))


def _is_small(family: str) -> bool:
    return ", small" in family


def memory_fit(job: Job, band: Band) -> str:
    """The verdict of ``memory.fit`` on a corrected band; raises ``Unknown``."""
    limit, usable = job["gpu.memory_limit_gib"], None
    with contextlib.suppress(Unknown):
        usable = job["memory.usable_gib"]
    return fit(job["pp"], limit, band.low, band.high, usable)


def speed(job: Job, runs: Sequence[Run]) -> Band:
    """Tokens/s of a job over all GPUs; raises ``Unknown``.

    Where only runs of other families are known on the GPU, their factor counts all the
    same, or a slow cluster would make one setting look slow beside others; the band
    stays as wide as it was.
    """
    names = ("tokens_per_second", "tokens_low", "tokens_high")
    band = Band(*(job[f"speed.{name}"] for name in names))
    own = list(map(_measured, _of(job, (SPEED,), runs)))
    if own:
        return corrected(SPEED, band, own)
    by = factor(list(map(_measured, _of(job, (SPEED,), runs, any_family=True))))
    return Band(band.value * by, band.low * by, band.high * by)


def _measured(run: Run) -> Measured:
    return Measured(run.family, run.predicted, run.measured)


def _of(
    job: Job,
    quantities: tuple[str, ...],
    runs: Sequence[Run],
    *,
    any_family: bool = False,
) -> list[Run]:
    """The runs that speak for a job, if its GPU is known."""
    if not runs or "gpu" not in job:
        return []
    quantity = quantities[0]
    name = _speaks_for(quantity, family(job, quantity))
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
    """What was measured of a job, to be stored.

    0 is what was not measured, ``ran_out`` that the GPU's memory was not enough;
    ``versions`` are those of torch and the like. Raises ``Unknown``, and
    ``BadCalibration`` for a value that cannot be this job's.
    """
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


def is_plausible(run: Run) -> bool:
    """Whether the value can be of the config that is meant."""
    ratio = run.measured / run.predicted
    return (run.quantity == OUT or ratio > 1 / PLAUSIBLE) and ratio < PLAUSIBLE
