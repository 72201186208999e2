"""A worker: takes orders of a search from its storage, runs and tells them.

If the coordinator is gone, one of the workers coordinates too, in a thread.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, get_type_hints

from optuna.exceptions import UpdateFinishedTrialError

from fp8tune.search import CannotSearch
from fp8tune.search.coordinator import Search
from fp8tune.search.local_workers import (
    gpus_of_this_process,
    same_gpu_note,
    worker_name,
)
from fp8tune.search.machine import check_worker_gpu
from fp8tune.search.members import BEAT_S, Members
from fp8tune.search.objective import ENERGY
from fp8tune.search.options import SearchOptions
from fp8tune.search.real_trials import (
    SCRATCH,
    RealTrials,
    real_trials,
    this_machine,
)
from fp8tune.search.saved_study import SavedStudy, described, load_study
from fp8tune.search.say import say
from fp8tune.search.storage import BadStudy
from fp8tune.search.strategy import build_strategy
from fp8tune.search.study import Study
from fp8tune.search.warm_start import kept_start
from fp8tune.search.workers import POLL_S, LeaseLost, NoStarter, Workers
from fp8tune.search.write.output import trial_result
from fp8tune.trials.runner import Runner

TERMINATED = 128 + signal.SIGTERM
"""Exit code of a worker that a signal ended."""
IDLE_S = 1.0
"""How often an idle worker looks for an order [s]."""


class Terminated(BaseException):
    """A signal asks this worker to leave: it gives its trial back."""


class TakenAway(BaseException):
    """The running trial does not count any more: the coordinator gave it back."""


def work(url: str, name: str) -> int:
    """Measure trials of a search until it is over; return the exit code.

    Raises ``CannotSearch`` if this machine cannot take part.
    """
    if (about := described(name, url)) is not None and "config" not in about:
        raise CannotSearch(f"the search of study {name} has not begun; try again")
    saved = load_study(name, url)
    study = Study(saved.plan.space, name, url, reads=False)
    members = Members(study.storage, study.optuna.study_name, study.place)
    run = members.run
    if not run:
        raise CannotSearch(f"study {name} takes no workers; {HOW}")
    if members.over:
        _say(f"the search of study {name} is over; {AGAIN}")
        return 0
    members.beat_s = float(run.get("beat_s", BEAT_S))
    options = options_of(run)
    watts = options.objective == ENERGY
    machine = this_machine(options.device, watts=watts, ranks=options.ranks)
    check_worker_gpu(machine)
    trials = real_trials(options, saved.plan.config, machine)
    worker = Worker(url, saved, study, members, trials)
    with _signals(worker):
        try:
            return worker.work()
        except Terminated:
            return TERMINATED


HOW = "start the search with --workers, --gpus or --slurm"
AGAIN = "the command that started it continues it, with a larger --budget"


class Worker:
    """This process as a worker of a search."""

    def __init__(
        self,
        url: str,
        saved: SavedStudy,
        study: Study,
        members: Members,
        trials: RealTrials,
    ) -> None:
        self._url = url
        self._saved = saved
        self._study = study
        self._members = members
        self._trials = trials
        self._name = ""
        self._running = self._taken_away = -1
        self._looks_at = 0.0
        self._coordinating: threading.Thread | None = None

    def work(self) -> int:
        """Register, and run orders until the search is over; return the exit code."""
        about = {"role": "worker", "environment": self._trials.environment}
        name = _name(self._trials.options.device)
        if note := same_gpu_note(name, self._members.others()):
            _say(note)
        with self._members.joined({**about, "name": name}, self._on_beat):
            self._name = name
            self._wait_for_admission()
            with tempfile.TemporaryDirectory(prefix=SCRATCH) as scratch:
                runner = self._trials.runner(scratch)
                try:
                    while not self._members.over:
                        if self._members.rejoin_if_lost():
                            self._wait_for_admission()
                        self._next(runner)
                finally:
                    runner.close()
        _say("the search is over")
        return 0

    def _wait_for_admission(self) -> None:
        _say(f"{self._name}: waits for the coordinator of {self._saved.name}")
        while not self._members.over:
            own = self._members.state()
            if own and own.refused:
                raise CannotSearch(f"this worker cannot take part: {own.refused}")
            if own and own.admitted:
                return
            self._members.was_lost |= own is None
            self._coordinate_if_nobody_does()
            self._members.rejoin_if_lost()
            time.sleep(POLL_S)

    def _next(self, runner: Runner) -> None:
        """Run the next order, if there is one."""
        claimed = self._study.claim(self._members.number, self._name)
        if claimed is None:
            self._coordinate_if_nobody_does()
            time.sleep(IDLE_S)
            return
        number, order = claimed
        try:
            self._running = number
            _say(f"trial {number}: {order.reason}")
            record = order.run(runner)
            self._running = -1
            place = {**order.place(record), "worker": self._name}
            trial = self._study.tell(number, record, **place)
            _say(f"trial {number}: {trial_result(trial)}")
        except (TakenAway, UpdateFinishedTrialError):
            _say(f"trial {number} was given to another worker; its result is dropped")
        except BaseException:
            self._study.lose(number)
            _say(f"stopped; trial {number} is given back")
            raise
        finally:
            self._running = -1

    def drop(self) -> None:
        """Stop the trial that was taken away; called by a signal handler.

        Another one may run by now, or that one is being stopped already.
        """
        if self._running >= 0 and self._running == self._taken_away:
            self._running = -1
            raise TakenAway

    def _on_beat(self) -> None:
        """End the running trial if it was taken away; called by the heartbeat."""
        if (running := self._running) >= 0 and self._study.has_ended(running):
            self._taken_away = running
            main = threading.main_thread().ident
            assert main is not None
            signal.pthread_kill(main, signal.SIGUSR1)

    def _coordinate_if_nobody_does(self) -> None:
        """Coordinate the search in a thread, if no other process does."""
        thread, now = self._coordinating, time.monotonic()
        if (thread and thread.is_alive()) or now < self._looks_at:
            return
        self._looks_at = now + self._members.beat_s
        if not self._members.leads():
            return
        _say("coordinates the search: its coordinator is gone")
        self._coordinating = threading.Thread(target=self._coordinate, daemon=True)
        self._coordinating.start()

    def _coordinate(self) -> None:
        try:
            coordinate(self._url, self._saved, self._members, self._trials)
        except LeaseLost:
            _say("another process coordinates the search again")
        except Exception as error:
            _say(f"cannot coordinate the search: {type(error).__name__}: {error}")
            self._members.end()


def coordinate(
    url: str, saved: SavedStudy, members: Members, trials: RealTrials
) -> None:
    """Coordinate a search whose coordinator is gone; raises ``LeaseLost``.

    The command of the search then finds it over, and writes the answer. That command
    may have had other options, such as a larger budget, since this worker started.
    """
    options, plan = options_of(members.run), saved.plan
    study = Study(plan.space, saved.folder, url)
    study.process = int(members.run.get("process", 0))
    start, objective = kept_start(study.about), options.objective
    pool = Workers(study, members, NoStarter())
    if pool.lead():
        Search(
            plan.space,
            plan.baseline,
            pool,
            strategy=build_strategy(plan, study, start, objective, options.sampler),
            study=study,
            budget_s=options.budget_s,
            objective=objective,
            conditions=trials.conditions,
        ).run()


def options_of(run: dict[str, Any]) -> SearchOptions:
    """Return the options of a running search; raises ``BadStudy``."""
    fields = run.get("options")
    kept = dict(fields) if isinstance(fields, dict) else {}
    for name in ("allow", "overrides"):
        kept[name] = tuple(map(str, kept.get(name) or ()))
    types = get_type_hints(SearchOptions)
    plain = {n: kind for n, kind in types.items() if n not in ("allow", "overrides")}
    wrong = [n for n, kind in plain.items() if not isinstance(kept.get(n), kind)]
    if wrong or len(kept) > len(types):
        odd = wrong[0] if wrong else "more options than it has"
        raise BadStudy(f"this version cannot read how the search runs: {odd}")
    return SearchOptions(**kept)


def _name(device: str) -> str:
    """Return the name of a worker: its host, GPU or process, and Slurm job.

    The job is named as ``scancel`` takes it, ``12_3`` in an array.
    """
    array, task = (os.environ.get(f"SLURM_ARRAY_{n}_ID", "") for n in ("JOB", "TASK"))
    job = f"{array}_{task}" if array else os.environ.get("SLURM_JOB_ID", "")
    gpus = gpus_of_this_process(os.environ)
    name = worker_name(gpus if device == "cuda" else None, os.getpid())
    return name + f" of job {job}" * bool(job)


@contextmanager
def _signals(worker: Worker) -> Iterator[None]:
    """Leave on SIGTERM, SIGINT and SIGHUP; drop the trial on SIGUSR1."""

    def leave(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    def drop(_number: int, _frame: FrameType | None) -> None:
        worker.drop()

    signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    handlers = {**dict.fromkeys(signals, leave), signal.SIGUSR1: drop}
    before = {number: signal.signal(number, does) for number, does in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(text: str) -> None:
    say(f"fp8tune worker: {text}", sys.stderr)
