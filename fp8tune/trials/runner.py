"""What every runner offers to the search."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from fp8tune.trials.record import LossRun, Record


class TrialLimits(NamedTuple):
    """How long a trial may take [s].

    It has ``deadline_s``; while it makes steps it may take up to ``stepping_s``. On a
    GPU its steps last at least ``least_s``. ``matmuls`` are the FP8 matmuls of a step
    that an earlier trial of the setting counted; 0: count them.
    """

    deadline_s: float
    stepping_s: float = 0.0
    matmuls: int = 0
    least_s: float = 0.0


CONFIRMED_S = 10.0
"""Least time of a confirmation's steps on a GPU [s].

The driver sets clocks by power, which it averages over a second (NVML reference,
nvmlDeviceGetPowerUsage). Each third of ten seconds has three such averages, so clocks
that still change show between the first and the last.
"""


class Runner(Protocol):
    """Executes trials one after the other.

    Time is the runner's own: ``now`` counts seconds from an arbitrary start, wall time
    where trials are real, simulated time in replay.
    """

    def now(self) -> float:
        """Seconds on the runner's clock."""
        ...

    def run(self, knobs: dict[str, Any], limits: TrialLimits) -> Record:
        """Try one setting and return within its limits whatever happens.

        A trial that is not done by then is killed with all its processes and comes
        back as ``hang`` (or ``launch``, ``compile``, by the stage it reached).
        """
        ...

    def train_for_losses(
        self, knobs: dict[str, Any], loss_run: LossRun, deadline_s: float
    ) -> Record:
        """Train one setting for its losses; else as ``run``."""
        ...

    def close(self) -> None:
        """Stop everything that still runs."""
        ...
