"""Who runs the trials of a search: this process, or others that it watches.

``Peer`` runs trials beside other processes of the study, ``Watcher`` runs none.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack

from optuna.exceptions import UpdateFinishedTrialError

from fp8tune.search import CannotSearch
from fp8tune.search.database import without_password
from fp8tune.search.say import note
from fp8tune.search.start_workers import Starter
from fp8tune.search.storage import BadStudy
from fp8tune.search.study import Study
from fp8tune.trials.order import Order
from fp8tune.trials.runner import Runner
from fp8tune.trials.trial import Trial

POLL_S = 1.0
"""How often to look at the trials of other processes [s]."""
LOOK_S = 30.0
"""After so long without a change a search looks at the time that is left [s]."""


class NoWorkers(CannotSearch):
    """Nobody runs trials, and nobody will."""


Ended = Mapping[int, Trial | None]
"""Trials that ended, by number; ``None`` if one was lost and does not count."""


class _Shared:
    """What the processes of a study have in common: one of them plans at a time.

    A pool tells whether trials may run ``side_by_side``, and on ``idle`` which worker
    can run one now. ``start`` begins a trial, ``wait`` waits until one begins or ends.
    """

    def __init__(self, study: Study) -> None:
        self._study = study
        self._planning = ExitStack()

    def begin(self) -> Ended:
        """Begin to plan: other processes do not until ``wait`` or ``close``."""
        self._planning.enter_context(self._study.planning())
        return self._news()

    def _news(self) -> Ended:
        self._study.fail_lost()
        return self._study.refresh()

    def _wait_for_others(self) -> Ended:
        """Wait until a trial of another process begins or ends, then begin to plan."""
        before, until = self._study.running.keys(), time.monotonic() + LOOK_S
        news: Ended = {}
        while time.monotonic() < until:
            time.sleep(POLL_S)
            is_alone, news = self._is_left_alone(), self._news()
            if is_alone or news or self._study.running.keys() != before:
                break
        return {**news, **self.begin()}

    def _is_left_alone(self) -> bool:
        """Return whether nobody runs trials any more."""
        return False


class Peer(_Shared):
    """Runs trials in this process; others may run trials of the study meanwhile.

    ``name`` is that of its GPU and machine, ``""`` if no other process takes part.
    """

    def __init__(self, study: Study, runner: Runner, name: str = "") -> None:
        super().__init__(study)
        self._runner = runner
        self._name = name
        self._next: tuple[int, Order] | None = None
        self._ran: int | None = None
        self.side_by_side = bool(name)

    def now(self) -> float:
        """Return seconds on the runner's clock, from an arbitrary start."""
        return self._runner.now()

    def idle(self) -> str | None:
        """Return this process, unless a trial was started that ``wait`` has to run."""
        return self._name if self._next is None else None

    def start(self, order: Order) -> int:
        """Store a trial as running; ``wait`` runs it."""
        number = self._study.ask(order.planned)
        self._next = number, order
        return number

    def wait(self) -> Ended:
        """Run the trial that was started, else wait for those of other processes."""
        self._planning.close()
        if self._next is None:
            return self._wait_for_others()
        (number, order), self._next = self._next, None
        self._ran = number
        try:
            with self._study.beating(number):
                record = order.run(self._runner)
                ended = self.begin()
        except BaseException:
            self._study.lose(number)
            if self._name:
                note(f"stopped; trial {number} is given back")
            raise
        try:
            trial = self._study.tell(number, record, **order.place(record))
        except UpdateFinishedTrialError:
            self._was_taken_away(number)
            return ended
        return {**ended, number: trial}

    def _was_taken_away(self, number: int) -> None:
        """Say that a result does not count; raise ``BadStudy`` in a search alone."""
        if not self._name:  # SQLite, whose lock is only in the folder
            place = without_password(self._study.place)
            why = "another search took over this study; run one at a time"
            raise BadStudy(f"{place}: trial {number} was ended: {why}")
        note(f"trial {number} counts as lost, as this process was silent for too long")

    def goes_on(self, running: Collection[int]) -> bool:
        """Return whether other processes run trials."""
        own = [self._ran] if self._ran is not None else []
        return bool(self._name) and bool({*running} - {*own})

    def close(self) -> None:
        """Stop the runner; a trial that was started and not run is given back."""
        if self._next:
            self._study.lose(self._next[0])
            self._next = None
        self._planning.close()
        self._runner.close()


class Watcher(_Shared):
    """Runs no trials: it starts processes that do, and watches them.

    Its clock counts only the time in which a trial runs: a search that waits in a queue
    spends nothing of its budget.
    """

    side_by_side = True

    def __init__(self, study: Study, starter: Starter) -> None:
        super().__init__(study)
        self._starter = starter
        self._has_started = False
        self._why_alone = ""
        self._clock, self._looked = 0.0, time.monotonic()

    def now(self) -> float:
        """Return the seconds in which a trial ran."""
        now = time.monotonic()
        if self._study.running:
            self._clock += now - self._looked
        self._looked = now
        return self._clock

    def idle(self) -> str | None:
        """Return ``None``: it runs no trial."""
        return None

    def start(self, order: Order) -> int:
        """Raise an error: it has no worker."""
        raise NotImplementedError

    def wait(self) -> Ended:
        """Wait for the trials of others; the first call starts these.

        Raises ``NoWorkers`` if there is something left to run when none of them is.
        """
        self._planning.close()
        if self._why_alone:
            raise NoWorkers(self._why_alone)
        if not self._has_started:
            self._starter.start()  # now, as a search that needs no trial needs none
            self._has_started = True
        return self._wait_for_others()

    def _is_left_alone(self) -> bool:
        self.now()
        self._why_alone = self._starter.poll()
        return bool(self._why_alone)

    def goes_on(self, running: Collection[int]) -> bool:
        """Return whether trials run that this process did not start."""
        return self._starter.is_other and bool(running)

    def close(self) -> None:
        """Stop what it started."""
        self._planning.close()
        if self._has_started:
            self._starter.stop()


Pool = Peer | Watcher
"""Runs the trials of a search and stores their results in its study."""
