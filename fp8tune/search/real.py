"""A search by real trials: what may change in a config, and where its trials run."""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fp8tune import __version__
from fp8tune.facts.gpus import UnknownGpu, find, is_another, resolve
from fp8tune.facts.memory import GIB
from fp8tune.job import Job, Unknown
from fp8tune.lint.run import cores
from fp8tune.runners import cpu
from fp8tune.runners.driver import current
from fp8tune.runners.gpu import allocator
from fp8tune.search.duration import shown
from fp8tune.search.plan import CannotPlan, Config, Plan, check_allowed, warmup_names
from fp8tune.trials.space import Knob, Space

MAX_BATCH = 256
STEPS, FASTER = 2, 10
"""The steps of a rehearsal's shortest trial, and how many times faster than fp32 a CPU
may multiply bf16: generous, so that no model is refused that would run."""
FIXED: dict[str, set[str]] = {"cuda": set(), "cpu": {"compile"}}
"""What a search leaves as it is, by where its trials run."""


def plan_for_trials(config: Config, allow: tuple[str, ...], device: str) -> Plan:
    """A search over micro-batch, AC, compile, and precision with its bf16 baseline.

    Micro-batches divide the sequences of a step, so that gradient accumulation keeps
    it as it is. A rehearsal on a CPU leaves compile as it is: there it takes a minute
    of a core and tells nothing.
    """
    try:
        rows = config.job["micro_batch"] * config.job["grad_accum"]
        precision = config.job["precision"]
    except Unknown as missing:
        raise CannotPlan(f"{config.path}: {missing} is not known") from None
    batches = [n for n in range(1, min(rows, MAX_BATCH) + 1) if rows % n == 0]
    frozen = {"precision"} | FIXED[device]
    values = {
        "micro_batch": tuple(dict.fromkeys([*batches, config.job["micro_batch"]])),
        "ac": _allowed(config, "ac"),
        "compile": (False, True),
        "precision": tuple(dict.fromkeys([precision, "bf16"])),
    }
    keys = config.trainer.schema.job
    if {"precision", keys["precision"]} & set(allow) and _has_fp8(config, device):
        values["precision"] = tuple(dict.fromkeys([*values["precision"], "fp8"]))
    known = [*values, *(keys[role] for role in values), *warmup_names(config.trainer)]
    check_allowed(known, allow, [*sorted(frozen), "warmup"])
    knobs = [
        Knob(
            keys[role],
            tuple(some),
            role,
            role in frozen and not {role, keys[role]} & set(allow),
        )
        for role, some in values.items()
    ]
    given = tuple(knob.place(config.job[knob.key]) for knob in knobs)
    return Plan(config, Space(knobs), given)


def free_keys(config: Config, allow: tuple[str, ...], device: str) -> set[str]:
    """The keys that such a search may change, accumulation among them."""
    keys = config.trainer.schema.job
    roles = {"micro_batch", "grad_accum", "ac", *({"compile"} - FIXED[device]), *allow}
    return {keys.get(role, role) for role in roles}


def synthetic_data(config: Config) -> str:
    """Why trials train on synthetic data; ``""`` where the config's data is read.

    Speeds do not depend on it; losses do.
    """
    job, name = config.job, config.trainer.schema.title
    if missing := job["data_missing"]:
        return f"{missing}, where {name} stops"
    return "" if job["data_files"] else "`[data]` names no shards"


def circumstances(
    job: Job, device: str, *, synthetic_data: bool = False
) -> dict[str, Any]:
    """What trials depend on beside the config: machine, software and data.

    Figures of one GPU, driver, torch, allocator setting or data set do not answer for
    another's.
    """
    machine = {"machine": f"{cpu.name()}, {cores()} cores"}
    if device == "cuda":
        gpu = current().gpu
        machine = {"machine": gpu.name, "driver": gpu.driver, "allocator": allocator()}
    return {
        "device": device,
        **machine,
        "fp8tune": __version__,
        **{name: _version(name) for name in ("torch", "torchao")},
        "data": "" if synthetic_data else _data(job),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _data(job: Job) -> str:
    """A digest of the data files' names, sizes and times; ``""`` without any."""
    try:
        names = job["data_files"]
    except Unknown:
        return ""
    digest = hashlib.sha256()
    for name in names:
        status = os.stat(name)
        digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest() if names else ""


def ranks(config: Config) -> int:
    """Ranks that a trial stands for; raises ``CannotPlan`` where none can."""
    try:
        refusal = config.job["trial_refusal"]
        many: int = config.job["shards"] if not refusal else 0
    except Unknown as missing:
        asked = str(missing) in ("world_size", "dp_shard")
        hint = "; give the number of GPUs as --world-size N" * asked
        raise CannotPlan(f"{config.path}: {missing} is not known{hint}") from None
    if refusal:
        raise CannotPlan(f"{config.path}: no trial can stand for {refusal}")
    return many


def check_host(config: Config, budget_s: float) -> None:
    """Raise ``CannotPlan`` where this machine cannot rehearse the model in the budget.

    A trial builds its weights in fp32: those of one rank, or all where they are tied
    (``convert.build``). It takes two optimizer steps or more.
    """
    why = ""
    with suppress(Unknown, ValueError, OSError):
        job = config.job
        ranks = 1 if job["tied_embeddings"] else job["shards"]
        needed = 4 * job["params.decoder"] / ranks / GIB
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
        if needed > memory:
            why = f"its weights need {needed:.0f} GiB and this machine has {memory:.0f}"
        step_s = job["gemm.flops"] * job["grad_accum"] / (FASTER * _fp32_flops())
        if not why and STEPS * step_s > budget_s:
            why = f"one step takes this CPU {shown(step_s)} or more"
    if why:
        small = "rehearse a small model, such as configs/rehearsal_cpu.toml"
        raise CannotPlan(f"{config.path}: {why}; {small}")


def _fp32_flops() -> float:
    """Measure how fast this CPU multiplies matrices in fp32 [FLOP/s]."""
    import numpy as np

    size = 512
    one = np.ones((size, size), np.float32)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        one @ one
        times.append(time.perf_counter() - start)
    return float(2 * size**3 / max(min(times), 1e-9))


def _has_fp8(config: Config, device: str) -> bool:
    """Whether trainer and GPU have FP8; a GPU of which that is unknown may try."""
    try:
        known = [config.job["gpu.fp8_matmul"]]
    except Unknown:
        known = []
    try:
        here = resolve(current().gpu.name) if device == "cuda" else ""
        known += [find(here).fp8_matmul] if here else []
    except UnknownGpu:
        pass
    return "fp8" in _allowed(config, "precision") and False not in known


def _allowed(config: Config, role: str) -> tuple[str, ...]:
    key = config.trainer.schema.job[role]
    spec = dict(config.trainer.schema.dotted_keys())[key]
    return tuple(spec.allowed)


def larger_gib(job: Job) -> float:
    """Memory of the job's GPU [GiB] where this machine's has less; else 0."""
    try:
        here = find(resolve(current().gpu.name)).memory_gib
        wanted = job["gpu.memory_gib"]
    except (Unknown, UnknownGpu):
        return 0.0
    return float(wanted) if here and wanted > here else 0.0


def timed_elsewhere(job: Job) -> str:
    """That trials are timed on another GPU than the job's; ``""`` where they are not.

    Their speeds are not kept for estimates (``calibrate.measured``).
    """
    here = current().gpu.name
    try:
        named = job["gpu"]
    except Unknown:
        return ""
    if not here or not is_another(here, named):
        return ""
    return f"memory is that of {named}, speeds are of this {here}"


def this_gpu(asked: str) -> str:
    """The GPU as the table knows it: the one named, else this machine's.

    Raises ``CannotPlan`` where the machine has none.
    """
    driver = current()
    found, rehearse = driver.gpu.name, "or rehearse with --device cpu"
    if not found and driver.failed:
        raise CannotPlan(f"{driver.failed}; repair the driver, {rehearse}")
    if not found:
        raise CannotPlan(f"no NVIDIA GPU found; run on a GPU node, {rehearse}")
    try:
        return resolve(asked or found)
    except UnknownGpu:
        return ""
