"""A worker in this process: signals, lost trials, and a search that it takes over."""

import contextlib
import os
import signal
import threading
import time
from types import SimpleNamespace

import pytest
from optuna.trial import TrialState

from fp8tune.job import Target
from fp8tune.search import CannotSearch
from fp8tune.search.members import Members
from fp8tune.search.options import SearchOptions
from fp8tune.search.plan import plan_for_trials, read_config
from fp8tune.search.saved_study import SavedStudy
from fp8tune.search.storage import open_storage
from fp8tune.search.study import STALE, Study
from fp8tune.search.worker import Terminated, Worker, _signals
from fp8tune.trials.record import Record
from fp8tune.trials.runner import TrialLimits
from tests.conftest import REPOSITORY
from tests.search.tries import BEST, GIVEN, OTHER, SPACE, order

BEAT_S = 0.1
LONG_S = 60.0
"""How long a trial sleeps that is not meant to end by itself, and a test waits [s]."""

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")


@pytest.fixture
def place(tmp_path):
    return str(tmp_path / "study.journal")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    for name in ("workers.POLL_S", "worker.POLL_S", "worker.IDLE_S"):
        monkeypatch.setattr(f"fp8tune.search.{name}", 0.02)
    monkeypatch.setattr("fp8tune.search.workers.LOOK_S", 0.1)
    # nobody counts as lost on a machine that has other work
    monkeypatch.setattr("fp8tune.search.members.MISSED", 600)


class Sleeping:
    """A runner whose trials sleep until their deadlines, and succeed."""

    def __init__(self):
        self.begun = []

    def run(self, knobs, limits):
        self.begun.append(knobs)
        threading.Event().wait(limits.deadline_s)
        return Record(knobs, "ok", 100.0, (10.0, 10.0), cost_s=limits.deadline_s)

    def close(self):
        pass


class Coordinator:
    """The process of a search, with one worker that runs in the main thread."""

    def __init__(self, place, options=None, space=SPACE):
        self.study = Study(space, "s", place)
        self.members = members(place)
        self.members.join({"role": "coordinator"})
        self.members.describe({"options": options and options._asdict()})
        assert self.members.leads()
        self.runner = Sleeping()

    def plans(self, point, seconds=0.0):
        """Store an order of a trial that takes so long; return its number."""
        limits = TrialLimits(seconds)
        return self.study.enqueue(order(point)._replace(limits=limits))

    def admits(self):
        """Wait for a worker that nobody has admitted, and admit it."""
        worker = wait_for(
            lambda: [one for one in self.members.others() if not one.admitted]
        )[0]
        self.members.admit(worker.number)
        return worker

    def ends(self, number):
        """Wait until a trial has ended."""
        wait_for(lambda: self.study.has_ended(number))

    def told(self):
        """Return the outcome of each trial, ``None`` for one that is lost."""
        ended = self.study.refresh()
        return {n: trial and trial.record.outcome for n, trial in ended.items()}


def members(place):
    return Members(open_storage(place, create=True), "s", place, BEAT_S)


def wait_for(condition):
    until = time.monotonic() + LONG_S
    while not (found := condition()):
        assert time.monotonic() < until
        time.sleep(0.02)
    return found


@contextlib.contextmanager
def at_the_same_time(coordinator, acts):
    """Let a coordinator act in a thread; the search is over when it has."""
    errors = []

    def act():
        try:
            acts()
        except BaseException as error:
            errors.append(error)
        finally:
            coordinator.members.end()

    thread = threading.Thread(target=act)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    assert errors == []


def work(coordinator, kind=Study, plan=None, budget="1h"):
    """Run a worker as ``fp8tune worker`` does; return its exit code."""
    place = coordinator.study.place
    trials = SimpleNamespace(
        options=SearchOptions("train.toml", budget, device="cpu"),
        environment={"machine": "H200"},
        conditions=None,
        runner=lambda _scratch: coordinator.runner,
    )
    study = kind(coordinator.study.space, "s", place, reads=False)
    saved = SavedStudy("s", {}, plan, [])
    worker = Worker(place, saved, study, members(place), trials)
    with _signals(worker):
        return worker.work()


def test_it_runs_orders_until_the_search_is_over(place, capsys):
    coordinator = Coordinator(place)

    def acts():
        coordinator.admits()
        for point in (GIVEN, BEST):
            coordinator.ends(coordinator.plans(point))

    with at_the_same_time(coordinator, acts):
        assert work(coordinator) == 0
    assert coordinator.told() == {0: "ok", 1: "ok"}
    assert coordinator.members.others() == []
    lines = capsys.readouterr().err.splitlines()
    assert [line.removeprefix("fp8tune worker: ") for line in lines[-5:]] == [
        "trial 0: in order",
        "trial 0: 100 tokens/s, 0 s",
        "trial 1: in order",
        "trial 1: 100 tokens/s, 0 s",
        "the search is over",
    ]


def test_a_signal_makes_it_give_its_trial_back(place, capsys):
    coordinator = Coordinator(place)

    def acts():
        coordinator.admits()
        coordinator.plans(BEST, LONG_S)
        wait_for(lambda: coordinator.runner.begun)
        os.kill(os.getpid(), signal.SIGTERM)
        coordinator.ends(0)

    with at_the_same_time(coordinator, acts), pytest.raises(Terminated):
        work(coordinator)
    assert coordinator.told() == {0: None}
    assert coordinator.members.others() == []
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == "fp8tune worker: stopped; trial 0 is given back"


def test_a_trial_that_is_taken_away_ends_and_the_next_one_begins(place, capsys):
    coordinator = Coordinator(place)

    def acts():
        coordinator.admits()
        coordinator.plans(BEST, LONG_S)
        wait_for(lambda: coordinator.runner.begun)
        coordinator.study.lose(0)
        coordinator.ends(coordinator.plans(OTHER))

    with at_the_same_time(coordinator, acts):
        work(coordinator)
    assert coordinator.told() == {0: None, 1: "ok"}
    said = "trial 0 was given to another worker; its result is dropped"
    assert said in capsys.readouterr().err


def test_a_late_answer_about_one_trial_does_not_end_the_next(place):
    coordinator = Coordinator(place)
    asked = threading.Event()

    class Late(Study):
        """A study whose storage takes until the next trial to answer."""

        def has_ended(self, number):
            if not asked.is_set():
                asked.set()
                wait_for(lambda: len(coordinator.runner.begun) == 2)
            return super().has_ended(number)

    class First(Sleeping):
        """A runner whose first trial lasts until somebody asks about it."""

        def run(self, knobs, limits):
            found = super().run(knobs, limits)
            asked.wait(LONG_S)
            return found

    def acts():
        coordinator.admits()
        coordinator.plans(GIVEN)
        coordinator.plans(BEST, 5 * BEAT_S)
        coordinator.ends(1)

    coordinator.runner = First()
    with at_the_same_time(coordinator, acts):
        work(coordinator, kind=Late)
    assert coordinator.told() == {0: "ok", 1: "ok"}


def test_it_joins_once_more_after_it_was_lost(place):
    coordinator, numbers = Coordinator(place), []

    def acts():
        for _ in range(2):
            numbers.append(coordinator.admits().number)
            coordinator.ends(coordinator.plans(BEST))
            coordinator.members.declare_lost(numbers[-1])

    with at_the_same_time(coordinator, acts):
        work(coordinator)
    assert coordinator.told() == {0: "ok", 1: "ok"}
    assert numbers == sorted(set(numbers))


def test_it_says_why_it_is_refused(place):
    coordinator = Coordinator(place)

    def acts():
        (worker,) = wait_for(coordinator.members.others)
        coordinator.members.admit(worker.number, "its machine is 'H100'")
        wait_for(lambda: not coordinator.members.others())

    why = "this worker cannot take part: its machine is 'H100'"
    with at_the_same_time(coordinator, acts), pytest.raises(CannotSearch, match=why):
        work(coordinator)


def test_it_coordinates_with_the_options_that_the_study_holds(place, capsys):
    path = REPOSITORY / "configs" / "rehearsal_cpu.toml"
    config = read_config(str(path), path.read_bytes(), Target("", 1))
    plan = plan_for_trials(config, (), "cpu")
    options = SearchOptions("train.toml", "1h", device="cpu")
    coordinator = Coordinator(place, options, plan.space)
    coordinator.runner.run = lambda knobs, _limits: Record(
        knobs, "ok", 100.0, (10.0, 10.0), cost_s=1.0, rehearsal=True
    )
    coordinator.members.leave()
    assert work(coordinator, plan=plan, budget="1s") == 0
    ended = coordinator.study.refresh().values()
    assert {trial.stage for trial in ended} >= {"baseline", "search"}
    states = {trial.state for trial in coordinator.study.optuna.trials}
    assert states == {TrialState.COMPLETE}
    assert not [t for t in coordinator.study.optuna.trials if STALE in t.system_attrs]
    assert coordinator.members.over
    said = "fp8tune worker: coordinates the search: its coordinator is gone"
    assert said in capsys.readouterr().err.splitlines()
