"""Processes that search one study; here each is a thread with a study of its own."""

import threading
import time

import pytest

from fp8tune.runners.replay import Replay
from fp8tune.search.loop import Search
from fp8tune.search.pool import NoWorkers, Peer, Watcher
from fp8tune.search.storage import BEAT
from fp8tune.search.study import Study, is_lost
from fp8tune.trials.order import PlannedTrial
from tests.search.test_loop import RECORDS, searched
from tests.search.tries import (
    BEST,
    GIVEN,
    OTHER,
    SPACE,
    InOrder,
    order,
    planned,
    ran,
    space_of,
)

BEAT_S = 0.3

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")


@pytest.fixture
def place(tmp_path):
    return str(tmp_path / "study.journal")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("fp8tune.search.pool.POLL_S", 0.02)


def opened(place):
    return Study(SPACE, "s", place, BEAT_S)


class Each(InOrder):
    """Proposes each point that neither ran nor runs."""

    def __init__(self, study, *points):
        super().__init__(*points)
        self.study = study

    def propose(self, trials, _rejects):
        taken = [SPACE.point(trial.record.knobs) for trial in trials]
        taken += [running.point for running in self.study.running.values()]
        left = [p for p in self.points if p not in taken]
        return PlannedTrial(left[0], "search", "in order") if left else None


class Sleeping(Replay):
    """Recorded trials that take a moment, so that others run beside them."""

    def run(self, knobs, limits):
        time.sleep(0.1)
        return super().run(knobs, limits)


def search_of(place, pool_of, events=None):
    study = opened(place)
    points = Each(study, OTHER, BEST)
    watch = events.append if events is not None else lambda _event: None
    return Search(
        space_of(RECORDS), GIVEN, pool_of(study), points, study, 7200.0, watch
    )


class PeerThread(threading.Thread):
    """A process that runs trials until nothing is left to run."""

    def __init__(self, place, name):
        super().__init__(name=name, daemon=True)
        runner = Sleeping(RECORDS, space_of(RECORDS))
        self.search = search_of(place, lambda study: Peer(study, runner, name))
        self.answer = None

    def run(self):
        self.answer = self.search.run()


class Started:
    """A starter of threads, which notes whether it was asked to stop them."""

    is_other = False

    def __init__(self, threads=()):
        self.threads, self.stopped, self.why = threads, False, ""

    def start(self):
        for each in self.threads:
            each.start()

    def poll(self):
        return self.why

    def stop(self):
        self.stopped = True


def test_peers_find_what_a_search_by_itself_finds(place):
    alone = searched()[1]
    peers = [PeerThread(place, f"w{number}") for number in range(3)]
    starter, events = Started(peers), []
    watching = search_of(place, lambda study: Watcher(study, starter), events)
    found = watching.run()
    for peer in peers:
        peer.join(30)
        assert peer.answer == found._replace(seconds=peer.answer.seconds)
    assert (found.chosen, found.verdict) == (alone.chosen, alone.verdict)
    assert found.measured.fp8_gain.value == alone.measured.fp8_gain.value
    assert starter.stopped
    trials = watching.study.trials
    assert [trial.number for trial in trials] == list(range(found.trials))
    assert {trial.worker for trial in trials} == {"w0", "w1", "w2"}
    first = [str(t.record.knobs) for t in trials if t.stage != "confirm"]
    assert sorted(set(first)) == sorted(first)
    ended = sorted(event.number for event in events if event.trial)
    assert ended == list(range(found.trials))


def lost(study, point):
    """Begin a trial whose process ends without a word; return its number."""
    number = study.ask(planned(point, worker="killed"))
    trial = study.optuna.trials[number]._trial_id
    study.optuna._storage.set_trial_system_attr(trial, BEAT, time.time() - 60)
    return number


def test_a_trial_of_a_killed_process_is_lost_and_its_setting_runs_again(place):
    before = opened(place)
    number = lost(before, BEST)
    peer = PeerThread(place, "lives")
    assert [each.point for each in peer.search.study.running.values()] == [BEST]
    peer.run()
    assert (peer.answer.chosen, peer.answer.verdict) == (BEST, "faster")
    study = peer.search.study
    assert [t.number for t in study.optuna.trials if is_lost(t)] == [number]
    assert number not in [trial.number for trial in study.trials]
    assert [t.stage for t in study.trials].count("baseline") == 1


def test_a_setting_in_which_processes_are_lost_again_has_failed(place):
    study = opened(place)

    def ends():
        """Lose a process in the middle of a trial; return what counts then."""
        lost(study, BEST)
        study.fail_lost()
        known = [trial for trial in study.refresh().values() if trial]
        return [(trial.record.outcome, trial.record.message) for trial in known]

    study.lose(study.ask(planned(BEST, worker="w1")))  # given back: that is no loss
    assert ends() == []
    failed = "its worker was lost, as in 1 earlier trial of this setting"
    again = "its worker was lost, as in 2 earlier trials of this setting"
    assert [ends(), ends()] == [[("launch", failed)], [("launch", again)]]
    study.take_up()
    study.take_up()  # the user typed the command again
    assert ends() == []


def test_a_result_that_came_too_late_is_dropped(place, capsys):
    class TakenAway(Replay):
        def run(self, knobs, limits):
            other = opened(place)
            other.optuna._storage.set_trial_system_attr(
                other.optuna.trials[0]._trial_id, BEAT, time.time() - 60
            )
            other.fail_lost()
            return super().run(knobs, limits)

    study = opened(place)
    pool = Peer(study, TakenAway(RECORDS, space_of(RECORDS)), "w1")
    pool.begin()
    number = pool.start(order(BEST, worker="w1"))
    study.optuna._storage._beat_s = 600.0  # it has slept since its last heartbeat
    assert pool.wait() == {number: None}
    pool.close()
    assert study.trials == []
    said = f"trial {number} counts as lost, as this process was silent for too long"
    assert said in capsys.readouterr().err


def test_nobody_is_left_and_something_to_run(place):
    starter = Started()
    watching = search_of(place, lambda study: Watcher(study, starter))
    starter.why = "all workers ended: no GPU"
    with pytest.raises(NoWorkers, match="all workers ended: no GPU"):
        watching.run()
    assert starter.stopped


def test_only_the_time_in_which_a_trial_runs_is_charged(place):
    study = opened(place)
    pool = Watcher(study, Started())
    time.sleep(0.2)
    assert pool.now() == 0.0
    study.ask(planned(BEST, worker="w1"))
    study.refresh()
    time.sleep(0.2)
    assert pool.now() >= 0.2


def test_a_search_whose_budget_is_spent_starts_nobody(place):
    class Refusing(Started):
        def start(self):
            raise AssertionError

    study = opened(place)
    study.add("baseline", ran(GIVEN, cost_s=60.0))
    pool = Watcher(study, Refusing())
    search = Search(space_of(RECORDS), GIVEN, pool, InOrder(OTHER), study, 60.0)
    assert search.run().trials == 1


def test_who_joins_goes_on_with_the_time_that_the_others_spent(place):
    before = opened(place)
    before.add("search", ran(BEST, cost_s=60.0), at_s=10.0, worker="w1")
    before.ask(planned(GIVEN, stage="baseline", at_s=75.0, worker="w2"))
    peer = PeerThread(place, "w3").search
    assert peer.budget.spent == pytest.approx(75.0, abs=1.0)
    peer._take({})
    running = [(p.point, p.stage) for p in peer.running.values()]
    assert running == [(GIVEN, "baseline")]
    assert peer.pool.goes_on(peer.running)


def test_one_process_at_a_time_plans(place):
    inside, seen = [], []

    def plan():
        with opened(place).planning():
            inside.append(1)
            seen.append(len(inside))
            time.sleep(0.05)
            inside.clear()

    threads = [threading.Thread(target=plan) for _ in range(4)]
    with opened(place).planning():
        for each in threads:
            each.start()
        time.sleep(0.1)
        assert seen == []
    for each in threads:
        each.join(10)
    assert seen == [1] * 4
