"""Read the trials of an Optuna study: how each ended, its speed and its memory."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from optuna.trial import FrozenTrial, TrialState

from fp8tune.search.sampler.candidates import Point

MEMORY, FAILED = "memory_gib", "failed"
"""Constraints: memory that the setting lacks [GiB], and that it failed otherwise."""


class Run(NamedTuple):
    """A finished trial of a setting; memory in GiB, 0 if unknown.

    ``outcome`` is ``ok``, ``oom``, ``failed``, or ``passing``: a failure of chance,
    after which a second trial of the setting may well end otherwise.
    ``lacks_memory``: it ran, and leaves too little memory for a long run.
    ``is_feasible``: it violates no constraint.
    """

    point: Point
    outcome: str
    tokens_per_second: float = 0.0
    peak_gib: float = 0.0
    capacity_gib: float = 0.0
    lacks_memory: bool = False
    is_feasible: bool = True

    @property
    def ok(self) -> bool:
        """Whether the setting ran."""
        return self.outcome == "ok"

    @property
    def fits(self) -> bool:
        """Whether it ran and leaves enough memory."""
        return self.ok and not self.lacks_memory


def is_timed(trial: FrozenTrial) -> bool:
    """Return whether a trial was timed: those of stage "stability" were not."""
    return bool(trial.user_attrs.get("stage") != "stability")


def run_of(trial: FrozenTrial, point: Point) -> Run:
    """Return the run of a finished trial."""
    speed = _number(trial.values[0]) if trial.values else 0.0
    constraints = trial.constraints
    return Run(
        point,
        _outcome(trial, speed),
        tokens_per_second=speed,
        peak_gib=_number(trial.user_attrs.get("peak_gib")),
        capacity_gib=_number(trial.user_attrs.get("capacity_gib")),
        lacks_memory=constraints.get(MEMORY, 0.0) > 0,
        is_feasible=all(value <= 0 for value in constraints.values()),
    )


def _outcome(trial: FrozenTrial, speed: float) -> str:
    """Return how a trial ended, by its state: a pruned one usually lacked memory."""
    if trial.state == TrialState.FAIL:
        return "passing"
    if trial.state == TrialState.COMPLETE:
        return "ok" if speed else "failed"
    return "failed" if trial.constraints.get(FAILED, 0.0) > 0 else "oom"


def _number(value: Any) -> float:
    """Return a finite number above 0; 0 for anything else."""
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if plain and 0 < value < math.inf else 0.0
