"""The processes of a search: heartbeats, the lease, and who gets an order."""

import threading
import time

import pytest
from optuna.trial import TrialState

from fp8tune.search.members import MISSED, Members, are_alive
from fp8tune.search.storage import open_storage
from fp8tune.search.study import Study
from tests.search.tries import BEST, GIVEN, OTHER, SPACE, order, ran

BEAT_S = 0.1
SILENT_S = MISSED * BEAT_S

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")


@pytest.fixture
def place(tmp_path):
    """A storage that several processes may open."""
    return str(tmp_path / "study.journal")


def member(place, role="worker"):
    """A process with a connection of its own, which does not beat by itself."""
    one = Members(open_storage(place, create=True), "s", place, BEAT_S)
    one.join({"role": role})
    return one


def at_once(*calls):
    """Make calls in threads at the same time; return the answers in order."""
    answers, start = [None] * len(calls), threading.Barrier(len(calls))

    def run(index):
        start.wait()
        answers[index] = calls[index]()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def wait_for(condition):
    """Look again and again, as a process does, until a condition holds."""
    until = time.monotonic() + 100 * SILENT_S
    while not condition():
        assert time.monotonic() < until
        time.sleep(BEAT_S)


def test_one_of_many_gets_the_lease(place):
    members = [member(place) for _ in range(5)]
    assert sum(at_once(*(one.leads for one in members))) == 1
    assert sum(one.leads() for one in members) == 1


def test_a_holder_that_leaves_frees_the_lease(place):
    first, second = member(place), member(place)
    assert (first.leads(), second.leads()) == (True, False)
    first.leave()
    assert second.leads()


def test_a_silent_holder_loses_the_lease_and_learns_it(place):
    first, *others = [member(place) for _ in range(3)]
    assert first.leads()
    wait_for(lambda: any(one.leads() for one in others))
    assert [one.leads() for one in (first, *others)].count(True) == 1
    assert not first.leads()


def test_a_holder_that_beats_keeps_the_lease(place):
    first, second = member(place, "coordinator"), member(place)
    with first.joined({"role": "coordinator"}):
        assert first.leads()
        until = time.monotonic() + 3 * SILENT_S
        while time.monotonic() < until:
            assert not second.leads()
            time.sleep(BEAT_S)


def test_who_is_silent_is_lost_and_who_beats_is_not(place):
    watching, silent, beating = (member(place) for _ in range(3))
    with beating.joined({"role": "worker", "name": "b"}):
        wait_for(lambda: silent.number not in watching.alive())
        assert watching.alive()[beating.number].name == "b"
        assert silent.state() is None
    assert beating.number not in watching.alive()


def test_who_was_lost_and_lives_joins_again(place):
    watching, stopped = member(place), member(place)
    wait_for(lambda: stopped.number not in watching.alive())
    before = stopped.number
    with stopped.joined({"role": "worker"}):
        watching.admit(stopped.number)
        watching._finish(stopped._trials("member")[-1], TrialState.FAIL)
        wait_for(lambda: stopped.was_lost)
        assert stopped.leads()
        assert stopped.number > before
        assert stopped.number in watching.alive()


def test_who_joins_again_slowly_joins_once(place, monkeypatch):
    watching, lost = member(place), member(place)
    create = lost._create

    def slowly(*values, **named):
        time.sleep(3 * BEAT_S)
        return create(*values, **named)

    with lost.joined({"role": "worker"}):
        watching.declare_lost(lost.number)
        wait_for(lambda: lost.was_lost)
        monkeypatch.setattr(lost, "_create", slowly)
        assert [lost.rejoin_if_lost() for _ in range(2)] == [True, False]
        assert [one.number for one in watching.others()].count(lost.number) == 1


def test_a_long_time_without_a_look_is_no_silence(place):
    watching, other = member(place), member(place)
    watching.alive()
    time.sleep(2 * SILENT_S)  # the database was away
    assert other.number in watching.alive()


def test_a_member_learns_whether_it_is_admitted(place):
    first, second = member(place), member(place)
    first.admit(first.number)
    first.admit(second.number, "its GPU is another one")
    told = [(one.state().admitted, one.state().refused) for one in (first, second)]
    assert told == [(True, ""), (False, "its GPU is another one")]


def test_how_a_search_runs_is_known_to_all(place):
    first, second = member(place), member(place)
    assert (second.run, second.over) == ({}, False)
    first.describe({"process": 3})
    first.environment = {"machine": "H200"}
    first.end()
    assert (second.run, second.over) == ({"process": 3}, True)
    assert second.environment == {"machine": "H200"}


def test_people_see_whether_a_study_is_searched(place):
    study = shared(place).optuna
    assert not are_alive(study)
    one = member(place)
    assert not are_alive(study)  # nobody has begun
    one.describe({"beat_s": 600.0})
    assert are_alive(study)
    one.describe({"beat_s": BEAT_S})
    time.sleep(2 * SILENT_S)
    assert not are_alive(study)
    with one.joined({"role": "worker"}):
        time.sleep(2 * SILENT_S)  # so that its first beat is too old
        wait_for(lambda: are_alive(study))
        one.end()
        assert not are_alive(study)


def shared(place):
    return Study(SPACE, "s", place)


def test_each_order_goes_to_one_worker(place):
    numbers = [shared(place).enqueue(order(point)) for point in (GIVEN, OTHER)]
    workers = [shared(place) for _ in range(4)]
    calls = (lambda w=w, n=n: w.claim(n, f"w{n}") for n, w in enumerate(workers))
    got = [claimed for claimed in at_once(*calls) if claimed]
    rest = (workers[0].claim(0, "w0"), workers[0].claim(0, "w0"))
    got += [claimed for claimed in rest if claimed]
    assert sorted(number for number, _ in got) == numbers
    assert {repr(taken) for _, taken in got} == {repr(order(p)) for p in (GIVEN, OTHER)}


def test_an_order_for_one_worker_waits_for_it(place):
    shared(place).enqueue(order(BEST, stage="confirm", worker="w1"))
    worker = shared(place)
    assert worker.claim(0, "w0") is None
    assert worker.claim(1, "w1")[1].worker == "w1"


def test_results_of_workers_are_read_by_the_number_of_their_trials(place):
    coordinator = shared(place)
    numbers = [coordinator.enqueue(order(p, at_s=1.0)) for p in (GIVEN, OTHER, BEST)]
    worker = shared(place)
    taken = [worker.claim(0, "w0") for _ in numbers]
    for number, one in reversed(taken[1:]):
        record = ran(SPACE.point(one.knobs), 100 + number)
        worker.tell(number, record, **one.place(record), worker="w0")
    worker.lose(numbers[0])
    ended = coordinator.refresh()
    assert {n: trial and trial.worker for n, trial in ended.items()} == {
        0: None,
        1: "w0",
        2: "w0",
    }
    seen = [(t.number, t.position, t.at_s) for t in coordinator.trials]
    assert seen == [(1, 0, 1.0), (2, 1, 1.0)]
    assert coordinator.refresh() == {}


def after_first_write(study, then, monkeypatch):
    """Call a function after the first attribute of a trial that a study writes."""
    left = [then]

    def wrapped(write):
        def written(*values):
            write(*values)
            if left:
                left.pop()()

        return written

    for name in ("set_trial_user_attr", "set_trial_system_attr"):
        monkeypatch.setattr(study.storage, name, wrapped(getattr(study.storage, name)))


def test_a_trial_that_is_told_and_lost_at_the_same_time_is_lost(place, monkeypatch):
    coordinator, worker = shared(place), shared(place)
    coordinator.enqueue(order(BEST))
    number, one = worker.claim(0, "w0")
    begun, half_lost = threading.Event(), threading.Event()

    def tell():
        worker.tell(number, ran(BEST), **one.place(ran(BEST)))

    def pause():
        begun.set()
        half_lost.wait()

    def finish_telling():
        half_lost.set()
        telling.join()

    after_first_write(worker, pause, monkeypatch)
    after_first_write(coordinator, finish_telling, monkeypatch)
    telling = threading.Thread(target=tell)
    telling.start()
    begun.wait()
    coordinator.lose(number)
    assert coordinator.refresh() == {number: None}


def test_a_result_of_a_trial_that_was_given_back_is_dropped(place):
    coordinator, worker = shared(place), shared(place)
    coordinator.enqueue(order(BEST))
    number, one = worker.claim(0, "w0")
    coordinator.lose(number)
    with pytest.raises(Exception, match="finished"):
        worker.tell(number, ran(BEST), **one.place(ran(BEST)))
    assert shared(place).trials == []
