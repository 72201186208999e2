"""What every runner offers to the search."""

from __future__ import annotations

from typing import Any, Protocol

from fp8tune.search.record import Record
from fp8tune.search.stability.course import Course


class Runner(Protocol):
    """Executes trials one after the other.

    Time is the runner's own: ``now`` counts seconds from an arbitrary start, wall time
    where trials are real, simulated time in replay.
    """

    def now(self) -> float:
        """Seconds on the runner's clock."""
        ...

    def run(self, knobs: dict[str, Any], deadline: float) -> Record:
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
