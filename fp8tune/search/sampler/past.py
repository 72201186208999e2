"""Read the trials of an Optuna study: how each ended, its speed and its memory."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from optuna.trial import FrozenTrial, TrialState

from fp8tune.search.sampler.candidates import Point

MAX_RESERVED = 0.92
"""Share of the GPU's memory that a setting may reserve to be chosen: beyond it
fragmentation, another batch or an evaluation ends a long run."""
PASSING = ("throttled", "shared", "launch")
"""Outcomes of chance: a second trial of the setting may well end otherwise."""


class Run(NamedTuple):
    """A finished trial of a setting; memory in GiB, 0 if unknown.

    ``outcome`` is ``ok``, ``oom`` or another failure.
    """

    point: Point
    outcome: str
    tokens_per_second: float = 0.0
    peak_gib: float = 0.0
    reserved_gib: float = 0.0
    capacity_gib: float = 0.0
    alloc_retries: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the setting ran."""
        return self.outcome == "ok"

    @property
    def fits(self) -> bool:
        """Whether it ran and did not reserve more than ``MAX_RESERVED`` of the GPU."""
        return self.ok and not 0 < MAX_RESERVED * self.capacity_gib < self.reserved_gib

    @property
    def may_be_chosen(self) -> bool:
        """Whether it fits and its allocator never had to free memory and retry."""
        return self.fits and not self.alloc_retries


def is_timed(trial: FrozenTrial) -> bool:
    """Return whether a trial was timed: those of stage "stability" were not."""
    return bool(trial.user_attrs.get("stage") != "stability")


def run_of(trial: FrozenTrial, point: Point) -> Run:
    """Return the run of a finished trial."""
    outcome = str(trial.user_attrs.get("outcome") or _outcome(trial))
    speed = _number(trial.values[0]) if trial.values else 0.0
    if outcome == "ok" and not speed:
        outcome = "failed"
    names = ("peak_gib", "reserved_gib", "capacity_gib", "alloc_retries")
    memory = (_number(trial.user_attrs.get(name)) for name in names)
    return Run(point, outcome, speed if outcome == "ok" else 0.0, *memory)


def _outcome(trial: FrozenTrial) -> str:
    """Return how a trial ended: a violated constraint means out of memory."""
    broken = any(value > 0 for value in trial.constraints.values())
    if broken or trial.state == TrialState.PRUNED:
        return "oom"
    return "ok" if trial.state == TrialState.COMPLETE else "failed"


def _number(value: Any) -> float:
    """Return a finite number above 0; 0 for anything else."""
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if plain and 0 < value < math.inf else 0.0
