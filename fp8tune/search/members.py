"""The processes of a search with several workers, and which of them coordinates it.

They register in a second Optuna study of the same storage, ``NAME/workers``, with one
Optuna trial for each process. That stays RUNNING while the process lives, and a time in
it is its heartbeat. A search only looks whether that changes, and judges silence by its
own clock, so the clocks of the machines need not agree. (Optuna's own heartbeats serve
``study.optimize`` and databases only.)

The coordinator is the process that holds the lease: another trial of that study, which
goes from WAITING to RUNNING. Optuna lets only one process make that change.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from fp8tune.search.storage import errors_of
from fp8tune.trials.record import is_number

SUFFIX = "/workers"
"""How the name of the second study ends."""
BEAT_S = 10.0
"""Seconds between heartbeats, if no option says otherwise."""
MISSED = 6
"""Heartbeats that a process may miss before it counts as lost."""
KIND, MEMBER, LEASE = "kind", "member", "lease"
OVER, RUN, ENVIRONMENT = "over", "run", "environment"
"""User attributes of the second study: whether the search has ended, how it runs, and
what all its workers have in common."""


class Member(NamedTuple):
    """A registered process.

    ``about`` is what it said of itself: its role, host, process id, GPU and software.
    ``admitted`` and ``refused`` (the reason) are the coordinator's answer.
    """

    number: int
    about: dict[str, Any]
    admitted: bool
    refused: str

    @property
    def name(self) -> str:
        """How people know it, such as ``node07 GPU 2``."""
        return str(self.about.get("name") or f"process {self.number}")

    @property
    def host(self) -> str:
        """The machine on which it runs."""
        return str(self.about.get("host"))

    @property
    def pid(self) -> int:
        """Its process ID on that machine, 0 if unknown."""
        pid = self.about.get("pid")
        return pid if type(pid) is int else 0

    @property
    def is_worker(self) -> bool:
        """Whether it measures trials."""
        return self.about.get("role") == "worker"


class Members:
    """The processes of one search, as this process sees them.

    ``beat_s`` is the time between heartbeats [s]. ``place`` is the storage as messages
    name it.
    """

    def __init__(
        self, storage: BaseStorage, study: str, place: str, beat_s: float = BEAT_S
    ) -> None:
        self.beat_s = beat_s
        self.number = -1
        self.was_lost = False
        self._lease = self._seen_lease = -1
        self._about: dict[str, Any] = {}
        self._storage = storage
        self._place = place
        self._seen: dict[tuple[int, str], tuple[Any, float, float]] = {}
        with errors_of(place):
            self._study = optuna.create_study(
                storage=storage, study_name=f"{study}{SUFFIX}", load_if_exists=True
            )
            self._id = storage.get_study_id_from_name(self._study.study_name)

    @property
    def silent_s(self) -> float:
        """After how many seconds without a heartbeat a process is lost."""
        return MISSED * self.beat_s

    # How the search runs.

    @property
    def over(self) -> bool:
        """Whether the search has ended, so that workers may leave."""
        return bool(self._attributes().get(OVER))

    @property
    def run(self) -> dict[str, Any]:
        """How the search runs: what workers and a later coordinator need."""
        run = self._attributes().get(RUN)
        return run if isinstance(run, dict) else {}

    @property
    def environment(self) -> dict[str, Any]:
        """What all workers have in common; empty before the first one."""
        environment = self._attributes().get(ENVIRONMENT)
        return environment if isinstance(environment, dict) else {}

    @environment.setter
    def environment(self, environment: dict[str, Any]) -> None:
        with errors_of(self._place):
            self._study.set_user_attr(ENVIRONMENT, environment)

    def describe(self, run: dict[str, Any]) -> None:
        """Store how the search runs; it is not over then."""
        with errors_of(self._place):
            self._study.set_user_attr(RUN, run)
            self._study.set_user_attr(OVER, False)

    def end(self) -> None:
        """Tell all workers that the search has ended."""
        with errors_of(self._place):
            self._study.set_user_attr(OVER, True)

    def _attributes(self) -> dict[str, Any]:
        with errors_of(self._place):
            return self._storage.get_study_user_attrs(self._id)

    # This process.

    @contextmanager
    def joined(
        self, about: dict[str, Any], on_beat: Callable[[], None] = lambda: None
    ) -> Iterator[None]:
        """Register this process and let it beat until the end of the block.

        ``on_beat`` is called after each beat, in the thread that beats.
        """
        self.join(about)
        left = threading.Event()

        def beat() -> None:
            while not left.wait(self.beat_s):
                number = self.number
                try:
                    self._set(number, "beat", time.time())
                except UpdateFinishedTrialError:
                    # not if it has joined again meanwhile
                    self.was_lost |= number == self.number
                except Exception:  # noqa: S112, the main thread meets the same error
                    continue
                with suppress(Exception):
                    on_beat()

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            left.set()
            thread.join(self.beat_s)
            with suppress(Exception):
                self.leave()

    def join(self, about: dict[str, Any]) -> None:
        """Register this process without a heartbeat."""
        self._about = {"host": socket.gethostname(), "pid": os.getpid(), **about}
        self.number = self._create(
            MEMBER, TrialState.RUNNING, about=self._about, beat=time.time()
        )

    def rejoin_if_lost(self) -> bool:
        """Register this process again if it was declared lost; return whether it was.

        It was silent for too long, stopped or without its network.
        """
        was_lost = self.was_lost
        if was_lost:
            self.join(self._about)
            self.was_lost = False
        return was_lost

    def leave(self) -> None:
        """Remove this process; the lease, if it holds it, is free."""
        for trial in self._trials(LEASE, TrialState.RUNNING):
            if trial.user_attrs.get("holder") == self.number:
                self._finish(trial, TrialState.COMPLETE)
        for trial in self._trials(MEMBER, TrialState.RUNNING):
            if trial.number == self.number:
                self._finish(trial, TrialState.COMPLETE)

    def state(self) -> Member | None:
        """Return this process as registered; ``None`` if it was declared lost."""
        own = self._trial(self.number)
        return _member(own) if own.state == TrialState.RUNNING else None

    # The others.

    def others(self) -> list[Member]:
        """Return the other processes that are registered, whether they beat or not."""
        trials = self._trials(MEMBER, TrialState.RUNNING)
        return [_member(trial) for trial in trials if trial.number != self.number]

    def alive(self) -> dict[int, Member]:
        """Return the living processes by number, after a look at their heartbeats.

        The coordinator calls this; it declares the silent ones lost.
        """
        alive = {}
        for trial in self._trials(MEMBER, TrialState.RUNNING):
            if self.is_silent(trial):
                self._finish(trial, TrialState.FAIL)
            else:
                alive[trial.number] = _member(trial)
        return alive

    def declare_lost(self, number: int) -> None:
        """Declare a process lost that beats and does not do its work."""
        self._finish(self._trial(number), TrialState.FAIL)

    def admit(self, number: int, refused: str = "") -> None:
        """Let a process take part, or refuse it with a reason."""
        with suppress(UpdateFinishedTrialError):
            name, value = ("refused", refused) if refused else ("admitted", True)
            self._set(number, name, value)

    def is_silent(self, trial: FrozenTrial) -> bool:
        """Return whether a trial's heartbeat was silent for too long, by our clock.

        That begins when this process looks for the first time. A long time between two
        looks counts as one heartbeat: the database was away, for the others too.
        """
        beat, now = trial.user_attrs.get("beat", 0), time.monotonic()
        key = trial.number, str(trial.user_attrs.get(KIND))
        last, silence, looked = self._seen.get(key, (None, 0.0, now))
        silence = silence + min(now - looked, self.beat_s) if last == beat else 0.0
        self._seen[key] = beat, silence, now
        return silence > self.silent_s

    # The lease.

    def leads(self) -> bool:
        """Return whether this process coordinates, and take the lease if it is free.

        At most one process gets it. A holder that was silent loses it, and learns so
        here when it wakes up.
        """
        self.rejoin_if_lost()
        if self._is_led():  # without reading all processes, which many workers would
            return False
        held = self._trials(LEASE, TrialState.RUNNING)
        for trial in held:
            if trial.user_attrs.get("holder") == self.number:
                self._lease = trial.number
                return True
            if self._has_holder(trial):
                self._seen_lease = trial.number
                return False
            self._finish(trial, TrialState.FAIL)
        # All processes want the same one, the first that has not ended: if two create
        # one at the same time, the second waits for its turn.
        unfinished = TrialState.WAITING, TrialState.RUNNING
        if not self._trials(LEASE, *unfinished):
            self._create(LEASE, TrialState.WAITING)
        first = self._trials(LEASE, *unfinished)[:1]
        with errors_of(self._place), suppress(UpdateFinishedTrialError):
            for trial in first:
                running = TrialState.RUNNING
                if self._storage.set_trial_state_values(trial._trial_id, running):
                    self._set(trial.number, "holder", self.number)
                    self._lease = trial.number
                    return True
        return False

    def still_leads(self) -> bool:
        """Return whether nobody took the lease since ``leads`` gave it to this process.

        Another process may have led meanwhile, and have left again.
        """
        held = self._trials(LEASE, TrialState.RUNNING)
        return not self.was_lost and any(t.number == self._lease for t in held)

    def _is_led(self) -> bool:
        """Return whether another process holds the lease that was seen last."""
        if self._seen_lease < 0:
            return False
        lease = self._trial(self._seen_lease)
        mine = lease.user_attrs.get("holder") == self.number
        return not (mine or lease.state.is_finished()) and self._has_holder(lease)

    def _has_holder(self, lease: FrozenTrial) -> bool:
        holder = lease.user_attrs.get("holder")
        if holder is None:  # taken just now
            return not self.is_silent(lease)
        member = self._trial(holder)
        return not (member.state.is_finished() or self.is_silent(member))

    # The storage.

    def _trials(self, kind: str, *states: TrialState) -> list[FrozenTrial]:
        with errors_of(self._place):
            trials = self._storage.get_all_trials(
                self._id, deepcopy=False, states=states or None
            )
        return [trial for trial in trials if trial.user_attrs.get(KIND) == kind]

    def _trial(self, number: int) -> FrozenTrial:
        with errors_of(self._place):
            find = self._storage.get_trial_id_from_study_id_trial_number
            return self._storage.get_trial(find(self._id, number))

    def _create(self, kind: str, state: TrialState, **attributes: Any) -> int:
        template = create_trial(state=state, user_attrs={KIND: kind, **attributes})
        with errors_of(self._place):
            trial = self._storage.create_new_trial(self._id, template)
            return self._storage.get_trial_number_from_id(trial)

    def _set(self, number: int, name: str, value: Any) -> None:
        with errors_of(self._place):
            find = self._storage.get_trial_id_from_study_id_trial_number
            self._storage.set_trial_user_attr(find(self._id, number), name, value)

    def _finish(self, trial: FrozenTrial, state: TrialState) -> None:
        values = [0.0] if state == TrialState.COMPLETE else None
        with errors_of(self._place), suppress(UpdateFinishedTrialError):
            self._storage.set_trial_state_values(trial._trial_id, state, values)


def are_alive(study: optuna.Study) -> bool:
    """Return whether processes search a study now, for people who look at it.

    This goes by the clocks of the machines, as nobody waits for a second heartbeat.
    """
    second = _second(study)
    run = second.user_attrs.get(RUN) if second else None
    if not second or second.user_attrs.get(OVER) or not isinstance(run, dict):
        return False
    beat_s, now = run.get("beat_s"), time.time()
    silent_s = MISSED * (beat_s if is_number(beat_s) else BEAT_S)
    beats = (
        trial.user_attrs.get("beat")
        for trial in second.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        if trial.user_attrs.get(KIND) == MEMBER
    )
    return any(is_number(beat) and abs(now - beat) <= silent_s for beat in beats)


def is_over(study: optuna.Study) -> bool:
    """Return whether the processes of a search have carried it to its end."""
    second = _second(study)
    return bool(second and second.user_attrs.get(OVER))


def _second(study: optuna.Study) -> optuna.Study | None:
    """Return the second study of a search, ``None`` if it had no workers."""
    name, storage = f"{study.study_name}{SUFFIX}", study._storage
    if name not in optuna.get_all_study_names(storage):
        return None
    return optuna.load_study(study_name=name, storage=storage)


def _member(trial: FrozenTrial) -> Member:
    about = trial.user_attrs.get("about")
    return Member(
        trial.number,
        about if isinstance(about, dict) else {},
        trial.user_attrs.get("admitted") is True,
        str(trial.user_attrs.get("refused", "")),
    )
