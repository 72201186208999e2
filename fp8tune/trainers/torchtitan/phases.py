"""How torchtitan schedules, saves and resumes, for runs in phases of other precision.

Source: the wheels of 0.1.0 to 0.2.2 (components/lr_scheduler.py, checkpoint.py). A run
resumes by itself from the newest complete checkpoint of its folder.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fp8tune.job import Job
from fp8tune.trainers.phase import Phase, Setting, own_folder
from fp8tune.trainers.torchtitan.precision import LINEAR
from fp8tune.trainers.torchtitan.releases import MOVED

NEEDS_TORCHAO = False
"""A config key imports it."""
IMPORT, TORCHAO = "experimental.custom_import", "torchao.float8"
SINCE_TOTAL = "0.2.2"
"""The release that has ``lr_scheduler.total_steps``."""


def learning_rates(values: dict[str, Any]) -> Callable[[int], float]:
    """Return the learning rate of an optimizer step, counted from 1.

    ``values`` are the config's, with defaults (components/lr_scheduler.py).
    """
    total, warmup, decay = _spans(values)
    steady = total + 1 - decay
    shape = values["lr_scheduler.decay_type"]
    least = values[_name(values, "lr_scheduler.min_lr_factor")]
    rate = float(values["optimizer.lr"])

    def factor(step: int) -> float:
        if step <= warmup:
            return step / warmup
        if step <= steady:
            return 1.0
        progress = (step - steady) / decay
        if shape == "cosine":
            left = 0.5 * (1.0 + math.cos(math.pi * progress))
        else:
            left = 1 - (math.sqrt(progress) if shape == "sqrt" else progress)
        return float(least + (1 - least) * left)

    return lambda step: rate * factor(step)


def _spans(values: dict[str, Any]) -> tuple[int, int, int]:
    """Steps of the whole schedule, of its warmup, and of its decay."""
    total = values.get("lr_scheduler.total_steps")
    if total is None:
        total = values["training.steps"]
    warmup = min(values["lr_scheduler.warmup_steps"], total)
    share = values["lr_scheduler.decay_ratio"]
    decay = total - warmup if share is None else round(total * share)
    return total, warmup, min(decay, total - warmup)


def _name(values: dict[str, Any], key: str) -> str:
    """The name that this release has for a key of a later one."""
    old = {new: old for old, new in MOVED.items()}.get(key, key)
    return key if key in values else old


def settings(job: Job, phase: Phase) -> Iterator[Setting]:
    """Yield the keys that a phase needs besides its precision.

    ``training.steps`` is the end of a run and, without ``total_steps``, the horizon of
    its schedule. Before 0.2.2 a phase that ends before the decay begins needs none.
    """
    values = job.given
    asked = job.find("all_gather_asked")
    if phase.precision == "bf16" and phase.start and asked and not job[IMPORT]:
        why = "imports what the weights in an FP8 checkpoint are read with"
        yield Setting(IMPORT, TORCHAO, why)
    folder = own_folder(job["checkpoint.folder"])
    yield Setting("checkpoint.folder", folder, "the phases share a folder of their own")
    if phase.is_last:
        return
    steps = job["training.steps"]
    yield Setting("training.steps", phase.end, f"{steps} -> {phase.end}")
    total, _, decay = _spans(values)
    horizon = "lr_scheduler.total_steps"
    if horizon in values:
        if values[horizon] is None:
            why = "as in the whole run; by default it is training.steps"
            yield Setting(horizon, total, why)
    elif phase.end <= total + 1 - decay:
        why = "the decay begins after this phase"
        yield Setting("lr_scheduler.decay_ratio", 0.0, why)
    key = _name(values, "checkpoint.last_save_model_only")
    if job[key]:
        why = "the next phase needs the optimizer too"
        yield Setting(key, False, why)


def schedule_hint(job: Job) -> str:
    """What to type where a phase cannot keep the schedule of the whole run."""
    if "lr_scheduler.total_steps" in job.given:
        return ""
    version = job["trainer_version"]
    return (
        f"the schedule of torchtitan {version} ends with training.steps: use "
        f"{SINCE_TOTAL}, whose lr_scheduler.total_steps keeps it (--trainer "
        f"torchtitan=={SINCE_TOTAL}), or let the decay begin in the last phase with "
        "lr_scheduler.decay_ratio"
    )


def refusals(job: Job, phases: Sequence[Phase]) -> Iterator[str]:
    """Yield why a run in phases would not be the same run, and what to type."""
    enable = _name(job.given, "checkpoint.enable")
    if not job[enable]:
        yield f"nothing is saved, so no phase can continue: set {enable} = true"
    if job.given.get("checkpoint.last_save_in_hf"):
        yield (
            "checkpoint.last_save_in_hf = true writes no .metadata, so the script "
            "could not see that the last phase ended: set it to false, and convert the "
            "last checkpoint with scripts/checkpoint_conversion/convert_to_hf.py"
        )
    yield from _other_loads(job)
    gathers = job.find("all_gather_asked")
    if gathers and job["checkpoint.async_mode"] != "disabled":
        yield (
            "async checkpoints of weights that FSDP gathers in FP8 hold no weights but "
            'arbitrary memory (torch 2.13): set checkpoint.async_mode = "disabled"'
        )
    if gathers and job.find("tied_embeddings"):
        yield (
            "FP8 all-gather gives tied embeddings two weights, so that the phases have "
            "different states: set enable_fsdp_float8_all_gather = false"
        )
    module = job[IMPORT]
    after = any(p.start and p.precision == "bf16" for p in phases)
    if gathers and after and module and not str(module).startswith("torchao"):
        yield (
            f"`{IMPORT} = {module}` is needed to import {TORCHAO}, which reads FP8 "
            "checkpoints: set enable_fsdp_float8_all_gather = false"
        )
    kept = [c for c in job["model.converters"] if c not in LINEAR and _is_fp8(c)]
    if kept:
        yield f"the converter {kept[0]} would stay in the bf16 phases: remove it"


def _is_fp8(converter: str) -> bool:
    return converter.startswith(("quantize.", "float8", "mx"))


def _other_loads(job: Job) -> Iterator[str]:
    """Yield the keys with which a phase would not load what the last one saved."""
    load_step = job["checkpoint.load_step"]
    if load_step != -1:
        yield (
            f"checkpoint.load_step = {load_step} loads that step in every phase: "
            "remove it"
        )
    left_out = job["checkpoint.exclude_from_loading"]
    if left_out:
        names = ", ".join(map(str, left_out))
        yield (
            f"checkpoint.exclude_from_loading leaves {names} out at every resume: "
            "set it to []"
        )
    for key in ("checkpoint.load_only", "checkpoint.create_seed_checkpoint"):
        if job.given.get(key):
            yield f"{key} = true saves no phase: set it to false"
    model_only = _name(job.given, "checkpoint.initial_load_model_only")
    if job["checkpoint.initial_load_path"] and not job[model_only]:
        yield (
            f"checkpoint.initial_load_path with {model_only} = false continues "
            "another run, whose steps count: plan that run as a whole"
        )
    if job.given.get("fault_tolerance.enable"):
        yield "fault_tolerance.enable = true has other checkpoints: set it to false"


def checkpoints(values: dict[str, Any]) -> str:
    """The folder of the checkpoints (components/checkpoint.py)."""
    folder = str(values["job.dump_folder"]).rstrip("/")
    return f"{folder}/{values['checkpoint.folder']}"
