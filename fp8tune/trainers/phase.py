"""A phase of a run, in the words of all trainers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Phase(NamedTuple):
    """Steps of a run in one precision: those after ``start``, up to ``end``.

    ``number`` counts from 1; ``total`` is the last step of the whole run.
    """

    number: int
    precision: str
    start: int
    end: int
    total: int

    @property
    def name(self) -> str:
        """Its name in the names of files."""
        return f"{self.number}-{self.precision}"

    @property
    def is_last(self) -> bool:
        """Whether the run ends with it."""
        return self.end == self.total


class Setting(NamedTuple):
    """A config key, its value in a phase, and why."""

    key: str
    value: Any
    reason: str


def own_folder(folder: Any) -> str:
    """Return the folder of the phases' checkpoints, beside that of the whole run."""
    return f"{str(folder).rstrip('/')}-phases"


TRIAL_STEPS = 256
"""More steps than a trial has: runs that compare losses have at most 200."""


def first_rates(learning_rate: Callable[[int], float], steps: int) -> list[float]:
    """Return the learning rates of a trial's steps, of a run of ``steps`` steps.

    A longer trial keeps the rate of the run's last step.
    """
    return [learning_rate(min(step, steps)) for step in range(1, TRIAL_STEPS + 1)]
