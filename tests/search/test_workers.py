"""A search whose trials run on workers that share its storage."""

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from types import SimpleNamespace

import pytest

from fp8tune.runners.replay import Replay
from fp8tune.search.coordinator import Search
from fp8tune.search.members import Member, Members, are_alive
from fp8tune.search.options import SearchOptions
from fp8tune.search.saved_study import SavedStudy
from fp8tune.search.stop import Stop
from fp8tune.search.storage import BadStudy, open_storage
from fp8tune.search.strategy import PlannedTrial
from fp8tune.search.study import STALE, Study
from fp8tune.search.worker import Terminated, Worker
from fp8tune.search.workers import (
    UNFINISHED,
    NoStarter,
    NoWorkers,
    Workers,
    how_to_end,
)
from fp8tune.trials.runner import TrialLimits
from tests.each import each
from tests.search.test_coordinator import RECORDS, searched
from tests.search.tries import (
    BEST,
    GIVEN,
    OTHER,
    SPACE,
    InOrder,
    order,
    ran,
    space_of,
)

BEAT_S = 0.3
HERE = {"machine": "H200", "torch": "2.13.0"}

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")


@pytest.fixture
def place(tmp_path):
    return str(tmp_path / "study.journal")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    for name in ("workers.POLL_S", "worker.POLL_S", "worker.IDLE_S"):
        monkeypatch.setattr(f"fp8tune.search.{name}", 0.02)
    monkeypatch.setattr("fp8tune.search.workers.LOOK_S", 0.1)
    named = threading.current_thread
    monkeypatch.setattr("fp8tune.search.worker._name", lambda _device: named().name)


def members(place):
    return Members(open_storage(place, create=True), "s", place, BEAT_S)


class Each(InOrder):
    """Proposes each point that neither ran nor runs."""

    def __init__(self, study, *points):
        super().__init__(*points)
        self.study = study

    def propose(self, trials):
        taken = [trial.record.knobs for trial in trials]
        taken += [one.knobs for _, one in self.study.orders(*UNFINISHED)]
        left = [p for p in self.points if SPACE.values(p) not in taken]
        return PlannedTrial(left[0], "search", "in order") if left else None


class WorkerThread(threading.Thread):
    """A worker with recorded trials; ``dies`` with the first trial that it takes.

    With ``after`` it begins when that worker has died.
    """

    def __init__(self, place, name, *, dies=False, after=None):
        super().__init__(name=name, daemon=True)
        self.place, self.dies, self.after = place, dies, after
        self.members = members(place)
        self.has_died, self.is_over = threading.Event(), threading.Event()

    def run(self):
        if self.after:
            self.after.has_died.wait()
        trials = SimpleNamespace(
            options=SearchOptions("train.toml", "2h"),
            environment=HERE,
            runner=lambda _scratch: SimpleNamespace(
                run=self.run_trial, close=lambda: None
            ),
        )
        self.runner = Replay(RECORDS, space_of(RECORDS))
        study = Study(SPACE, "s", self.place, reads=False)
        saved = SavedStudy("s", {}, None, [])
        with contextlib.suppress(Terminated):
            Worker(self.place, saved, study, self.members, trials).work()

    def run_trial(self, knobs, limits):
        if not self.dies:
            return self.runner.run(knobs, limits)
        self.members.number = 1 << 20  # no more beats, and no leave-taking
        self.has_died.set()
        self.is_over.wait()
        raise Terminated


def coordinated(place, workers, points=(OTHER, BEST), budget_s=7200.0):
    """Search on these workers; return the answer and the study."""
    study = Study(SPACE, "s", place)
    own = members(place)
    with own.joined({"role": "coordinator"}):
        pool = Workers(study, own, NoStarter(), {"beat_s": BEAT_S})
        assert pool.lead()
        for worker in workers:
            worker.start()
        strategy = Each(study, *points)
        search = Search(space_of(RECORDS), GIVEN, pool, strategy, study, budget_s)
        found = search.run()
    for worker in workers:
        worker.is_over.set()
        worker.join(10)
        assert not worker.is_alive()
    return found, study


def test_workers_find_what_a_search_by_itself_finds(place):
    alone = searched()[1]
    workers = [WorkerThread(place, f"w{number}") for number in range(2)]
    found, study = coordinated(place, workers)
    assert (found.chosen, found.verdict) == (alone.chosen, alone.verdict)
    assert found.speed.fp8_gain.value == alone.speed.fp8_gain.value
    assert [t.number for t in study.trials] == list(range(found.trials))
    confirmed = {t.worker for t in study.trials if t.stage == "confirm"}
    assert len(confirmed) == 1
    assert {t.worker for t in study.trials} <= {"w0", "w1"}


def test_a_trial_of_a_killed_worker_is_given_back_and_run_again(place):
    killed = WorkerThread(place, "killed", dies=True)
    lives = WorkerThread(place, "lives", after=killed)
    found, study = coordinated(place, [killed, lives])
    assert (found.chosen, found.verdict) == (BEST, "faster")
    (lost,) = [t.number for t in study.optuna.trials if STALE in t.system_attrs]
    assert lost not in [trial.number for trial in study.trials]
    assert study.optuna.trials[lost].state.name == "FAIL"
    assert {t.worker for t in study.trials if t.stage == "confirm"} == {"lives"}
    stages = [trial.stage for trial in study.trials]
    assert stages.count("baseline") == 1


def leading(place, starter=None):
    """A pool of this process, which coordinates and does not beat."""
    own = members(place)
    own.join({"role": "coordinator"})
    pool = Workers(Study(SPACE, "s", place), own, starter or NoStarter(), {})
    assert pool.lead()
    return pool, own


def test_a_worker_that_beats_and_hangs_is_lost_with_its_trial(
    place, monkeypatch, capsys
):
    monkeypatch.setattr("fp8tune.search.workers.OVERRUN_S", 0.0)
    pool, own = leading(place)
    hangs = members(place)
    about = {"role": "worker", "name": "w1", "environment": HERE}
    with own.joined({"role": "coordinator"}), hangs.joined(about):
        assert pool.lead()
        pool.wait()  # it came
        number = pool.start(order(BEST)._replace(limits=TrialLimits(0.1, 0.2)))
        assert Study(SPACE, "s", place).claim(hangs.number, "w1")[0] == number
        assert pool.wait() == [(number, None)]
        assert (hangs.state(), pool.has_room()) == (None, True)
        pool._look()
        assert pool.workers == []
    said = f"note: w1 hangs: trial {number} had to end after 0 s"
    assert said in capsys.readouterr().err.splitlines()


def test_a_setting_in_which_workers_are_lost_again_has_failed(place):
    pool, _ = leading(place)
    worker = Study(SPACE, "s", place)

    def ends(*, gives_back=False):
        """Let a worker take the order and end; return what becomes of its trial."""
        number = pool.start(order(BEST))
        worker.claim(99, "gone")
        if gives_back:
            worker.lose(number)
        ((_, trial),) = pool.wait()
        return trial and (trial.record.outcome, trial.record.message)

    assert [ends(gives_back=True), ends(), ends(gives_back=True)] == [None] * 3
    failed = "its worker was lost, as in 1 earlier trial of this setting"
    again = "its worker was lost, as in 2 earlier trials of this setting"
    assert [ends(), ends()] == [("launch", failed), ("launch", again)]
    told = Study(SPACE, "s", place).trials
    assert [trial.record.message for trial in told] == [failed, again]
    pool._study.take_up()
    pool._study.take_up()  # the user typed the command again
    assert ends() is None


class Started(NoStarter):
    """A starter that notes whether its workers were stopped."""

    stopped = False

    def stop(self):
        self.stopped = True


def test_workers_are_stopped_if_the_storage_fails_at_the_end(place, monkeypatch):
    starter = Started()
    pool, _ = leading(place, starter)
    pool.start(order(BEST))

    def fail(_number):
        raise BadStudy("no space left")

    monkeypatch.setattr(pool._study, "lose", fail)
    with pytest.raises(BadStudy, match="no space left"):
        pool.close()
    assert starter.stopped


def test_who_has_lost_the_lease_does_not_end_the_search(place, capsys):
    starter = Started()
    pool, own = leading(place, starter)
    number = pool.start(order(BEST))
    other, _ = members(place), own.leave()
    other.join({"role": "worker"})
    assert other.leads()
    pool.close()
    assert (starter.stopped, own.over) == (False, False)
    assert not pool._study.has_ended(number)
    said = "note: another process coordinates the search now; to end it, type: kill "
    assert said in capsys.readouterr().err


def test_a_worker_that_measures_with_something_else_is_refused(place):
    other = {"machine": "H100", "torch": "2.13.0"}
    first, second = members(place), members(place)
    first.join({"role": "worker", "environment": HERE})
    second.join({"role": "worker", "environment": other})
    own = members(place)
    own.join({"role": "coordinator"})
    pool = Workers(Study(SPACE, "s", place), own, NoStarter(), {})
    assert pool.lead()
    assert pool.wait() == []  # a worker came
    why = "its machine is 'H100', this search measures with 'H200'"
    assert [one.state().refused for one in (first, second)] == ["", why]
    assert [member.number for member in pool.workers] == [first.number]


def test_no_worker_and_none_to_come(place):
    class Failed(NoStarter):
        def poll(self):
            return "all workers ended: no GPU"

    own = members(place)
    own.join({"role": "coordinator"})
    pool = Workers(Study(SPACE, "s", place), own, Failed(), {})
    assert pool.lead()
    with pytest.raises(NoWorkers, match="all workers ended: no GPU"):
        pool.wait()


def test_the_time_without_a_worker_is_not_charged(place):
    own = members(place)
    own.join({"role": "coordinator"})
    pool = Workers(Study(SPACE, "s", place), own, NoStarter(), {})
    assert pool.lead()
    time.sleep(0.2)
    assert (pool.now(), pool.has_room()) == (0.0, False)
    one = members(place)
    one.join({"role": "worker", "environment": HERE})
    pool.wait()
    time.sleep(0.2)
    assert pool.now() >= 0.2
    assert pool.has_room()


def test_who_waits_sees_the_trials_and_ctrl_c_leaves_the_search_running(place, capfd):
    other, own = members(place), members(place)
    stop = Stop()
    with other.joined({"role": "worker", "name": "w1"}):
        other.describe({"beat_s": BEAT_S})
        assert other.leads()
        study = Study(SPACE, "s", place)
        pool = Workers(study, own, NoStarter(), {})
        stop.waits = lambda: pool.waits
        record = Study(SPACE, "s", place).add("baseline", ran(GIVEN), worker="w1")
        seen = []

        def see(trial):
            seen.append((trial.number, trial.worker))
            os.kill(os.getpid(), signal.SIGINT)

        with own.joined({"role": "coordinator"}), stop.takes_signals():
            with pytest.raises(KeyboardInterrupt):
                pool.lead(see)
            assert stop.leaves
            pool.leave()
        assert are_alive(study.optuna)
    assert (record.number, seen) == (0, [(0, "w1")])
    host = socket.gethostname()
    assert capfd.readouterr().err.splitlines()[-2:] == [
        "fp8tune: the search goes on, this command ends; Ctrl-C again stops now",
        f"note: the search goes on; to end it, type: kill {os.getpid()} (on {host})",
    ]


def test_a_search_whose_budget_is_spent_starts_no_worker(place):
    class Refusing(NoStarter):
        def start(self):
            raise AssertionError

    study, own = Study(SPACE, "s", place), members(place)
    study.add("baseline", ran(GIVEN, cost_s=60.0))
    own.join({"role": "coordinator"})
    pool = Workers(study, own, Refusing(), {"beat_s": BEAT_S})
    assert pool.lead()
    search = Search(space_of(RECORDS), GIVEN, pool, InOrder(OTHER), study, 60.0)
    assert search.run().trials == 1
    assert own.over


def test_a_process_of_this_machine_that_was_killed_is_not_named():
    with subprocess.Popen(["true"]) as ended:
        pass
    host = socket.gethostname()
    every = [
        Member(0, {"host": host, "pid": pid}, admitted=True, refused="")
        for pid in (ended.pid, os.getpid())
    ]
    assert how_to_end(every) == f"to end it, type: kill {os.getpid()} (on {host})"


@each(
    ("members", "said"),
    [
        ([], "none of its processes is left, so the same command continues it"),
        (
            [("a GPU 0 of job 12_0", "a", 7), ("b GPU 0 of job 12_1", "b", 8)],
            "to end it, type: scancel 12",
        ),
        (
            [("", "login", 5), ("a", "a", 7), ("a", "a", 8), ("a of job 3", "n", 9)],
            "to end it, type: scancel 3, kill 5 (on login), kill 7 8 (on a)",
        ),
        (
            [("x of job 1;rm", "a", 0), ("", "a", "-1"), ("", "a", 7)],
            "to end it, type: kill 7 (on a)",
        ),
        (
            [("", f"n{number}", 7) for number in range(10)],
            "to end it, type: "
            + ", ".join(f"kill 7 (on n{number})" for number in range(8))
            + ", the same on 2 more machines",
        ),
    ],
)
def test_how_a_search_of_others_is_ended(members, said):
    every = (
        Member(0, {"name": name, "host": host, "pid": pid}, admitted=True, refused="")
        for name, host, pid in members
    )
    assert how_to_end(every) == said


def test_a_coordinator_takes_up_the_orders_of_the_one_before(place):
    before = Study(SPACE, "s", place)
    before.add("search", ran(BEST, cost_s=60.0), at_s=10.0)
    before.enqueue(order(GIVEN, stage="baseline", at_s=5.0))
    own = members(place)
    own.join({"role": "coordinator"})
    study = Study(SPACE, "s", place)
    pool = Workers(study, own, NoStarter(), {})
    assert pool.lead()
    search = Search(space_of(RECORDS), GIVEN, pool, InOrder(OTHER), study, 7200.0)
    running = [(p.point, p.stage) for p in search.running.values()]
    assert running == [(GIVEN, "baseline")]
    assert search.budget.spent == pytest.approx(70.0, abs=1.0)
