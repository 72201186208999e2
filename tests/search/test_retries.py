"""Failures of an earlier process: which of them count when a study is taken up."""

import pytest

from fp8tune.runners.replay import Replay
from fp8tune.search.answer.answer import Finding
from fp8tune.search.answer.findings import machine_findings
from fp8tune.search.loop import Search
from fp8tune.search.pool import Peer
from fp8tune.search.recorded import usable_records
from fp8tune.search.study import Study
from fp8tune.trials.trial import (
    count_retried_settings,
    retries_all,
    trial_from_data,
    trials_that_count,
    uncharged_seconds,
)
from tests.search.test_loop import BEST_BF16, RECORDS
from tests.search.tries import (
    BEST,
    BF16,
    GIVEN,
    OTHER,
    SPACE,
    InOrder,
    ran,
    space_of,
)

DATA = {"message": "BadData: `a.bin` cannot be read", "error": "BadData"}
NEVER = {"stage_reached": "import", "message": "no CUDA"}
CUT = {"cut_off": True, "stage_reached": "import"}


def known(*told):
    """Trials of ``(process, point, outcome)`` and what more their records say."""
    return [
        trial_from_data(
            i, ran(point, outcome=outcome, more=dict(*more)).data() | {"process": by}
        )
        for i, (by, point, outcome, *more) in enumerate(told)
    ]


FAILED = ((0, GIVEN, "compile"), (0, BEST, "user"))


@pytest.mark.parametrize(
    ("told", "now", "counted"),
    [
        (FAILED, 0, [0, 1]),
        (FAILED, 1, []),
        ((*FAILED, (1, GIVEN, "compile")), 1, [2]),
        ((*FAILED, (1, GIVEN, "ok")), 2, [2]),
        (((0, GIVEN, "nan"), (0, BEST, "oom")), 1, [0, 1]),
        (((0, GIVEN, "launch", CUT),), 1, [0]),
        (((0, GIVEN, "ok"), (0, BEST, "hang")), 0, [0, 1]),
        (((0, GIVEN, "ok"), (0, BEST, "hang"), (1, BEST, "user")), 1, [0, 2]),
    ],
)
def test_which_trials_count(told, now, counted):
    assert [trial.number for trial in trials_that_count(known(*told), now)] == counted


def test_only_processes_in_which_a_setting_ran_are_charged():
    trials = known(*FAILED)
    assert (uncharged_seconds(trials, 0), uncharged_seconds(trials, 1)) == (0.0, 120.0)
    trials = known(*FAILED, (1, GIVEN, "ok"), (1, BEST, "user"))
    assert uncharged_seconds(trials, 1) == uncharged_seconds(trials, 2) == 120.0


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ([(0, GIVEN, "oom")], []),
        ([(0, GIVEN, "launch", CUT)], []),
        ([*FAILED, (1, GIVEN, "launch", CUT)], []),
        (FAILED, [Finding("repair-and-retry")]),
        (
            [(0, GIVEN, "launch", NEVER)],
            [Finding("run-doctor", {"on_cpu": True}), Finding("repair-and-retry")],
        ),
    ],
)
def test_what_to_do_where_nothing_ran(told, said):
    assert list(machine_findings(known(*told), on_cpu=True)) == said
    assert retries_all(known(*told), 1) == bool(said)


def test_a_refused_config_needs_no_repair_of_the_machine():
    refused = {"error": "config-refused", "message": "refuses the config"}
    trials = known((0, GIVEN, "launch", refused), (0, GIVEN, "launch", refused))
    assert not list(machine_findings(trials, on_cpu=False))


def test_what_failed_once_beside_what_ran_is_counted():
    trials = known((0, GIVEN, "ok"), (0, BEST, "hang"), (0, OTHER, "oom"))
    assert count_retried_settings(trials, 0) == 0
    assert count_retried_settings(trials, 1) == 1


def taken_up(study, records, budget=7200.0):
    """Take a study up and search on; its new stages, and the answer."""
    study.take_up()
    before, space = len(study.trials), space_of(RECORDS)
    runner, strategy = Replay(records, space), InOrder(OTHER, BEST)
    found = Search(space, GIVEN, Peer(study, runner), strategy, study, budget).run()
    points = [(t.stage, space.point(t.record.knobs)) for t in study.trials[before:]]
    return points, found


POINTS = (GIVEN, BF16, BEST, BEST_BF16, OTHER)
MACHINE = [
    [ran(p, outcome="user", more=DATA) for p in POINTS],
    [ran(p, outcome="launch", more=NEVER) for p in POINTS],
    [ran(p, outcome="compile", cost_s=1000.0) for p in POINTS],
    [ran(p, outcome="hang", cost_s=1000.0) for p in POINTS],
]


@pytest.mark.parametrize("broken", MACHINE)
def test_a_machine_that_is_fixed_is_searched_as_if_it_had_been_sound(broken):
    """With a fresh budget; while it is not, each process does as the first did."""
    study = Study(SPACE)
    first, found = taken_up(study, broken)
    assert (first[0], found.chosen) == (("baseline", GIVEN), None)
    again, found = taken_up(study, broken)
    assert (again, found.chosen) == (first, None)
    sound, found = taken_up(study, RECORDS)
    expected, other = taken_up(Study(SPACE), RECORDS)
    assert (sound, found.chosen) == (expected, BEST)
    assert found.seconds == other.seconds
    assert found.trials == len(study.trials)
    assert taken_up(study, broken)[0] == [], "what has ended answers at once"


def test_what_finds_no_time_left_takes_nothing_back():
    """The same command says again how the config failed, and all that follows."""
    failed = {p: ran(p, outcome="user", cost_s=100.0) for p in (GIVEN, OTHER)}
    records = [*failed.values(), *(ran(p, cost_s=100.0) for p in (BEST, BEST_BF16))]
    study = Study(SPACE)
    first, found = taken_up(study, records, budget=302.0)
    assert len(first) > 2
    assert (found.baseline_outcome, found.chosen) == ("user", BEST)
    stages, again = taken_up(study, records, budget=302.0)
    assert stages == []
    assert again._replace(seconds=found.seconds) == found


def test_data_that_was_lost_on_the_way_and_is_back():
    """The config ran before, so that it is not tried again."""
    study = Study(SPACE)
    lost = [ran(OTHER, outcome="user", more=DATA), *RECORDS[:-1]]
    stages, found = taken_up(study, lost)
    assert stages[-1] == ("search", OTHER)
    assert found.find("wrong-data") is not None
    stages, found = taken_up(study, lost)
    assert ("baseline", GIVEN) not in stages
    stages, found = taken_up(study, RECORDS)
    assert (found.chosen, found.find("wrong-data")) == (BEST, None)


def test_processes_are_told_apart_on_disk(tmp_path):
    for _ in range(3):
        study = Study(SPACE, str(tmp_path / "s"))
        study.take_up()
        study.add("baseline", ran(GIVEN, outcome="compile"))
    study = Study(SPACE, str(tmp_path / "s"))
    assert [trial.process for trial in study.trials] == [0, 1, 2]
    assert all(trial.record.extra == {} for trial in study.trials)


def test_a_replay_leaves_out_what_had_passed():
    trials = known((0, GIVEN, "user", DATA), (0, BEST, "compile"), (1, GIVEN, "ok"))
    assert usable_records(trials) == ([trials[1].record, trials[2].record], [])
    assert usable_records(trials[::-1])[0] == [trials[2].record, trials[1].record]
