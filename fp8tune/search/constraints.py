"""The constraints of a trial in Optuna: what its setting violates, by name.

A value above 0 violates a constraint. Optuna's ``study.best_trial`` and samplers, and
optuna-dashboard, then count the trial as infeasible.
"""

from __future__ import annotations

from collections.abc import Sequence

import optuna

from fp8tune.search.losses.findings import stability_by_setting
from fp8tune.search.sampler.past import FAILED, MEMORY
from fp8tune.trials.space import Point, Space
from fp8tune.trials.trial import Trial

RETRIES, NAN, NO_FP8, LOSS_GAP = "alloc_retries", "nan", "no_fp8", "loss_gap"
FORMER = "constraints"
"""System attribute of a trial with the constraints that Optuna had before they had
names: a list. optuna-dashboard 0.21 reads nothing else."""


def constraints_of(
    space: Space, baseline: Point | None, trial: Trial, trials: Sequence[Trial]
) -> dict[str, float]:
    """Return the constraints of a trial that ended, by name.

    All but ``loss_gap`` are set for every trial, as Optuna's GPSampler needs the same
    ones in all trials with a value.

    - ``memory_gib``: what the setting lacks of the GPU's memory [GiB]; negative: what
      it leaves.
    - ``alloc_retries``: how often the allocator had to free memory and retry.
    - ``nan``: 1 if the loss became NaN.
    - ``failed``: 1 if it failed for another reason than memory.
    - ``no_fp8``: 1 if the search is for FP8, and no FP8 matmul ran.
    - ``loss_gap``: how far FP8's loss is above the spread of bf16 seeds, relative to
      the loss; of a loss run in FP8, once there is one in bf16. ``trials`` are the
      earlier trials of the study.
    """
    record = trial.record
    constraints = {
        MEMORY: record.memory_lack_gib,
        RETRIES: float(record.alloc_retries),
        NAN: float(record.outcome == "nan"),
        FAILED: float(record.outcome not in ("ok", "oom")),
        NO_FP8: float(_lacks_fp8(space, baseline, trial)),
    }
    if trial.stage == "stability":
        compared = stability_by_setting(space, [*trials, trial])
        if result := compared.get(space.point(record.knobs)):
            constraints[LOSS_GAP] = result.loss_gap
    return constraints


def set_constraints(trial: optuna.Trial, constraints: dict[str, float]) -> None:
    """Store the constraints of a trial that runs."""
    for name, value in constraints.items():
        trial.set_constraint(name, value)
    worst = [max(constraints.values())]
    trial.storage.set_trial_system_attr(trial._trial_id, FORMER, worst)


def _lacks_fp8(space: Space, baseline: Point | None, trial: Trial) -> bool:
    """Return whether FP8 did not run, although the setting or the search asks for it.

    A search asks for the baseline's precision unless it may change that.
    """
    ran = space.value(space.point(trial.record.knobs), "precision")
    knob, asked = space.knob("precision"), ran
    if knob and knob.frozen and baseline:
        asked = space.value(baseline, "precision")
    return asked == "fp8" and (ran != "fp8" or trial.record.float8_matmuls == 0)
