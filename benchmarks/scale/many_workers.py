"""Real workers whose trials only sleep; some are killed, and others take their place.

The workers run the loop of ``fp8tune worker`` on the search's storage, each in its own
process. What they measure of it they append to a file, a JSON line for each trial.
"""

from __future__ import annotations

import contextlib
import json
import math
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from fp8tune.search.members import Members
from fp8tune.search.options import SearchOptions
from fp8tune.search.real_trials import RealTrials
from fp8tune.search.saved_study import SavedStudy
from fp8tune.search.study import Study
from fp8tune.search.worker import Worker
from fp8tune.trials.order import Order
from fp8tune.trials.record import LossRun, Record
from fp8tune.trials.runner import TrialLimits
from fp8tune.trials.space import Knob, Space
from fp8tune.trials.trial import Trial

STRAGGLERS, FAILURES = 0.05, 0.05
"""Shares of the trials that take 3 to 10 times as long, and that fail."""
STEPS = 40
"""Steps in a record."""
CARD_GIB = 80.0


def space_of(count: int) -> Space:
    """Return a space of at least ``count`` settings."""
    batches = tuple(range(1, math.ceil(count / 100) + 1))
    return Space(
        [
            Knob("train.batch_size", batches, "micro_batch"),
            Knob("train.activation_checkpointing", ("none", "full"), "ac"),
            Knob("train.compile_model", (False, True), "compile"),
            Knob("train.seed", tuple(range(25))),
        ]
    )


class Sleeping:
    """A runner whose trials sleep and succeed, fail or straggle by their settings.

    ``typical_s`` is how long most of them take [s]. ``begins`` is called as one begins.
    """

    def __init__(self, typical_s: float, begins: Callable[[], None]) -> None:
        self._typical_s = typical_s
        self._begins = begins

    def now(self) -> float:
        """Return seconds on this machine's clock."""
        return time.monotonic()

    def run(self, knobs: dict[str, Any], limits: TrialLimits) -> Record:
        """Sleep as long as the setting takes; return its record."""
        self._begins()
        draw = random.Random(str(sorted(knobs.items())))  # noqa: S311
        wanted = self._typical_s * draw.uniform(0.7, 1.3)
        kind = draw.random()
        if kind < STRAGGLERS:
            wanted *= draw.uniform(3.0, 10.0)
        seconds = min(wanted, limits.deadline_s)
        time.sleep(seconds)
        if seconds < wanted:
            return Record(knobs, "hang", cost_s=seconds)
        if kind > 1 - FAILURES:
            return Record(knobs, "oom", cost_s=seconds, message="out of memory")
        return Record(
            knobs,
            "ok",
            1000.0 * draw.uniform(1.0, 2.0),
            tuple(round(draw.uniform(90.0, 110.0), 3) for _ in range(STEPS)),
            peak_gib=60.0,
            reserved_gib=65.0,
            capacity_gib=CARD_GIB,
            cost_s=seconds,
            versions={"torch": "2.13.0", "torchao": "0.17.0", "fp8tune": "0"},
        )

    def train_for_losses(
        self, knobs: dict[str, Any], loss_run: LossRun, deadline_s: float
    ) -> Record:
        """Raise ``NotImplementedError``: no search here has loss runs."""
        raise NotImplementedError

    def close(self) -> None:
        """Do nothing: no process runs."""


class SleepingTrials(NamedTuple):
    """What a worker needs of ``RealTrials``."""

    options: SearchOptions
    typical_s: float
    begins: Callable[[], None]
    environment: dict[str, Any] = {}
    conditions: None = None

    def runner(self, _scratch: str) -> Sleeping:
        """Return the runner."""
        return Sleeping(self.typical_s, self.begins)


class TimedStudy(Study):
    """A study that notes what its worker waits for, one JSON line for each trial."""

    log = ""

    def note_begin(self) -> None:
        """Note that the trial that was claimed last begins."""
        self._write(begun=self._claimed)

    def claim(self, worker: int, name: str) -> tuple[int, Order] | None:
        """Claim; note how long an idle worker waited [s] and what polls cost."""
        wall, cpu = time.perf_counter(), time.thread_time()
        claimed = super().claim(worker, name)
        now, cpu = time.perf_counter(), time.thread_time() - cpu
        if claimed is None:
            self._polls += 1
            self._polls_cpu += cpu
            return None
        self._claimed = claimed[0]
        self._costs = {
            "claim_s": now - wall,
            "claim_cpu_s": cpu,
            "idle_s": now - self._idle_since,
            "polls": self._polls,
            "polls_cpu_s": self._polls_cpu,
        }
        return claimed

    def tell(self, number: int, record: Record, **place: Any) -> Trial:
        """Tell; note what the trial cost."""
        wall, cpu = time.perf_counter(), time.thread_time()
        trial = super().tell(number, record, **place)
        self._idle_since = time.perf_counter()
        self._costs["tell_s"] = self._idle_since - wall
        self._costs["tell_cpu_s"] = time.thread_time() - cpu
        self._costs["process_cpu_s"] = time.process_time() - self._cpu_before
        self._cpu_before = time.process_time()
        self._write(told=number, **self._costs)
        self._polls, self._polls_cpu = 0, 0.0
        return trial

    _claimed, _polls, _polls_cpu = -1, 0, 0.0
    _costs: dict[str, float] = {}
    _idle_since = _cpu_before = 0.0

    def start_clock(self) -> None:
        """Begin to measure."""
        self._idle_since, self._cpu_before = time.perf_counter(), time.process_time()

    def _write(self, **what: Any) -> None:
        with open(self.log, "ab", buffering=0) as log:
            log.write(f"{json.dumps({'at': time.time(), **what})}\n".encode())


class ManyWorkers(NamedTuple):
    """How the workers of a search run.

    A worker chosen at random is killed every ``kill_s`` seconds (0: never), and a new
    one starts. ``log`` is the file of measurements.
    """

    url: str
    folder: str
    space: Space
    workers: int
    typical_s: float
    kill_s: float
    beat_s: float
    log: str

    def run(self, stop: Any) -> None:
        """Keep that many workers until the event ``stop``, or until they leave."""
        processes = [self._started(stop) for _ in range(self.workers)]
        draw = random.Random(0)  # noqa: S311
        kill_at = time.monotonic() + 10 + self.kill_s
        parent = os.getppid()
        while not stop.is_set() and os.getppid() == parent:
            if not any(process.is_alive() for process in processes):
                break
            stop.wait(0.5)
            if self.kill_s and time.monotonic() > kill_at:
                kill_at += self.kill_s * draw.uniform(0.5, 1.5)
                place = draw.randrange(len(processes))
                if processes[place].is_alive():
                    processes[place].kill()
                    processes[place].join()
                    processes[place] = self._started(stop)
        for process in processes:
            process.join(30)
            process.kill()

    def _started(self, stop: Any) -> multiprocessing.Process:
        process = multiprocessing.Process(target=self._work, args=(stop,))
        process.start()
        return process

    def _work(self, _stop: Any) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.nice(10)  # real workers run on other machines than the coordinator
        with open(f"{self.log}.txt", "a") as words, contextlib.redirect_stderr(words):
            study = TimedStudy(self.space, self.folder, self.url, reads=False)
            study.log = self.log
            members = Members(study.storage, study.optuna.study_name, study.place)
            members.beat_s = self.beat_s
            options = SearchOptions("scale", "1h", device="cpu")
            trials = SleepingTrials(options, self.typical_s, study.note_begin)
            saved = SavedStudy(self.folder, {}, cast(Any, None), [])
            study.start_clock()
            worker = Worker(self.url, saved, study, members, cast(RealTrials, trials))
            worker.work()
