"""Failures of an earlier process: which of them count when a study is taken up."""

import pytest

from fp8tune.runners.replay import Replay
from fp8tune.search.anew import counting, in_vain, left_out, tries_anew
from fp8tune.search.closing import mending
from fp8tune.search.coordinator import Limits, Search
from fp8tune.search.recorded import alone
from fp8tune.search.study import Study, Trial
from tests.search.test_coordinator import BEST_TWIN, RECORDS
from tests.search.tries import BEST, GIVEN, OTHER, TWIN, InOrder, ran, space_of

DATA = {"message": "BadData: `a.bin` cannot be read: Permission denied"}
NEVER = {"stage_reached": "import", "message": "no CUDA"}
CUT = {"cut_off": True, "stage_reached": "import"}


def known(*told):
    """Trials of ``(process, point, outcome)`` and what more their records say."""
    return [
        Trial(i, "search", ran(point, outcome=outcome, more=dict(*more)), process)
        for i, (process, point, outcome, *more) in enumerate(told)
    ]


FAILED = ((0, GIVEN, "compile"), (0, BEST, "user"))


@pytest.mark.parametrize(
    ("told", "now", "counted"),
    [
        (FAILED, 0, [0, 1]),
        (FAILED, 1, []),
        ((*FAILED, (1, GIVEN, "compile")), 1, [0, 1, 2]),
        ((*FAILED, (1, GIVEN, "compile")), 2, []),
        ((*FAILED, (1, GIVEN, "ok")), 1, [2]),
        ((*FAILED, (1, GIVEN, "oom")), 1, [2]),
        ((*FAILED, (1, GIVEN, "ok")), 2, [2]),
        (((0, GIVEN, "nan"),), 1, [0]),
        (((0, GIVEN, "oom"),), 1, [0]),
        (((0, GIVEN, "launch", CUT),), 1, [0]),
        (((0, GIVEN, "compile"), (0, BEST, "launch", CUT)), 1, []),
        # once something ran, a setting is tried anew by one more process
        (((0, GIVEN, "ok"), (0, BEST, "hang")), 0, [0, 1]),
        (((0, GIVEN, "ok"), (0, BEST, "hang")), 1, [0]),
        (((0, GIVEN, "ok"), (0, BEST, "hang"), (1, BEST, "user")), 2, [0, 1, 2]),
        (((0, GIVEN, "ok"), (0, BEST, "hang"), (1, BEST, "ok")), 2, [0, 2]),
        (((0, GIVEN, "ok"), (0, BEST, "ok"), (0, BEST, "user")), 1, [0, 1, 2]),
        # and what says nothing of its setting by any
        (((0, GIVEN, "ok"), (0, GIVEN, "user", DATA)), 1, [0]),
        (((0, BEST, "ok"), (0, GIVEN, "launch", NEVER), (1, GIVEN, "hang")), 2, [0, 2]),
    ],
)
def test_which_trials_count(told, now, counted):
    assert [trial.number for trial in counting(known(*told), now)] == counted


def test_the_time_of_what_was_in_vain_is_given_back_until_it_fails_again():
    trials = known(*FAILED)
    assert (in_vain(trials, 0), in_vain(trials, 1)) == ([], trials)
    assert in_vain(known(*FAILED, (1, GIVEN, "compile")), 1) == []
    trials = known(*FAILED, (1, GIVEN, "ok"), (1, BEST, "user"))
    assert in_vain(trials, 1) == in_vain(trials, 2) == trials[:2]


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ([(0, GIVEN, "oom")], []),
        ([(0, GIVEN, "launch", CUT)], []),
        ([*FAILED, (1, GIVEN, "launch", CUT)], []),
        (FAILED, ["once that is mended, the same command tries your config anew"]),
        (
            [(0, GIVEN, "launch", NEVER)],
            [
                "fp8tune doctor says what is missing on this machine",
                "once that is mended, the same command tries your config anew",
            ],
        ),
    ],
)
def test_what_to_do_where_nothing_ran(told, said):
    assert list(mending(known(*told), rehearsed=False)) == said
    cpu = [line.replace("doctor ", "doctor --device cpu ") for line in said]
    assert list(mending(known(*told), rehearsed=True)) == cpu
    assert tries_anew(known(*told), 1) == bool(said)


def test_what_failed_once_beside_what_ran_is_counted():
    trials = known((0, GIVEN, "ok"), (0, BEST, "hang"), (0, OTHER, "oom"))
    assert (left_out(trials, 0), left_out(trials, 1)) == (0, 1)


def taken_up(study, records, budget=7200.0):
    """Take a study up and search on; its new stages, and the answer."""
    study.take_up()
    before, space = len(study.trials), space_of(RECORDS)
    runner, strategy = Replay(records, space), InOrder(OTHER, BEST)
    found = Search(space, GIVEN, runner, strategy, study, Limits(budget)).run()
    points = [(t.stage, space.point(t.record.knobs)) for t in study.trials[before:]]
    return points, found


POINTS = (GIVEN, TWIN, BEST, BEST_TWIN, OTHER)
MACHINE = [
    [ran(p, outcome="user", more=DATA) for p in POINTS],
    [ran(p, outcome="launch", more=NEVER) for p in POINTS],
    [ran(p, outcome="compile", cost_s=1000.0) for p in POINTS],
    [ran(p, outcome="hang", cost_s=1000.0) for p in POINTS],
]


@pytest.mark.parametrize("broken", MACHINE)
def test_a_machine_that_is_mended_is_searched_as_if_it_had_been_sound(broken):
    """With a fresh budget; while it is not, each process tries one trial."""
    study = Study("")
    first, found = taken_up(study, broken)
    assert (first[0], found.chosen) == (("given", GIVEN), None)
    for _ in range(2):
        again, found = taken_up(study, broken)
        assert (again, found.chosen) == ([("given", GIVEN)], None)
    sound, found = taken_up(study, RECORDS)
    expected, other = taken_up(Study(""), RECORDS)
    assert (sound, found.chosen) == (expected, BEST)
    assert found.seconds == other.seconds
    assert found.trials == len(study.trials)
    assert taken_up(study, broken)[0] == [], "what has ended answers at once"


def test_what_finds_no_time_left_takes_nothing_back():
    """The same command says again how the config failed, and all that follows."""
    failed = {p: ran(p, outcome="user", cost_s=100.0) for p in (GIVEN, OTHER)}
    records = [*failed.values(), *(ran(p, cost_s=100.0) for p in (BEST, BEST_TWIN))]
    study = Study("")
    first, found = taken_up(study, records, budget=302.0)
    assert len(first) > 2
    assert (found.given_outcome, found.chosen) == ("user", BEST)
    stages, again = taken_up(study, records, budget=302.0)
    assert stages == []
    assert again._replace(seconds=found.seconds) == found


def test_data_that_was_lost_on_the_way_and_is_back():
    """The config ran before, so that it is not tried again."""
    study = Study("")
    lost = [ran(OTHER, outcome="user", more=DATA), *RECORDS[:-1]]
    stages, found = taken_up(study, lost)
    assert (stages[-1], bool(found.wrong_data)) == (("search", OTHER), True)
    stages, found = taken_up(study, lost)
    assert ("given", GIVEN) not in stages
    stages, found = taken_up(study, RECORDS)
    assert (found.chosen, found.wrong_data) == (BEST, "")


def test_processes_are_told_apart_on_disk(tmp_path):
    study = Study(str(tmp_path / "s"))
    for _ in range(3):
        study.open({})
        study.take_up()
        study.add("given", ran(GIVEN, outcome="compile"))
    study.open({})
    assert [trial.process for trial in study.trials] == [0, 1, 2]
    assert all(trial.record.more == {} for trial in study.trials)


def test_a_replay_leaves_out_what_had_passed():
    failed = ran(GIVEN, outcome="user", more=DATA)
    passed = ran(GIVEN, more={"process": 1})
    other = ran(BEST, outcome="compile")
    assert alone([failed, other, passed]) == ([other, ran(GIVEN)], [])
    assert alone([passed, failed]) == ([ran(GIVEN)], [])
