"""What of a config a run reaches before it ends, and what never comes into force.

As in ``job``, every public function is a fact of this trainer.

Source: KempnerForge at commit 5666d0d, files named in each docstring.
"""

from __future__ import annotations

import math
import posixpath
from functools import cache
from typing import Any

from fp8tune.job import Job, Unknown

SHAPES = (
    "dim",
    "n_layers",
    "n_heads",
    "n_kv_heads",
    "vocab_size",
    "activation",
    "norm_type",
    "tie_embeddings",
    "qk_norm",
    "num_experts",
    "moe_frequency",
    "moe_packed_experts",
    "moe_expert_ffn_multiplier",
)
"""Keys of [model] that decide which parameters there are."""

RECIPE = (
    "optimizer.",
    "scheduler.",
    "train.mixed_precision",
    "train.seed",
    "train.data_seed",
    "train.loss_fn",
    "train.z_loss_weight",
    "data.dataset_path",
    "data.datasets",
    "data.hf_dataset_name",
)
"""Beginnings of keys that experiments with one model differ in."""


def checkpoints(checkpoint_interval: int, max_steps: int) -> int:
    """Checkpoints that a finished run has written, without those of a dense window.

    One at each interval, and one at the end in any case (scripts/train.py).
    """
    return -(-max_steps // checkpoint_interval)


def late_phase(
    max_steps: int,
    data_datasets: Any,
    data_phases: Any,
    data_anneal_start_step: int,
    data_anneal_weights: Any,
) -> int:
    """First step of the first data phase after the last step, 0 if there is none.

    A phase takes effect after step start_step (scripts/train.py). Without a mixture of
    data sets none does.
    """
    if not data_datasets:
        return 0
    annealing = [data_anneal_start_step] if data_anneal_weights else []
    return _late(_starts(data_phases) or annealing, max_steps)


def vlm_late_stage(max_steps: int, vlm_freeze_schedule: Any) -> int:
    """First step of the first freeze stage after the last step, 0 if there is none."""
    return _late(_starts(vlm_freeze_schedule), max_steps)


def wsd_stable_steps(
    max_steps: int, warmup_steps: int, scheduler_decay_steps: int | None
) -> int:
    """Suggested stable phase of wsd [steps].

    The decay takes a tenth of the run if the file gives no length, and at most half of
    what the warmup leaves (https://arxiv.org/abs/2404.06395). The stable phase takes
    the rest.
    """
    rest = max_steps - warmup_steps
    decay = scheduler_decay_steps or 0
    return rest - decay if 0 < decay < rest else max(rest - max_steps // 10, rest // 2)


def steps_to_decay(
    schedule: str,
    max_steps: int,
    warmup_steps: int,
    scheduler_stable_steps: int | None,
) -> int:
    """Steps of the run after warmup and stable phase [steps].

    Source: training/scheduler.py.
    """
    stable = (scheduler_stable_steps or 0) if schedule == "wsd" else 0
    return max_steps - warmup_steps - stable


def schedule_end(
    schedule: str,
    steps_to_decay: int,
    scheduler_decay_steps: int | None,
    scheduler_min_lr_ratio: float,
    scheduler_wsd_decay_type: str,
    scheduler_rex_alpha: float,
) -> float:
    """Share of the peak learning rate in the last step of a run that decays.

    Unknown if the run ends before the decay. Source: training/scheduler.py.
    """
    length = scheduler_decay_steps or steps_to_decay
    if steps_to_decay < 1 or length < 1:
        raise Unknown("schedule_end")
    done = min(1.0, (steps_to_decay - 1) / length)
    low = scheduler_min_lr_ratio
    shape = scheduler_wsd_decay_type if schedule == "wsd" else schedule
    if shape == "rex":
        return float(max(low, (1 - done) ** scheduler_rex_alpha))
    falls = {
        "cosine": (1 + math.cos(math.pi * done)) / 2,
        "linear": 1 - done,
        "sqrt": math.sqrt(1 - done),
    }
    if shape not in falls:
        raise Unknown("schedule_end")
    return low + (1 - low) * falls[shape]


def checkpoint_bytes(
    vlm: bool,
    ep: int,
    pp: int,
    params_decoder: int,
    optimizer: str,
    weight_bytes: int,
    optimizer_bytes: float,
) -> float:
    """Bytes of one checkpoint: weights and optimizer state, without its index.

    For Muon only the momentum is saved, not the state of its inner AdamW. Unknown for
    vision-language models, and if ranks overwrite each other's parts. Source:
    checkpoint/manager.py, save; within 2 % of checkpoints written by the trainer.
    """
    if vlm or ep > 1 or pp > 1:
        raise Unknown("checkpoint_bytes")
    state = optimizer_bytes
    if optimizer == "muon":
        state = 2 * weight_bytes - optimizer_bytes
    return params_decoder * (weight_bytes + state)


def kept_checkpoints(checkpoints: int, checkpoint_keep_last_n: int) -> int:
    """Checkpoints in the folder at the end, without those of a dense window.

    All of them with ``keep_last_n`` of 0 or less (checkpoint/manager.py, _cleanup).
    """
    kept = checkpoint_keep_last_n
    return min(checkpoints, kept) if kept > 0 else checkpoints


def run_hours(max_steps: int, step_tokens: int, speed_tokens_high: float) -> float:
    """Shortest time of the whole run, from the predicted speed [h]."""
    return max_steps * step_tokens / speed_tokens_high / 3600


def checkpoint_folder(checkpoint_dir: str) -> str:
    """The checkpoint folder, in a form that is equal for equal folders."""
    return posixpath.normpath(checkpoint_dir)


def model_shape(job: Job) -> tuple[Any, ...]:
    """What decides the names and shapes of a model's parameters.

    A checkpoint is loaded by them (checkpoint/manager.py).
    """
    said = tuple(job[f"model.{name}"] for name in SHAPES)
    return (*said, job["ffn_size"], job["vlm_arch_name"])


def recipe(job: Job) -> tuple[Any, ...]:
    """How a run learns and from what: settings that differ between compared runs."""
    named, given = _recipe_keys(job.words.keys), job.given
    return tuple([(key, given[key]) for key in named if key in given])


@cache
def _recipe_keys(keys: frozenset[str]) -> list[str]:
    """Those keys that belong to the recipe, in order."""
    return sorted(key for key in keys if key.startswith(RECIPE))


def resumes_from_own_folder(checkpoint_dir: str, checkpoint_load_path: str) -> bool:
    """Whether ``load_path`` is a checkpoint in the run's own folder.

    The run resumes from the latest one there before it reads ``load_path``
    (resilience/elastic.py, scripts/train.py).
    """
    folder, name = posixpath.split(posixpath.normpath(checkpoint_load_path))
    own = posixpath.normpath(checkpoint_dir)
    return folder == own and name.startswith("step_")


def load_path_step(checkpoint_load_path: str) -> int:
    """Step of the checkpoint to load, by the name of its folder, or -1.

    The trainer names checkpoints ``step_N`` (checkpoint/manager.py).
    """
    name = posixpath.basename(posixpath.normpath(checkpoint_load_path))
    step = name.removeprefix("step_")
    return int(step) if name != step and step.isdecimal() and len(step) < 16 else -1


def _starts(stages: Any) -> list[int]:
    starts = [stage.get("start_step", 0) for stage in stages if isinstance(stage, dict)]
    return [start for start in starts if isinstance(start, int)]


def _late(starts: list[int], max_steps: int) -> int:
    return min((start for start in starts if start >= max_steps), default=0)
