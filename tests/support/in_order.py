"""A strategy whose proposals are given."""

from __future__ import annotations

from collections.abc import Sequence

from fp8tune.search.coordinator import Event
from fp8tune.search.strategy import PlannedTrial, Strategy
from fp8tune.trials.space import Point
from fp8tune.trials.trial import Trial


class InOrder(Strategy):
    """Proposes some settings in their order, those of lost trials again."""

    def __init__(self, points: Sequence[Point]) -> None:
        self._left = list(reversed(points))
        self.running = 0

    def propose(self, trials: Sequence[Trial]) -> PlannedTrial | None:
        """Return the next setting."""
        return PlannedTrial(self._left.pop(), "search", "next") if self._left else None

    def propose_untested(
        self,
        trials: Sequence[Trial],
    ) -> PlannedTrial | None:
        """Return nothing."""
        return None

    def has_risky_gain(self, trials: Sequence[Trial]) -> bool:
        """Return ``False``."""
        return False

    def take(self, event: Event) -> None:
        """Propose the setting of a lost trial again; stop when all have ended."""
        if event.lost:
            self._left.append(event.proposal.point)
        self.running += 1 if event.trial is None and not event.lost else -1
        if not self._left and not self.running:
            raise KeyboardInterrupt
