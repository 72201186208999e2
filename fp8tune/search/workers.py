"""Run the trials of a search on workers: other processes that share its storage."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import TrialState

from fp8tune.lint.wording import counted
from fp8tune.search import CannotSearch
from fp8tune.search.budget import show_duration
from fp8tune.search.members import Member, Members
from fp8tune.search.pool import Ended
from fp8tune.search.say import note
from fp8tune.search.study import CLAIMED_BY, Study
from fp8tune.trials.order import Order
from fp8tune.trials.record import Record
from fp8tune.trials.trial import Trial

UNFINISHED = (TrialState.WAITING, TrialState.RUNNING)
FIRST = ("baseline", "confirm")
"""Stages of the trials whose worker runs the confirmation, if it lives."""
POLL_S = 0.5
"""How often to look at the storage [s]."""
LOOK_S = 2.0
"""How often to look at the heartbeats of workers [s]."""
OVERRUN_S = 120.0
"""How much longer than its limits a trial may take [s]: a worker also waits until ended
processes are gone and have freed the GPU's memory."""
LOSSES = 2
"""A setting fails if so many workers were lost in the middle of its trials."""
SHOWN = 8
"""Machines that a message names."""


class NoWorkers(CannotSearch):
    """No worker is left, and none will come."""


class LeaseLost(Exception):
    """Another process coordinates the search, because this one was silent too long."""


class Starter(Protocol):
    """Starts the workers of a search, here or by a batch system."""

    def start(self) -> None:
        """Start the workers."""
        ...

    def poll(self) -> str:
        """Replace workers that are gone; return why there will be none, else ``""``."""
        ...

    def stop(self) -> None:
        """Stop the workers that are left."""
        ...


class NoStarter:
    """Starts no workers: people do, who get the ``note``."""

    def __init__(self, note: str = "") -> None:
        self._note = note

    def start(self) -> None:
        """Say how workers are started."""
        if self._note:
            note(self._note)

    def poll(self) -> str:
        """Return ``""``: workers may come at any time."""
        return ""

    def stop(self) -> None:
        """Do nothing: workers leave when the search is over."""


class Workers:
    """A pool whose trials run on the workers that joined the search.

    Its clock counts only the time in which a worker is there: a search that waits in a
    queue spends nothing of its budget. All workers must have one ``environment``, as
    ``machine.environment`` returns it; the first worker decides what it is. ``run``
    says how the search runs, for workers and for a coordinator after this one; without
    it, this one goes on as the last one said.
    """

    side_by_side = True
    waits = False
    """Whether another process coordinates the search, and this one only looks on."""

    def __init__(
        self,
        study: Study,
        members: Members,
        starter: Starter,
        run: Mapping[str, Any] | None = None,
    ) -> None:
        self._study = study
        self._members = members
        self._starter = starter
        self._run = run
        self._workers: dict[int, Member] = {}
        self._open: dict[int, Order] = {}
        self._ran_s: dict[int, float] = {}  # since this process saw that they run
        self._failed: dict[int, Trial] = {}
        self._confirms_on = ""
        self._has_lost = self._has_started = False
        self._clock, self._looked = 0.0, time.monotonic()

    @property
    def workers(self) -> list[Member]:
        """The workers that are there, as of the last look."""
        return list(self._workers.values())

    @property
    def has_trials(self) -> bool:
        """Whether a trial has ended."""
        return bool(self._study.trials)

    def now(self) -> float:
        """Return the seconds in which there was a worker."""
        since = time.monotonic() - self._looked if self._workers else 0.0
        return self._clock + since

    def lead(self, watch: Callable[[Trial], None] = lambda _trial: None) -> bool:
        """Wait until this process coordinates; ``False`` if the search is over.

        Meanwhile ``watch`` gets the trials that end. Then this process takes up the
        orders of the coordinator before it.
        """
        while not self._members.leads():
            if self._members.over:
                self.waits = False
                self._study.refresh()
                return False
            waited, self.waits = self.waits, True  # Ctrl-C may come with the note
            if not waited:
                wait = round(self._members.silent_s)
                note(
                    "another process coordinates this search, or did until a moment "
                    f"ago: waiting for its end, or for {wait} s without a sign of it"
                )
            for trial in filter(None, self._study.refresh().values()):
                watch(trial)
            time.sleep(POLL_S)
        self.waits = False
        self._study.refresh()
        unfinished = self._study.orders(*UNFINISHED)
        self._open = {trial.number: order for trial, order in unfinished}
        self._has_lost = False
        if self._run is not None:
            self._members.describe(dict(self._run))
            self._run = None
        return True

    def orders(self) -> Mapping[int, Order]:
        """Return the orders that have not ended, by number of the trial."""
        return self._open

    def has_room(self) -> bool:
        """Return whether a worker is idle."""
        return len(self._workers) > len(self._open)

    def start(self, order: Order) -> int:
        """Give a trial to the first worker that takes it.

        Confirmation runs all go to the same worker while it lives: GPUs may differ by
        more than the gains that these have to show.
        """
        if order.stage == "confirm":
            order = order._replace(worker=self._confirming())
        number = self._study.enqueue(order)
        self._open[number] = order
        return number

    def wait(self) -> list[Ended]:
        """Wait until trials end or workers come; trials of lost workers are given back.

        The first call starts workers.
        Raises ``LeaseLost`` and ``NoWorkers``.
        """
        if not self._has_started:
            self._starter.start()  # now, as a search that needs no trial needs none
            self._has_started = True
        before = len(self._workers)
        while True:
            if time.monotonic() - self._looked > LOOK_S or not self._workers:
                self._look()
            ended = self._study.refresh() | self._failed
            if known := [number for number in ended if number in self._open]:
                return [self._ended(number, ended[number]) for number in known]
            if len(self._workers) > before:
                return []
            time.sleep(POLL_S)

    def close(self) -> None:
        """Give back all trials and let the workers leave.

        If the storage fails, the workers that this process started are stopped anyway.
        Nothing happens if another process coordinates now.
        """
        try:
            if self._has_lost:
                return
            if not self._members.still_leads():
                ends = how_to_end(self._members.others())
                note(f"another process coordinates the search now; {ends}")
                return
            for number in self._open:
                self._study.lose(number)
            self._members.end()
        except BaseException:
            self._starter.stop()
            raise
        self._starter.stop()

    def leave(self) -> None:
        """Stop only what this process started: another one coordinates."""
        self._starter.stop()
        note(f"the search goes on; {how_to_end(self._members.others())}")

    def _ended(self, number: int, trial: Trial | None) -> Ended:
        del self._open[number]
        return Ended(number, trial)

    def _look(self) -> None:
        """Look at the workers: admit new ones, give back the trials of lost ones."""
        if not self._members.still_leads():
            self._has_lost = True
            raise LeaseLost
        alive = self._members.alive()
        # the database may have been away, for the workers too
        passed = min(time.monotonic() - self._looked, self._members.silent_s)
        self._clock, self._looked = self.now(), time.monotonic()
        for member in alive.values():
            if member.is_worker and not (member.admitted or member.refused):
                self._admit(member)
        workers = {number: m for number, m in alive.items() if m.is_worker}
        had = bool(self._workers)
        self._workers = {n: m for n, m in workers.items() if m.admitted}
        if had and not self._workers:
            note("no worker is left; the search waits for one")
        why = self._starter.poll()
        if why and not workers:
            raise NoWorkers(why)
        self._take_back_lost(alive, passed)

    def _take_back_lost(self, alive: Mapping[int, Member], passed: float) -> None:
        """Give back the trials of workers that are lost.

        ``passed`` is the time since the last look [s].
        """
        names = {member.name for member in self._workers.values()}
        for trial, order in self._study.orders(*UNFINISHED):
            claimed_by = trial.system_attrs.get(CLAIMED_BY)
            if trial.state == TrialState.WAITING:
                if order.worker not in ("", *names):
                    self._study.lose(trial.number)
            elif claimed_by is None:
                if self._members.is_silent(trial):
                    self._study.lose(trial.number)
            elif claimed_by not in alive:
                self._take_back(trial.number, order)
            elif self._hangs(trial.number, order, passed):
                limit = show_duration(order.limits.longest_s)
                name = alive[claimed_by].name
                note(f"{name} hangs: trial {trial.number} had to end after {limit}")
                self._members.declare_lost(claimed_by)
                self._take_back(trial.number, order)

    def _hangs(self, number: int, order: Order, passed: float) -> bool:
        """Return whether a worker does not end its trial, although it beats.

        Workers end trials at their limits, unless they hang themselves, as on a file
        system that does not answer.
        """
        ran_s = self._ran_s.get(number, -passed) + passed
        self._ran_s[number] = ran_s
        return ran_s > order.limits.longest_s + OVERRUN_S + self._members.silent_s

    def _take_back(self, number: int, order: Order) -> None:
        """End a trial whose worker was lost.

        Its setting is tried again. If its next worker is lost too, the setting is
        probably why: Slurm kills a job that exceeds its memory, with the worker.
        """
        with suppress(UpdateFinishedTrialError):
            times = self._study.count_lost_workers(number)
            if times < LOSSES:
                self._study.lose(number)
                return
            earlier = counted(times - 1, "earlier trial")
            message = f"its worker was lost, as in {earlier} of this setting"
            cost_s = self._ran_s.get(number, 0.0)
            record = Record(order.knobs, "launch", cost_s=cost_s, message=message)
            place = order.place(record)
            self._failed[number] = self._study.tell(number, record, **place)

    def _admit(self, member: Member) -> None:
        """Let a worker take part if it measures as the others do."""
        environment = member.about.get("environment")
        given = environment if isinstance(environment, dict) else {}
        common = self._members.environment or given
        for name in sorted({*common, *given}):
            if common.get(name) != given.get(name):
                here, there = repr(given.get(name)), repr(common.get(name))
                why = f"its {name} is {here}, this search measures with {there}"
                self._members.admit(member.number, why)
                return
        if not self._members.environment:
            self._members.environment = given
        self._members.admit(member.number)

    def _confirming(self) -> str:
        names = [member.name for member in self._workers.values()]
        if self._confirms_on not in names:
            ran = (t.worker for t in reversed(self._study.trials) if t.stage in FIRST)
            self._confirms_on = next((name for name in ran if name in names), names[0])
        return self._confirms_on


def how_to_end(members: Iterable[Member]) -> str:
    """Return what to type so that these processes of a search end.

    A coordinator then writes the answer, and workers give their trials back. Processes
    of this machine that ended without a word are left out.
    """
    jobs: set[str] = set()
    processes: dict[str, list[str]] = defaultdict(list)
    for member in members:
        job = member.name.rpartition(" of job ")[2].partition("_")[0]
        if job.isdecimal():
            jobs.add(job)
        elif member.pid > 1 and not _is_dead(member):
            processes[member.host].append(str(member.pid))
    ends = [f"scancel {' '.join(sorted(jobs))}"] if jobs else []
    ends += [f"kill {' '.join(pids)} (on {host})" for host, pids in processes.items()]
    more = [f"the same on {len(ends) - SHOWN} more machines"] * (len(ends) > SHOWN)
    if not ends:
        return "none of its processes is left, so the same command continues it"
    return f"to end it, type: {', '.join(ends[:SHOWN] + more)}"


def _is_dead(member: Member) -> bool:
    """Return whether a process is one of this machine that does not run any more."""
    if member.host != socket.gethostname():
        return False
    try:
        os.kill(member.pid, 0)
    except OSError as error:
        return error.errno == errno.ESRCH
    return False
