"""The strategy of a search: best predicted points, then TPE, until little is gained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fp8tune.search.answer import by_point
from fp8tune.search.space import Point, Space
from fp8tune.search.strategy import Proposal
from fp8tune.search.study import Trial


class Default:
    """Proposes points that were not tried and are not known to run out of memory."""

    def __init__(self, space: Space, given: Point) -> None:
        self.space = space
        self.given = given

    def propose(self, trials: Sequence[Trial]) -> Proposal | None:
        """The next trial; ``None`` when every open point was tried."""
        from fp8tune.search.tpe import suggest

        tried = by_point(self.space, trials)
        limits = self._limits(trials)
        candidates = [
            point
            for point in self.space.points(self.given)
            if point not in tried and not self._too_large(point, limits)
        ]
        if not candidates:
            return None
        point = suggest(self.space, self.given, trials, candidates)
        return Proposal(point, "search", "TPE")

    def _limits(self, trials: Sequence[Trial]) -> dict[Point, Any]:
        """The smallest micro-batch of each cell that ran out of memory."""
        batch = self.space.knob("micro_batch")
        found: dict[Point, Any] = {}
        for trial in trials:
            if batch is not None and trial.record.outcome == "oom":
                cell = self.space.cell(self.space.point(trial.record.knobs))
                value = trial.record.knobs[batch.key]
                found[cell] = min(found.get(cell, value), value)
        return found

    def _too_large(self, point: Point, limits: dict[Point, Any]) -> bool:
        batch = self.space.knob("micro_batch")
        cell = self.space.cell(point)
        if batch is None or cell not in limits:
            return False
        return bool(dict(point)[batch.key] >= limits[cell])
