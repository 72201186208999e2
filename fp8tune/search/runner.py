"""What every runner offers to the search."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from fp8tune.search.record import Record
from fp8tune.search.stability.course import Course


class Leeway(NamedTuple):
    """When a trial may end before its full sample, and when after its deadline.

    Slower than ``floor`` tokens/s it need go no further, and is then ``censored``;
    while it makes steps it may take up to ``most`` seconds. ``matmuls`` FP8 matmuls ran
    in a step of an earlier trial of the setting: where all is measured but their count,
    when the time is up, that one holds. On a GPU its steps last ``least_s`` seconds.
    """

    floor: float = 0.0
    most: float = 0.0
    matmuls: int = 0
    least_s: float = 0.0


WHOLE = Leeway()
"""All steps, and not a second more than the deadline."""
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

    def run(
        self, knobs: dict[str, Any], deadline: float, leeway: Leeway = WHOLE
    ) -> Record:
        """Try one setting and return within ``deadline`` seconds whatever happens.

        A trial that is not done by then is killed with all its processes and comes
        back as ``hang`` (or ``launch``, ``compile``, by the stage it reached).
        """
        ...

    def learn(self, knobs: dict[str, Any], course: Course, deadline: float) -> Record:
        """Train one setting as told, for its losses; else as ``run``."""
        ...

    def close(self) -> None:
        """Stop everything that still runs."""
        ...
