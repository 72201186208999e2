"""What of a config a run reaches before it ends, and what never comes into force.

As in ``job``, every public function is a fact of this trainer.

Source: KempnerForge at commit 5666d0d, files named in each docstring.
"""

from __future__ import annotations

import posixpath
from typing import Any


def checkpoints(checkpoint_interval: int, max_steps: int) -> int:
    """Checkpoints that a run to the end writes, without those of a dense window.

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

    A phase comes into force after step start_step (scripts/train.py); without a
    mixture of data sets none does.
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
    """A length for wsd's stable phase: what the decay leaves of the run [steps].

    The decay takes a tenth of the run where the file says nothing, and at most half of
    what warmup leaves (https://arxiv.org/abs/2404.06395).
    """
    rest = max_steps - warmup_steps
    decay = scheduler_decay_steps or 0
    return rest - decay if 0 < decay < rest else max(rest - max_steps // 10, rest // 2)


def resumes_from_own_folder(checkpoint_dir: str, checkpoint_load_path: str) -> bool:
    """Whether ``load_path`` is a checkpoint of the run's own folder.

    The run resumes from the latest one there before it looks at ``load_path``
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
