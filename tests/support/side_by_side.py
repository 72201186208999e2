"""Recorded trials on several workers at the same simulated time."""

from __future__ import annotations

import heapq
from collections.abc import Collection

from fp8tune.search.pool import Ended
from fp8tune.search.study import Study
from fp8tune.trials.order import Order
from fp8tune.trials.record import Record
from fp8tune.trials.runner import Runner


class Simulated:
    """A pool whose trials end ``cost_s`` seconds after their start.

    ``runner`` returns records without waiting.
    """

    side_by_side = True

    def __init__(self, study: Study, runner: Runner, workers: int) -> None:
        self._study = study
        self._runner = runner
        self._idle = [f"worker {number}" for number in range(workers)]
        self._now = 0.0
        self._ends: list[tuple[float, int, Order, Record]] = []

    def now(self) -> float:
        """Return the simulated time [s]."""
        return self._now

    def begin(self) -> Ended:
        """Return nothing: nobody else searches the study."""
        return {}

    def idle(self) -> str | None:
        """Return the first idle worker, if there is one."""
        return min(self._idle, default=None)

    def start(self, order: Order) -> int:
        """Start a trial on its worker."""
        number = self._study.ask(order.planned)
        self._study.refresh()
        self._idle.remove(order.planned.worker)
        record = order.run(self._runner)
        heapq.heappush(self._ends, (self._now + record.cost_s, number, order, record))
        return number

    def wait(self) -> Ended:
        """Advance the time to the end of the next trial."""
        self._now, number, order, record = heapq.heappop(self._ends)
        self._idle.append(order.planned.worker)
        return {number: self._study.tell(number, record, **order.place(record))}

    def goes_on(self, running: Collection[int]) -> bool:
        """Return ``False``: they are of this process."""
        return False

    def close(self) -> None:
        """Give back the trials that are running."""
        for _, number, *_ in self._ends:
            self._study.lose(number)
        self._ends = []
