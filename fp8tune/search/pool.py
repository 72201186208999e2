"""Where trials run: one by one in this process, or side by side in simulated time.

``search.workers`` has the third kind: other processes that share the storage.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from optuna.exceptions import UpdateFinishedTrialError

from fp8tune.search.database import without_password
from fp8tune.search.storage import BadStudy
from fp8tune.search.study import Study
from fp8tune.trials.order import Order
from fp8tune.trials.record import Record
from fp8tune.trials.runner import Runner
from fp8tune.trials.trial import Trial


class Ended(NamedTuple):
    """A trial that ended; ``trial`` is ``None`` if it was lost and does not count."""

    number: int
    trial: Trial | None


class Pool(Protocol):
    """Runs the trials of a search and stores their results in its study."""

    side_by_side: bool
    """Whether several trials may run at the same time."""

    def now(self) -> float:
        """Return seconds on the clock of the trials, from an arbitrary start."""
        ...

    def orders(self) -> Mapping[int, Order]:
        """Return the orders that have not ended, by number of the trial."""
        ...

    def has_room(self) -> bool:
        """Return whether one more trial could start now."""
        ...

    def start(self, order: Order) -> int:
        """Start a trial, and return its number."""
        ...

    def wait(self) -> list[Ended]:
        """Wait until a trial ends or there is room for another one."""
        ...

    def close(self) -> None:
        """Stop all trials and processes."""
        ...


class OneByOne:
    """Runs trials in this process, one after the other."""

    side_by_side = False

    def __init__(self, study: Study, runner: Runner) -> None:
        self._study = study
        self._runner = runner
        self._next: tuple[int, Order] | None = None

    def now(self) -> float:
        """Return seconds on the runner's clock."""
        return self._runner.now()

    def orders(self) -> Mapping[int, Order]:
        """Return the order that was started and has not run, if there is one."""
        return dict([self._next]) if self._next else {}

    def has_room(self) -> bool:
        """Return whether no trial was started that ``wait`` has not run."""
        return self._next is None

    def start(self, order: Order) -> int:
        """Store a trial as running; ``wait`` runs it."""
        number = self._study.ask(order)
        self._next = number, order
        return number

    def wait(self) -> list[Ended]:
        """Run the trial that was started."""
        assert self._next is not None
        (number, order), self._next = self._next, None
        try:
            record = order.run(self._runner)
        except BaseException:
            self._study.lose(number)
            raise
        try:
            trial = self._study.tell(number, record, **order.place(record))
        except UpdateFinishedTrialError:  # SQLite, whose lock is only in the folder
            place = without_password(self._study.place)
            why = "another search took over this study; run one at a time"
            raise BadStudy(f"{place}: trial {number} was ended: {why}") from None
        return [Ended(number, trial)]

    def close(self) -> None:
        """Stop the runner; a trial that was started and not run is lost."""
        if self._next:
            self._study.lose(self._next[0])
            self._next = None
        self._runner.close()


class Simulated:
    """Runs recorded trials on several workers at the same simulated time.

    ``runner`` returns records without waiting; a trial ends ``cost_s`` seconds after
    its start.
    """

    side_by_side = True

    def __init__(self, study: Study, runner: Runner, workers: int) -> None:
        self._study = study
        self._runner = runner
        self._idle = [f"worker {number}" for number in range(workers)]
        self._now = 0.0
        self._running: list[tuple[float, int, str, Order, Record]] = []

    def now(self) -> float:
        """Return the simulated time [s]."""
        return self._now

    def orders(self) -> Mapping[int, Order]:
        """Return the orders of the trials that are running."""
        return {number: order for _, number, _, order, _ in self._running}

    def has_room(self) -> bool:
        """Return whether a worker is idle."""
        return bool(self._idle)

    def start(self, order: Order) -> int:
        """Start a trial on the first idle worker; confirmations all get the same."""
        number = self._study.ask(order)
        worker, *self._idle = sorted(self._idle)
        record = order.run(self._runner)
        ends = self._now + record.cost_s
        heapq.heappush(self._running, (ends, number, worker, order, record))
        return number

    def wait(self) -> list[Ended]:
        """Advance the time to the end of the next trial."""
        self._now, number, worker, order, record = heapq.heappop(self._running)
        self._idle.append(worker)
        place = {**order.place(record), "worker": worker}
        return [Ended(number, self._study.tell(number, record, **place))]

    def close(self) -> None:
        """Give back the trials that are running."""
        for _, number, *_ in self._running:
            self._study.lose(number)
        self._running = []
        self._runner.close()
