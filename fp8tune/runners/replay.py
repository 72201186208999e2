"""Replay recorded trials under simulated time: the whole search without a GPU."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from fp8tune.search.record import Record
from fp8tune.search.space import Point, Space
from fp8tune.search.stability.course import STAGE, Course, course


class Replay:
    """A runner that answers from records, each setting's in turn and over again."""

    def __init__(
        self, records: Iterable[Record], space: Space, learned: Iterable[Record] = ()
    ) -> None:
        self.space = space
        self._records: dict[Point, list[Record]] = defaultdict(list)
        self._asked: dict[Point, int] = defaultdict(int)
        self._now = 0.0
        for record in records:
            self._records[space.point(record.knobs)].append(record)
        self._learned = {
            (point, how[:3]): record
            for record in learned
            if (how := course(record)) and (point := _place(space, record)) is not None
        }

    def now(self) -> float:
        """Simulated seconds."""
        return self._now

    def run(self, knobs: dict[str, Any], deadline: float) -> Record:
        """The next record of a setting; one that takes too long is cut off."""
        point = self.space.point(knobs)
        known = self._records[point]
        record = known[self._asked[point] % len(known)]
        self._asked[point] += 1
        if record.cost_s > deadline:
            record = Record(knobs, "hang", cost_s=deadline)
        self._now += record.cost_s
        return record._replace(knobs=knobs)

    def offers(self, knobs: dict[str, Any], how: Course) -> bool:
        """Whether a run for its losses was recorded."""
        return (self.space.point(knobs), how[:3]) in self._learned

    def learn(self, knobs: dict[str, Any], course: Course, deadline: float) -> Record:
        """The recorded run that was trained so; there must be one."""
        record = self._learned[self.space.point(knobs), course[:3]]
        if record.cost_s > deadline:
            record = Record(knobs, "hang", cost_s=deadline)
        self._now += record.cost_s
        more = {**record.more, STAGE: course._asdict()}
        return record._replace(knobs=knobs, more=more)

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
