"""Correct estimates of a job by measured runs of similar configs.

``docs/accuracy.md`` leaves out each published run in turn and shows the remaining
error.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from fp8tune.facts.memory.verdict import CALIBRATED, verdict
from fp8tune.facts.off import Factors, Measured, limited, median, parts
from fp8tune.facts.runs import MEMORY, OUT, SPEED, Run, config_of, family, of_family
from fp8tune.job import Job, Unknown

WIDTHS = {MEMORY: CALIBRATED, SPEED: {"": (0.14, 0.10)}}
"""Smallest half-width of the band after one run and after more, by family."""

FAR = 0.02
"""A correction larger than any published run of KempnerForge but VLMs asks for."""

ALIKE = 8.0
"""A run speaks for jobs whose memory is so many times more or less at most."""


class Band(NamedTuple):
    """An estimate with its error band, the number of correcting runs, and their factor.

    ``beside`` is the number of runs of other families that moved or widened it.
    """

    value: float
    low: float
    high: float
    runs: int = 0
    factor: float = 1.0
    beside: int = 0


def off(quantity: str, runs: Sequence[Measured]) -> Factors:
    """The errors of a family's estimates, from its measured runs."""
    return median(runs) if quantity == SPEED else parts(runs)


def corrected(
    quantity: str,
    band: Band,
    runs: Sequence[Measured],
    exact: float = 0.0,
    out: Sequence[Measured] = (),
    own: str = "",
) -> Band:
    """Correct an estimate by runs of its family.

    ``exact`` is the part that is exact arithmetic. No correction exceeds the errors of
    the runs themselves; if their small inexact part would need more, the band stays.
    Otherwise the band shrinks to what remains after one run or more. It still contains
    every run, those ``out`` of memory too, and the result of one factor for all parts.
    Runs of another family than ``own``, and corrections larger than those of published
    runs, keep at least the band for families without published runs.
    """
    by = off(quantity, runs)
    factor, more = limited(by, runs, band.value, exact)
    value = band.value * factor
    each, least = (
        [run.measured / by.of(run.predicted, run.exact) for run in some]
        for some in (runs or [Measured("", 1.0, 1.0)], out)
    )
    widths = WIDTHS[quantity]
    families = {run.family for run in runs} | ({own} if own else set())
    far = abs(value / band.value - 1) > FAR
    kinds = (*families, "") if far or len(families) > 1 else families
    left = max(widths.get(kind, widths[""])[len(runs) > 1] for kind in kinds or ("",))
    left = left if runs else math.inf
    below = max(min(left, 1 - band.low / band.value), 1 - min(each))
    above = max(min(left, band.high / band.value - 1), max([*each, *least]) - 1)
    low, high = value * (1 - below), value * (1 + above)
    if runs:
        alike = median(runs).rest * band.value
        low, high = min(low, alike * (1 - below)), max(high, alike * (1 + above))
    if more:
        low, high = min(low, band.low), max(high, band.high)
    return Band(value, low, high, len(runs), factor)


def memory(job: Job, runs: Sequence[Run]) -> Band:
    """The peak of a job [GiB]; raises ``Unknown``. Memory for building is exact.

    If only runs of other families are known on the GPU, the band also contains the
    factor of those of similar size. The estimate stays, because published errors of one
    family say nothing about another's.
    """
    values = (job[f"memory.{name}_gib"] for name in ("peak", "low", "high"))
    band = Band(*values)
    if job["memory.peak_at"] == "init":
        return band
    exact = job["memory.exact_gib"]
    alike = [run for run in runs if 1 / ALIKE < run.predicted / band.value < ALIKE]
    mine = of_family(job, (MEMORY, OUT), alike)
    whole, out = (
        [_measured(run) for run in mine if run.quantity == what]
        for what in (MEMORY, OUT)
    )
    own = family(job, MEMORY)
    found = corrected(MEMORY, band, whole, exact, out, own)
    built = job["memory.init_gib"]
    found = found._replace(**{n: max(built, getattr(found, n)) for n in ENDS})
    if whole:
        same = any(r.quantity == MEMORY and r.config == config_of(job) for r in mine)
        return found if same else _routed(job, found, band)
    others = of_family(job, (MEMORY,), alike, any_family=True)
    beside = [
        _measured(run) for run in others if _is_small(run.family) == _is_small(own)
    ]
    by, _ = limited(off(MEMORY, beside), beside, band.value, exact)
    low, high = found.low * min(1, by), found.high * max(1, by)
    return found._replace(low=low, high=high, beside=len(beside))


def _routed(job: Job, found: Band, before: Band) -> Band:
    """Widen a band because another config may route its experts differently.

    It keeps the band before correction, and the range between the most and the least
    memory that routing needs.
    """
    if not job["moe_layers"]:
        return found
    ends = min(found.low, before.low), max(found.high, before.high)
    value = min(max(found.value, before.low), before.high)
    by = value / before.value
    return found._replace(value=value, low=ends[0], high=ends[1], factor=by)


def _is_small(family: str) -> bool:
    return ", small" in family


def memory_fit(job: Job, band: Band) -> str:
    """The verdict of ``memory.fit`` on a corrected band; raises ``Unknown``."""
    limit, gib = job["gpu.memory_limit_gib"], None
    with contextlib.suppress(Unknown):
        gib = job["gpu.memory_gib"]
    first = job["memory.first_stage_only"]
    return verdict(first, limit, gib, (band.low, band.value, band.high))


def speed(job: Job, runs: Sequence[Run]) -> Band:
    """The tokens/s of a job over all GPUs; raises ``Unknown``.

    Only its own runs count if it has any, else those of its family. If the GPU has only
    runs of other families, their factor is used and the band stays as wide as it was;
    otherwise one setting would look slow only because the cluster is slow. Runs in the
    same precision come first.
    """
    names = ("tokens_per_second", "tokens_low", "tokens_high")
    band = Band(*(job[f"speed.{name}"] for name in names))
    family_runs = of_family(job, (SPEED,), runs)
    own = [run for run in family_runs if run.config == config_of(job)] or family_runs
    if own:
        return corrected(SPEED, band, list(map(_measured, own)))
    every = of_family(job, (SPEED,), runs, any_family=True)
    alike = [run for run in every if f", {job['precision']}" in run.family]
    others = list(map(_measured, alike or every))
    by = median(others).rest
    ends = (band.value * by, band.low * by, band.high * by)
    return Band(*ends, factor=by, beside=len(others))


ENDS = ("value", "low", "high")


class Gain(NamedTuple):
    """FP8's gain from measured runs: the facts that change, and the factor."""

    facts: dict[str, Any]
    runs: int
    factor: float


def gain(job: Job, runs: Sequence[Run]) -> Gain | None:
    """FP8's gain if similar configs ran in both precisions.

    The predicted gain is multiplied by the ratio of their errors in speed. It rises
    only if gains of whole models of this size are published, or if this config itself
    ran in both. In the latter case its band moves with it, and no other run counts.
    Otherwise other shapes may gain as before: that end of the band stays, and no model
    gains more than its linears may. ``None`` if a precision has no run, or runs with
    other versions. Raises ``Unknown``.
    """
    name, own = family(job, SPEED), f", {job['precision']}"
    fp8, bf16 = (
        of_family(job, (SPEED,), runs, name.replace(own, f", {one}"))
        for one in ("fp8", "bf16")
    )
    if not fp8 or not bf16 or _differ(fp8[-1].versions, bf16[-1].versions):
        return None
    low, value, high = (job[f"speed.fp8_gain{end}"] for end in ("_low", "", "_high"))
    own_fp8, own_bf16 = _of_itself(job, fp8), _of_itself(job, bf16)
    itself = bool(own_fp8 and own_bf16)
    if itself:
        fp8, bf16 = own_fp8, own_bf16
    one, other = (median(list(map(_measured, some))).rest for some in (fp8, bf16))
    by = one / other if itself or job["fp8.published"] else min(1.0, one / other)
    found = value * by
    if not itself:
        found = min(found, max(value, job["fp8.linear_gain_high"]))
    ends = [found - (value - low), found + (high - value)]
    if not itself:
        ends = [min(low, ends[0]), max(high, ends[1])]
    facts = {
        "speed.fp8_gain": found,
        "speed.fp8_gain_low": ends[0],
        "speed.fp8_gain_high": ends[1],
    }
    if itself and by < 1:
        facts["fp8.linear_gain_low"] = 0.0
    elif itself:  # counts like a published run: its linears gain no less
        most = max(found, job["fp8.linear_gain_high"])
        facts |= {"fp8.published": True, "fp8.linear_gain_high": most}
    return Gain(facts, len(fp8) + len(bf16), by)


def _of_itself(job: Job, runs: Sequence[Run]) -> list[Run]:
    """The runs of this job, in any precision."""
    precisions = ("fp8", "bf16")
    mine = {config_of(job.with_values({"precision": one})) for one in precisions}
    return [run for run in runs if run.config in mine]


def _differ(versions: dict[str, str], others: dict[str, str]) -> bool:
    """Whether two sets of versions differ in a version that both have."""
    return any(versions[name] != others[name] for name in versions.keys() & others)


def _measured(run: Run) -> Measured:
    return Measured(run.family, run.predicted, run.measured, run.exact)
