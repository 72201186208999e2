"""The interface of all runners."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from fp8tune.trials.record import LossRun, Record


class TrialLimits(NamedTuple):
    """How long a trial may take [s].

    The limit is ``deadline_s``, or ``stepping_s`` once it makes steps. On a GPU its
    steps last at least ``least_s``. ``matmuls`` is the number of FP8 matmuls per step
    that an earlier trial of the setting counted; 0: count them.
    """

    deadline_s: float
    stepping_s: float = 0.0
    matmuls: int = 0
    least_s: float = 0.0


CONFIRMED_S = 10.0
"""Least time of a confirmation's steps on a GPU [s].

The driver sets clocks by power, which it averages over a second (NVML reference,
nvmlDeviceGetPowerUsage): ten seconds are ten such averages.
"""


class Runner(Protocol):
    """Runs trials one after the other.

    ``now`` counts seconds from an arbitrary start: wall time for real trials, simulated
    time in replay.
    """

    def now(self) -> float:
        """Return seconds on the runner's clock."""
        ...

    def run(self, knobs: dict[str, Any], limits: TrialLimits) -> Record:
        """Try one setting; always returns within its limits.

        A trial that is not done by then is killed with all its processes. Its outcome
        is ``hang`` (or ``launch``, ``compile``, by the stage it reached).
        """
        ...

    def train_for_losses(
        self, knobs: dict[str, Any], loss_run: LossRun, deadline_s: float
    ) -> Record:
        """Train one setting to compare losses; limits as for ``run``."""
        ...

    def close(self) -> None:
        """Stop all processes of the runner."""
        ...
