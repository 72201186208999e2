"""Replay recorded trials in simulated time, for a whole search without a GPU."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from fp8tune.trials.record import LossRun, Record
from fp8tune.trials.runner import TrialLimits
from fp8tune.trials.space import Point, Space


class Replay:
    """A runner that returns recorded trials, cycling through those of each setting.

    ``card_gib`` is the memory of the GPU that the config is for, 0 if unknown. Records
    without ``capacity_gib`` get it, so that the limit on reserved memory applies.
    """

    def __init__(
        self,
        records: Iterable[Record],
        space: Space,
        loss_records: Iterable[Record] = (),
        card_gib: float = 0.0,
    ) -> None:
        self.space = space
        self._card_gib = card_gib
        self._records: dict[Point, list[Record]] = defaultdict(list)
        self._asked: dict[Point, int] = defaultdict(int)
        self._now = 0.0
        for record in records:
            self._records[space.point(record.knobs)].append(record)
        self._loss_records = {
            (point, how[:3]): record
            for record in loss_records
            if (how := record.loss_run) and (point := _place(space, record)) is not None
        }

    def now(self) -> float:
        """Return the simulated time [s]."""
        return self._now

    def run(self, knobs: dict[str, Any], limits: TrialLimits) -> Record:
        """Return the next record of a setting, or ``hang`` if it exceeds its limits."""
        point = self.space.point(knobs)
        known = self._records[point]
        record = known[self._asked[point] % len(known)]
        self._asked[point] += 1
        stepping_s = limits.stepping_s if record.step_ms else 0.0
        longest = max(limits.deadline_s, stepping_s)
        if record.cost_s > longest:
            record = Record(knobs, "hang", cost_s=longest)
        self._now += record.cost_s
        capacity = record.capacity_gib or self._card_gib
        return record._replace(knobs=knobs, capacity_gib=capacity)

    def offers(self, knobs: dict[str, Any], how: LossRun) -> bool:
        """Return whether this loss run was recorded."""
        return (self.space.point(knobs), how[:3]) in self._loss_records

    def train_for_losses(
        self, knobs: dict[str, Any], loss_run: LossRun, deadline_s: float
    ) -> Record:
        """Return the record of a loss run; there must be one."""
        record = self._loss_records[self.space.point(knobs), loss_run[:3]]
        if record.cost_s > deadline_s:
            record = Record(knobs, "hang", cost_s=deadline_s)
        self._now += record.cost_s
        return record._replace(knobs=knobs, loss_run=loss_run)

    def skip(self, point: Point) -> None:
        """Skip a setting's next record, which a resumed study already has."""
        self._asked[point] += 1

    def close(self) -> None:
        """Do nothing: no process runs."""


def _place(space: Space, record: Record) -> Point | None:
    """Return the point of a record; ``None`` if it is not in the space."""
    try:
        return space.point(record.knobs)
    except KeyError:
        return None
