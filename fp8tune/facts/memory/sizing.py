"""Find values that would fit."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

from fp8tune.facts.memory.verdict import FITS, MAY_NOT_FIT, TOO_MUCH
from fp8tune.job import Job, Prose, Unknown

FACTORS = (2, 4, 8, 16, 32, 64)
"""How many times as many GPUs are tried."""

MOST = 2**20
"""No larger micro-batch is looked for."""


def lighter() -> dict[str, tuple[bool, str]]:
    """Keys that free memory at the same speed: their values, and what they do."""
    return {}


def largest_micro_batch(
    job: Job,
    micro_batch: int,
    memory_high_gib: float,
    memory_usable_gib: float,
    fp8_batch_step: int = 1,
) -> int:
    """Largest micro-batch that fits, 0 if none does.

    By bisection, because memory never falls when the batch grows.
    """
    step, usable = fp8_batch_step, memory_usable_gib
    least, most = 0, 1
    if memory_high_gib <= usable:
        least, most = micro_batch // step, 2 * micro_batch // step + 1
    while most < MOST and _high(job, most * step) <= usable:
        least, most = most, 2 * most
    while most - least > 1:
        middle = (least + most) // 2
        if _high(job, middle * step) <= usable:
            least = middle
        else:
            most = middle
    return least * step


def _high(job: Job, batch: int) -> float:
    high: float = job.with_values({"micro_batch": batch})["memory.high_gib"]
    return high


def advice(
    job: Job,
    micro_batch: int,
    ac: str,
    ac_usable: tuple[str, ...],
    pp: int,
    memory_fit: str,
    expert_padding: int,
    memory_lighter: dict[str, tuple[bool, str]],
    memory_largest_micro_batch: int | None = None,
    grad_accum: int | None = None,
) -> str:
    """What to set if the run may not fit, in words.

    First values that keep the tokens of a step: other micro-batches with their
    accumulation, ``memory.lighter`` or unpacked experts, full AC, or both. Else, or in
    addition to full AC, a smaller micro-batch or less accumulation (whose gradients may
    be unsharded), with the number of sequences that are lost. If nothing better exists,
    values with which it may not fit. Else the number of GPUs on which the smallest
    setting would fit.

    For a family of GPUs the advice is for the largest. It gives no values if nothing is
    known to fit: because the usable memory is unknown, for a pipeline's last stage, or
    because the micro-batch follows from several keys, or its number is unknown.
    """
    from fp8tune.facts.gpus import largest

    member = largest(job["gpu"])
    if member:
        on_member = job.on_gpu(member)
        return Prose(f"on {member}, the largest, {on_member['memory.advice']}")
    can_set = job.can_set("micro_batch")
    known = grad_accum is not None and memory_largest_micro_batch is not None
    if not known or pp > 1 or not can_set:
        return Prose(_what_matters(job, micro_batch, ac, ac_usable))
    full = _full(job, ac, ac_usable)
    once = {"grad_accum": 1} if grad_accum != 1 and job.can_set("grad_accum") else {}
    packed = expert_padding and job.can_set("packed_experts")
    single = {key: value for key, (value, _) in memory_lighter.items()}
    single |= {"packed_experts": False} if packed else {}
    if kept := _keeping(job, {}, FITS):
        other = job.with_values(full)
        surely = full and _fit(other) == FITS
        words = f", or {_said(job, full)}: {_most(other)}" if surely else ""
        return Prose(f"set {_said(job, kept)}{words}")
    if memory_largest_micro_batch:
        fewer = {"micro_batch": memory_largest_micro_batch}
        return Prose(_smaller(job, fewer, (single, full, single | full)))
    if not full and (mode := _by_other_keys(job, ac, ac_usable)):
        return Prose(mode)
    for wanted in (FITS, MAY_NOT_FIT)[: 1 + (memory_fit in TOO_MUCH)]:
        hardly = ", which may not fit" if wanted == MAY_NOT_FIT else ""
        for found in _enough(job, single, full, once, wanted):
            most = _most(job.with_values(found))
            said = f"{_said(job, found)}{_fewer(job, found)}"
            return Prose(f"set {said}: {most}{hardly}")
    least = {"micro_batch": job["fp8.batch_step"]}
    return Prose(_on_more_gpus(job, single | full | once | least))


def _full(job: Job, ac: str, modes: tuple[str, ...]) -> dict[str, Any]:
    """Full AC, if it is another mode and a key sets it."""
    can = "full" in modes and ac != "full" and job.can_set("ac")
    return {"ac": "full"} if can else {}


def _by_other_keys(job: Job, ac: str, modes: tuple[str, ...]) -> str:
    """Advice for full AC where several keys set it, if the run may fit with it."""
    if "full" not in modes or ac == "full":
        return ""
    other = job.with_values({"ac": "full"})
    fit = _fit(other)
    if fit not in (FITS, MAY_NOT_FIT):
        return ""
    hardly = ", which may not fit" if fit == MAY_NOT_FIT else ""
    return f"use full activation checkpointing: {_most(other)}{hardly}"


def _smaller(job: Job, fewer: dict[str, Any], ways: tuple[dict[str, Any], ...]) -> str:
    """Advice for a smaller micro-batch, after advice that keeps the tokens."""
    words = f"{_said(job, fewer)}{_fewer(job, fewer)}"
    for way in ways:
        if way and (kept := _keeping(job, way, FITS)):
            most = _most(job.with_values(kept))
            return f"set {_said(job, kept)}: {most}, or {words}"
    return f"set {words}"


def _enough(
    job: Job,
    single: dict[str, Any],
    full: dict[str, Any],
    once: dict[str, Any],
    wanted: str,
) -> Iterator[dict[str, Any]]:
    """Yield changes that reach the wanted verdict, first those that keep the tokens."""
    for changes in (single, full, single | full):
        if changes and (found := _keeping(job, changes, wanted)):
            yield found
    if wanted == MAY_NOT_FIT and (found := _keeping(job, {}, wanted)):
        yield found
    for changes in ({}, single, full, once, full | once, single | full | once):
        tried = changes or wanted == MAY_NOT_FIT
        if tried and (found := _with_batch(job, changes, wanted)):
            yield found


def _keeping(job: Job, changes: dict[str, Any], wanted: str) -> dict[str, Any]:
    """The changes plus a micro-batch and accumulation that keep the sequences.

    It has the largest micro-batch with the wanted verdict; empty if there is none.
    What follows from the micro-batch, as accumulation may, is not among them.
    """
    rows = job["micro_batch"] * job["grad_accum"]
    most = 0
    with contextlib.suppress(Unknown):
        accumulated = job.with_values(changes | {"grad_accum": 2})
        most = accumulated["memory.largest_micro_batch"]
    sizes = _divisors(rows)
    surely = [size for size in sizes if size <= most][:2]
    hardly = [size for size in sizes if size > most][-2:]
    for size in (job["micro_batch"], rows, *(surely if wanted == FITS else hardly)):
        new = {} if size == job["micro_batch"] else {"micro_batch": size}
        if job.with_values(new).find("grad_accum") != rows // size:
            if not job.can_set("grad_accum"):
                continue
            new["grad_accum"] = rows // size
        if (changes or new) and _fit(job.with_values(changes | new)) == wanted:
            return changes | new
    return {}


def _divisors(rows: int) -> list[int]:
    """The smaller divisors, the largest first; none of an unknown number."""
    if rows > MOST:
        return []
    small = [n for n in range(1, math.isqrt(rows) + 1) if rows % n == 0]
    return sorted({*small, *(rows // n for n in small)} - {rows}, reverse=True)


def _fewer(job: Job, changes: dict[str, Any]) -> str:
    """How many sequences a step loses by changes, in words."""
    before, after = (
        one["micro_batch"] * one["grad_accum"]
        for one in (job, job.with_values(changes))
    )
    if after == before:
        return ""
    return f" ({after} instead of {before} sequences per rank and step)"


def _what_matters(job: Job, micro_batch: int, ac: str, modes: tuple[str, ...]) -> str:
    """What could be made smaller if nothing is sure to fit, in words."""
    one = {"micro_batch": 1} if micro_batch > 1 else {}
    full = _full(job, ac, modes)
    smaller, mode = f"a smaller `{job.key('micro_batch')}`", _said(job, full)

    def helps(changes: dict[str, Any]) -> bool:
        return bool(changes) and _fit(job.with_values(changes)) not in TOO_MUCH

    options = [smaller] if helps(one) else []
    options += [mode] if helps(full) else []
    if not options and one and full and helps(one | full):
        options = [f"{smaller} with {mode}"]
    some = ", ".join(options)
    return f"use {some}{', or ' if some else ''}more GPUs"


def _with_batch(job: Job, changes: dict[str, Any], wanted: str) -> dict[str, Any]:
    """The changes with the largest micro-batch that fits as wanted."""
    own = job["micro_batch"]
    sizes = [own]
    with contextlib.suppress(Unknown):
        largest = job.with_values(changes)["memory.largest_micro_batch"]
        sizes += [largest] if largest else []
    while sizes[-1] > 1:
        sizes.append(sizes[-1] // 2)
    for size in sizes:
        found = changes | ({} if size == own else {"micro_batch": size})
        if _fit(job.with_values(found)) == wanted:
            return found
    return {}


def _on_more_gpus(job: Job, least: dict[str, Any]) -> str:
    """The number of GPUs on which the smallest setting would fit, in words."""
    does = "does" if _fit(job.with_values(least)) in TOO_MUCH else "may"
    words = f"it {does} not fit even with {_said(job, least)}"
    shards, gpus, fit = job["dp_shard"], job["world_size"], "unknown"
    for factor in FACTORS:
        shared = least | {"dp_shard": shards * factor}
        fit = _fit(job.with_values(shared, gpus * factor))
        if fit == FITS:
            return f"{words}; with these values it needs {gpus * factor} GPUs"
    if fit == "unknown":
        return words
    if job["memory.init_gib"] > job["memory.usable_gib"]:
        return f"{words}: each GPU builds the whole model before it is sharded"
    return f"{words}, nor on {gpus * FACTORS[-1]} GPUs"


def _fit(job: Job) -> str:
    """Whether a job fits; unknown if FP8 GEMMs do not accept its tokens."""
    try:
        odd = job["micro_batch"] % job["fp8.batch_step"]
        return "unknown" if odd else str(job["memory.fit"])
    except Unknown:
        return "unknown"


def _most(job: Job) -> str:
    return f"at most {job['memory.high_gib']:.0f} GiB"


def _said(job: Job, changes: dict[str, Any]) -> str:
    keys = job.keys_for(changes).items()
    pairs = [f"`{key} = {_literal(value)}`" for key, value in keys]
    return " and ".join(filter(None, (", ".join(pairs[:-1]), *pairs[-1:])))


def _literal(value: Any) -> str:
    """A value as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def one_batch_gib(job: Job, micro_batch: int, grad_accum: int) -> float:
    """The peak with one micro-batch per step, without accumulation [GiB]."""
    changes = {"micro_batch": micro_batch * grad_accum, "grad_accum": 1}
    peak: float = job.with_values(changes)["memory.peak_gib"]
    return peak


def unpacked_gib(job: Job, packed_experts: bool) -> float:
    """The peak with unpacked experts, which FSDP need not pad [GiB]."""
    changes = {"packed_experts": False} if packed_experts else {}
    peak: float = job.with_values(changes)["memory.peak_gib"]
    return peak
