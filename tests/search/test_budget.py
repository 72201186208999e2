"""Durations as text, and how long a trial may take, by those that have run."""

import pytest

from fp8tune.job import Target
from fp8tune.search import CannotSearch
from fp8tune.search.answer.decide import decide, with_config
from fp8tune.search.budget import (
    never_begins,
    parse_duration,
    show_duration,
    time_to_model,
    trial_deadline,
    trial_limits,
    typical_cost,
)
from fp8tune.search.history import History
from fp8tune.search.plan import Plan, config_to_search
from fp8tune.trials.record import Record
from fp8tune.trials.space import Space
from tests.search.test_loop import RECORDS, searched
from tests.search.tries import (
    BEST,
    CONFIG,
    GIVEN,
    KNOBS,
    OTHER,
    SPACE,
    history,
    history_of,
    order,
    ran,
    trials,
)

EAGER = (1, 1, 0, 1)
HUNG = ran(GIVEN, outcome="hang")


@pytest.mark.parametrize(
    ("records", "left", "seconds"),
    [
        ([], 7200, 900),
        ([], 8 * 3600, 3600),
        ([], 1800, 900),
        ([], 600, 300),
        ([], 20, 20),
        ([HUNG], 7200, 1800),
        ([HUNG, HUNG], 7200, 3600),
        ([ran(GIVEN, cost_s=90.0)], 7200, 270),
        ([ran(GIVEN, cost_s=0.0)], 7200, 60),
        ([ran(GIVEN, cost_s=90.0)], 100, 100),
        ([ran(GIVEN, cost_s=90.0), ran(BEST, cost_s=120.0), HUNG], 7200, 360),
        ([ran(EAGER, cost_s=30.0)], 7200, 450),
        ([ran(EAGER, cost_s=30.0)], 900, 300),
        ([ran(EAGER, cost_s=200.0)], 7200, 1200),
    ],
)
def test_deadlines(records, left, seconds):
    tried = trials(*(("search", record) for record in records))
    assert trial_deadline(history_of(tried), BEST, left) == seconds


def test_while_nothing_has_run_a_trial_that_steps_may_go_on():
    assert trial_limits(history(), BEST, 7200).stepping_s == 7200
    for record, seconds in ((HUNG, 7200), (ran(GIVEN), 0)):
        tried = history(("baseline", record))
        assert trial_limits(tried, BEST, 7200).stepping_s == seconds


def test_typical_costs():
    tried = trials(
        ("baseline", ran(EAGER, cost_s=30.0)),
        ("search", ran(GIVEN, cost_s=90.0)),
        ("search", ran(BEST, cost_s=400.0, outcome="oom")),
    )
    assert typical_cost(history(), BEST) == 0
    assert typical_cost(history_of(tried), BEST) == 90
    assert typical_cost(history_of(tried), EAGER) == 30
    assert typical_cost(history_of(tried[:1]), BEST) == 30
    repeated = history_of([*tried, *trials(("confirm", ran(GIVEN, cost_s=50.0)))])
    assert (typical_cost(repeated, GIVEN), typical_cost(repeated, BEST)) == (50, 90)


def test_without_a_knob_for_compile_all_trials_are_alike():
    space = Space(KNOBS[:2])
    tried = trials(("search", ran((0, 0), cost_s=50.0, space=space)))
    assert trial_deadline(History(space, GIVEN, tried), (1, 1), 7200) == 150


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("30m", 1800),
        ("2h", 7200),
        ("1h30m", 5400),
        (" 1h 5s ", 3605),
        ("0.5h", 1800),
        ("1h1m1.5s", 3661.5),
    ],
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "2", "h", "-1h", "30m2h", "1e3s", "2 hours", "∞"])
def test_no_duration(text):
    with pytest.raises(CannotSearch, match="is not a duration; write 90s"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["0s", "0h", "31h1000h", "800h", "9" * 99 + "h"])
def test_too_little_and_too_much(text):
    with pytest.raises(CannotSearch, match=r"duration|at most 30 days"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (99.4, "99 s"),
        (100, "2 min"),
        (3599, "1 h 0 min"),
        (5400, "1 h 30 min"),
    ],
)
def test_shown(seconds, text):
    assert show_duration(seconds) == text


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
    place = order(OTHER, left_s=60.0).place(Record({}, outcome, cost_s=cost_s))
    assert place["cut_off"] is cut_off


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


@pytest.mark.parametrize(("left", "count"), [(5.0, 1), (25.0, 2)])
def test_no_trial_is_begun_with_less_time_than_an_import_takes(left, count):
    slow = ran(GIVEN, 100, more={"import_s": 10.0})
    _, found, stages = searched(
        [slow, *RECORDS[1:]], budget=62.0 + left, points=[OTHER]
    )
    assert (found.trials, len(stages)) == (count, count)


SLOWER_THEN = [*RECORDS, ran(BEST, 150, cost_s=300.0)]


def test_a_confirmation_that_was_cut_off_does_not_count_with_more_time():
    """Nor would two of them: the setting had no chance."""
    search, _, stages = searched(SLOWER_THEN, budget=330.0)
    last = search.study.trials[-1]
    assert (stages[-1], last.cut_off) == (("confirm", BEST), True)
    assert (last.record.outcome, last.record.cost_s) == ("hang", 178.0)
    cut_short = [last.was_cut_short(budget) for budget in (330.0, 7200.0)]
    assert cut_short == [False, True]


def advised(known):
    """What is found beyond that no trial succeeded."""
    plan = Plan(config_to_search("a.toml", CONFIG.encode(), Target()), SPACE, GIVEN)
    found = with_config(decide(history_of(known), 1.0), plan, known)
    return [(f.code, dict(f.facts)) for f in found.findings[1:]]


def more_time(within, budget):
    facts = {"within_s": within, "budget_s": budget, "rehearsal": False}
    return "no-trial-ended", facts


def test_where_no_trial_ended_more_time_is_advised():
    search, _, _ = searched(budget=30.0)
    cut = ("failed-trials", {"how": "cut-off", "count": 1})
    assert advised(search.study.trials) == [cut, more_time(30.0, 60.0)]


@pytest.mark.parametrize(
    ("budget", "within", "advice"),
    [
        (200.0, 200.0, 900.0),  # half of it is for the first trial
        (
            7200.0,
            2249.0,
            36000.0,
        ),  # then an eighth; the third got half
    ],
)
def test_a_budget_that_gives_the_first_trial_twice_the_time(budget, within, advice):
    slow = [record._replace(cost_s=1e6) for record in RECORDS]
    search, _, _ = searched(slow, budget=budget)
    assert advised(search.study.trials)[-1] == more_time(within, advice)
    longest = search.study.trials[-1].record.cost_s
    again, _, _ = searched(slow, budget=advice)
    assert again.study.trials[0].record.cost_s >= 2 * longest


def test_what_the_last_of_several_processes_was_cut_off_by_is_advised():
    late = {**CUT, "budget_s": 30.0, "process": 1}
    tried = trials(
        ("baseline", ran(GIVEN, outcome="compile")),
        ("baseline", ran(GIVEN, outcome="compile", more=late)),
    )
    assert advised(tried)[-1] == more_time(30.0, 180.0)


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


def test_where_a_package_is_missing_no_other_setting_is_tried():
    """Trainers import some late: a setting of the model is not why they fail."""
    late = {"stage_reached": "build", "error": "package-missing"}
    tried = [
        ("search", ran(point, outcome="launch", **late)) for point in (GIVEN, BEST)
    ]
    assert [never_begins(trials(*tried * times)) for times in (1, 2)] == [False, True]


def test_where_nothing_is_downloaded_no_second_trial_is_tried():
    """One trial of the config says it; a kernel that one setting needs does not."""
    lacks = ran(GIVEN, outcome="user", stage_reached="build", error="not-downloaded")
    other = ran(BEST, outcome="user", stage_reached="build", error="not-downloaded")
    assert never_begins(trials(("baseline", lacks)))
    assert not never_begins(trials(("baseline", ran(GIVEN)), ("search", other)))
    bug = ran(GIVEN, outcome="user", stage_reached="build", error="unknown-exception")
    assert not never_begins(trials(("baseline", bug)))
