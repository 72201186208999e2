"""How KempnerForge schedules, saves and resumes, for runs in phases of other precision.

Source: KempnerForge at commit 5666d0d, files named in each docstring. A run resumes by
itself from the newest checkpoint of its folder, with the optimizer, the schedule's step
and the position in the data (checkpoint/manager.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fp8tune.job import Job
from fp8tune.trainers.phase import Phase, Setting, own_folder

NEEDS_TORCHAO = True
"""FP8 checkpoints hold torchao's class for weights, which bf16 runs do not import."""


def learning_rates(values: dict[str, Any]) -> Callable[[int], float]:
    """Return the learning rate of an optimizer step, counted from 1.

    ``values`` are the config's, with defaults. LambdaLR sets the rate of step 1 when it
    is built, and that of step n + 1 after step n (training/scheduler.py); a data phase
    scales what is set after its first step (scripts/train.py).
    """
    factor = _factor(values)
    rate = float(values["optimizer.lr"])
    phases = values["data.phases"] if values["data.datasets"] else []
    scales = sorted((p.get("start_step", 0), p.get("lr_scale", 1.0)) for p in phases)

    def learning_rate(step: int) -> float:
        scale = 1.0
        for start, value in scales:
            if start <= step - 2:
                scale = value
        return rate * factor(step - 1) * scale

    return learning_rate


def _factor(values: dict[str, Any]) -> Callable[[int], float]:
    """The share of the peak rate by the steps done (training/scheduler.py)."""
    name, warmup = values["scheduler.name"], values["scheduler.warmup_steps"]
    least, decay = values["scheduler.min_lr_ratio"], decay_steps(values)
    stable = _stable_steps(values)
    shape = values["scheduler.wsd_decay_type"] if name == "wsd" else name
    alpha = values["scheduler.rex_alpha"]

    def factor(done: int) -> float:
        if name == "none":
            return 1.0
        if done < warmup:
            return float(done / warmup)
        if done < warmup + stable or shape == "constant":
            return 1.0
        if shape == "rex":
            left = 1.0 - min(1.0, (done - warmup) / max(decay, 1))
            return float(max(least, left**alpha))
        if decay <= 0:
            return 1.0
        progress = min(1.0, (done - warmup - stable) / decay)
        if shape == "cosine":
            cosine = 1.0 + math.cos(math.pi * progress)
            return float(least + 0.5 * (1.0 - least) * cosine)
        if shape == "linear":
            return float(1.0 - (1.0 - least) * progress)
        return float(least + (1.0 - least) * (1.0 - progress) ** 0.5)

    return factor


def _stable_steps(values: dict[str, Any]) -> int:
    """Steps at the peak rate, which wsd alone has."""
    found = values["scheduler.stable_steps"] if values["scheduler.name"] == "wsd" else 0
    return found or 0


def decay_steps(values: dict[str, Any]) -> int:
    """Steps of the decay: by default the rest of the run (training/scheduler.py)."""
    if values["scheduler.decay_steps"]:
        return int(values["scheduler.decay_steps"])
    warmup = values["scheduler.warmup_steps"]
    return int(values["train.max_steps"] - warmup - _stable_steps(values))


def settings(job: Job, phase: Phase) -> Iterator[Setting]:
    """Yield the keys that a phase needs besides its precision.

    ``max_steps`` is both the end of a run and, without ``decay_steps``, the horizon of
    its schedule.
    """
    folder = own_folder(job["checkpoint.dir"])
    yield Setting("checkpoint.dir", folder, "the phases share a folder of their own")
    if phase.is_last:
        return
    total = job["train.max_steps"]
    yield Setting("train.max_steps", phase.end, f"{total} -> {phase.end}")
    decay = decay_steps(job.given)
    decays = job["scheduler.name"] not in ("none", "constant")
    if decays and not job["scheduler.decay_steps"] and decay > 0:
        why = "as in the whole run; by default it is the rest of max_steps"
        yield Setting("scheduler.decay_steps", decay, why)


def refusals(job: Job, phases: Sequence[Phase]) -> Iterator[str]:
    """Yield why a run in phases would not be the same run, and what to type."""
    if job["tied_embeddings"]:
        yield (
            "FP8 gives tied embeddings two weights, so that it cannot load a bf16 "
            "checkpoint (Missing key in checkpoint state_dict: optimizer.state."
            "output_head.proj.weight.step): set model.tie_embeddings = false"
        )
    if job["checkpoint.async_mode"] != "disabled":
        yield (
            "async checkpoints of FP8 weights hold no weights but arbitrary memory "
            '(torch 2.11 and 2.13): set checkpoint.async_mode = "disabled"'
        )
    if job["checkpoint.load_path"]:
        yield (
            "checkpoint.load_path continues another run, whose steps count: plan that "
            "run as a whole, without it"
        )
    sources = job["data.dataset_path"] or job["data.datasets"]
    if job["data.hf_streaming"] and job["data.hf_dataset_name"] and not sources:
        yield (
            "data.hf_streaming = true starts over at each resume, so that each phase "
            "would train on the first data again: set it to false"
        )
    if job.find("experts") and job["model.moe_bias_schedule"] != "constant":
        yield (
            "model.moe_bias_schedule spans train.max_steps, which ends a phase too: "
            'set it to "constant"'
        )
    shortest = min(phase.end - phase.start for phase in phases)
    if job["profiling.enable"] and shortest <= job["profiling.start_step"] - 2:
        yield (
            f"the profiler of a phase of {shortest} steps fails before the last "
            "checkpoint is saved: set profiling.enable = false"
        )


def checkpoints(values: dict[str, Any]) -> str:
    """The folder of the checkpoints (checkpoint/manager.py)."""
    return str(values["checkpoint.dir"])


def schedule_hint(_: Job) -> str:
    """What to type where a phase cannot keep the schedule: it always can."""
    return ""
