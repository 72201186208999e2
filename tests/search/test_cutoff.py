"""Trials that the end of the budget cut off: what is said, and when none is begun."""

import pytest

from fp8tune.job import Target
from fp8tune.search.budget import is_cut_off, never_begins, time_to_model
from fp8tune.search.outcome import decide, with_config
from fp8tune.search.plan import Plan, read_config
from fp8tune.trials.record import Record
from tests.search.test_coordinator import RECORDS, searched
from tests.search.tries import BEST, CONFIG, GIVEN, SPACE, ran, trials

CUT = {"cut_off": True, "stage_reached": "import"}


@pytest.mark.parametrize(
    ("outcome", "cost_s", "cut_off"),
    [
        ("hang", 60.0, True),
        ("launch", 61.0, True),
        ("compile", 60.0, True),
        ("hang", 59.0, False),
        ("oom", 61.0, False),
        ("ok", 61.0, False),
    ],
)
def test_only_what_took_all_that_was_left_was_cut_off(outcome, cost_s, cut_off):
    assert is_cut_off(Record({}, outcome, cost_s=cost_s), 60.0) is cut_off


@pytest.mark.parametrize(
    ("more", "seconds"),
    [
        ([], 0.0),
        ([{"import_s": 9.0}, {"import_s": 7.0}], 7.0),
        ([{"import_s": 9.0}, CUT], 9.0),
        ([CUT], 20.0),
        ([{**CUT, "stage_reached": "steady"}], 0.0),
        ([{"stage_reached": "import"}], 0.0),
    ],
)
def test_what_a_trial_needs_before_it_can_tell_anything(more, seconds):
    tried = [("search", ran(GIVEN, outcome="launch", cost_s=20.0, **m)) for m in more]
    assert time_to_model(trials(*tried)) == seconds


@pytest.mark.parametrize(("left", "count"), [(5.0, 1), (15.0, 2)])
def test_no_trial_is_begun_with_less_time_than_an_import_takes(left, count):
    slow = ran(GIVEN, 100, more={"import_s": 10.0})
    _, found, stages = searched([slow, *RECORDS[1:]], budget=62.0 + left)
    assert (found.trials, len(stages)) == (count, count)


SLOWER_THEN = [*RECORDS, ran(BEST, 150, cost_s=300.0)]


def test_a_confirmation_that_was_cut_off_does_not_count_with_more_time():
    """Nor would two of them: the setting had no chance."""
    search, _, stages = searched(SLOWER_THEN, budget=330.0)
    last = search.study.trials[-1]
    assert (stages[-1], last.cut_off) == (("confirm", BEST), True)
    assert (last.record.outcome, last.record.cost_s) == ("hang", 178.0)
    assert len(search._counting) == len(stages)
    search.limits = search.limits._replace(budget=7200.0)
    assert len(search._counting) == len(stages) - 1


def advised(known):
    """What is found beyond that no trial succeeded."""
    plan = Plan(read_config("a.toml", CONFIG.encode(), Target()), SPACE, GIVEN)
    found = with_config(decide(SPACE, GIVEN, known, 1.0), plan, known, 30.0)
    return [(f.code, dict(f.facts)) for f in found.findings[1:]]


MORE_TIME = ("no-trial-ended", {"budget_s": 30.0, "rehearsal": False})


def test_where_no_trial_ended_more_time_is_advised():
    search, _, _ = searched(budget=30.0)
    cut = ("failed-trials", {"how": "cut-off", "count": 1})
    assert advised(search.study.trials) == [cut, MORE_TIME]


def test_what_the_last_of_several_processes_was_cut_off_by_is_advised():
    late = {**CUT, "budget_s": 30.0, "process": 1}
    tried = trials(
        ("baseline", ran(GIVEN, outcome="compile")),
        ("baseline", ran(GIVEN, outcome="compile", more=late)),
    )
    assert advised(tried)[-1] == MORE_TIME


@pytest.mark.parametrize(
    ("stages", "none"),
    [
        (["gpu"] * 3, False),
        (["start", "import", "gpu", "gpu"], True),
        ([None, "gpu", "gpu", "gpu", "gpu"], True),  # a GPU that broke on the way
        (["gpu", "gpu", "gpu", "gpu", None], False),
    ],
)
def test_where_no_trial_reaches_its_model_any_more_none_is_tried(stages, none):
    tried = [("search", ran(GIVEN, outcome="launch", stage_reached=s)) for s in stages]
    assert never_begins(trials(*tried)) == none
