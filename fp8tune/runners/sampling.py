"""Decide how much a trial measures: which part of a step, and how many steps.

Standard library only, because trials and simulations both use it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from fp8tune.runners.steady import LEAST, Steady, half_width, steady

FEWEST_MICRO_BATCHES = 4
"""Micro-batches of a step that is measured in part: the first, the last with the
optimizer, and two of those between, which are all alike."""
PART_S = 2.0
"""A step that takes longer is measured in part [s]."""
LONG_WARM_UP = 2
"""Steps that never count where steps are long: the first has no optimizer state yet,
the second finds memory beside it."""


class Sampling(NamedTuple):
    """The rule that decides when the steps of a trial suffice.

    Steps count after step 0 and ``warm_steps`` more. At least ``min_steps`` suffice
    once half the interval of their median is at most ``precise`` (relative);
    ``max_steps`` always suffice. After ``enough_s`` seconds of steps the fewest that
    show a level suffice. Steps continue for at least ``least_s`` seconds.
    """

    min_steps: int = 6
    max_steps: int = 40
    warm_steps: int = 3
    precise: float = 0.005
    enough_s: float = math.inf
    least_s: float = 0.0


def micro_batches(accumulated: int, micro_ms: Sequence[float]) -> int:
    """Return how many micro-batches a step runs, of those it accumulates.

    As many as take ``PART_S``, by the fastest of ``micro_ms`` so far; the fewest before
    any has run.
    """
    fastest = min(micro_ms, default=math.inf)
    enough = math.ceil(PART_S * 1e3 / max(fastest, 1e-3))
    return min(accumulated, max(FEWEST_MICRO_BATCHES, enough))


def whole_step_ms(micro_ms: Sequence[float], accumulated: int) -> float:
    """Return the time of a step with all its micro-batches from those that ran [ms].

    Each one that did not run counts as the median of those between the first and the
    last.
    """
    missing = accumulated - len(micro_ms)
    between = statistics.median(micro_ms[1:-1]) if missing else 0.0
    return math.fsum(micro_ms) + missing * between


class Steps:
    """The steps of a trial so far, from step 0, and whether they suffice."""

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling
        self.whole_ms: list[float] = []
        self._ran_ms: list[float] = []
        self._events: dict[int, str] = {}

    def add(self, ran_ms: float, whole_ms: float, event: str = "") -> None:
        """Add a step: its own time, and the time of a whole step [ms].

        ``event`` names what happened in it and not in a steady step, if anything.
        """
        if event:
            self._events[len(self.whole_ms)] = event
        self._ran_ms.append(ran_ms)
        self.whole_ms.append(whole_ms)

    @property
    def warm_up(self) -> int:
        """The number of steps that never count; fewer if steps are long."""
        rule = self.sampling
        fewest = 1 + rule.warm_steps + rule.min_steps
        long = fewest * min(self._ran_ms) > rule.enough_s * 1e3
        return min(LONG_WARM_UP, 1 + rule.warm_steps) if long else 1 + rule.warm_steps

    def steady(self) -> Steady:
        """Return the first step that counts, and the steps left out before it."""
        return steady(self.whole_ms, self._events, self.warm_up)

    def suffice(self) -> bool:
        """Whether the measurement is precise enough."""
        rule, first = self.sampling, self.warm_up
        if math.fsum(self._ran_ms[first:]) < rule.least_s * 1e3:
            return False
        if len(self.whole_ms) - first >= rule.max_steps:
            return True
        found = self.steady()
        kept = self.whole_ms[found.start :]
        late = math.fsum(self._ran_ms[1:]) > rule.enough_s * 1e3
        least = min(LEAST, rule.min_steps) if late else rule.min_steps
        if not found.settled or len(kept) < least:
            return False
        return late or half_width(kept) <= rule.precise
