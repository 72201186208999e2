"""Replay recorded trials under simulated time: the whole search without a GPU."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from fp8tune.trials.loss_run import LossRun
from fp8tune.trials.record import Record
from fp8tune.trials.runner import TrialLimits
from fp8tune.trials.space import Point, Space


class Replay:
    """A runner that answers from records, each setting's in turn and over again.

    Records that do not say how much memory their GPU has are taken for trials on one of
    ``card_gib``, the target's, so that the share that may be reserved holds for them
    too; 0 where that is unknown.
    """

    def __init__(
        self,
        records: Iterable[Record],
        space: Space,
        learned: Iterable[Record] = (),
        card_gib: float = 0.0,
    ) -> None:
        self.space = space
        self._card_gib = card_gib
        self._records: dict[Point, list[Record]] = defaultdict(list)
        self._asked: dict[Point, int] = defaultdict(int)
        self._now = 0.0
        for record in records:
            self._records[space.point(record.knobs)].append(record)
        self._learned = {
            (point, how[:3]): record
            for record in learned
            if (how := record.loss_run) and (point := _place(space, record)) is not None
        }

    def now(self) -> float:
        """Simulated seconds."""
        return self._now

    def run(self, knobs: dict[str, Any], limits: TrialLimits) -> Record:
        """The next record of a setting; one that takes too long is cut off."""
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
        """Whether a run for its losses was recorded."""
        return (self.space.point(knobs), how[:3]) in self._learned

    def learn(
        self, knobs: dict[str, Any], loss_run: LossRun, deadline_s: float
    ) -> Record:
        """The recorded run that was trained so; there must be one."""
        record = self._learned[self.space.point(knobs), loss_run[:3]]
        if record.cost_s > deadline_s:
            record = Record(knobs, "hang", cost_s=deadline_s)
        self._now += record.cost_s
        return record._replace(knobs=knobs, loss_run=loss_run)

    def skip(self, point: Point) -> None:
        """Pass over a setting's next record: a study that resumes has it already."""
        self._asked[point] += 1

    def close(self) -> None:
        """Nothing runs."""


def _place(space: Space, record: Record) -> Point | None:
    """The point of a record; ``None`` where the space has none such."""
    try:
        return space.point(record.knobs)
    except KeyError:
        return None
