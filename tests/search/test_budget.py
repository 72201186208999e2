"""Durations as text, and how long a trial may take, by those that have run."""

import pytest

from fp8tune.search.budget import (
    BadDuration,
    deadline_while_stepping,
    parse_duration,
    show_duration,
    trial_deadline,
    typical_cost,
)
from fp8tune.trials.space import Space
from tests.search.tries import BEST, GIVEN, KNOBS, SPACE, ran, trials

EAGER = (1, 1, 0, 1)
HUNG = ran(GIVEN, outcome="hang")


@pytest.mark.parametrize(
    ("records", "left", "seconds"),
    [
        ([], 7200, 900),
        ([], 8 * 3600, 3600),
        ([], 1800, 600),
        ([], 600, 300),
        ([], 20, 20),
        ([HUNG], 7200, 1800),
        ([HUNG, HUNG], 7200, 2400),
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
    assert trial_deadline(SPACE, tried, BEST, left) == seconds


def test_while_nothing_has_run_a_trial_that_steps_may_go_on():
    assert deadline_while_stepping([], 7200) == 7200
    assert deadline_while_stepping(trials(("baseline", HUNG)), 7200) == 7200
    assert deadline_while_stepping(trials(("baseline", ran(GIVEN))), 7200) == 0


def test_typical_costs():
    tried = trials(
        ("baseline", ran(EAGER, cost_s=30.0)),
        ("search", ran(GIVEN, cost_s=90.0)),
        ("search", ran(BEST, cost_s=400.0, outcome="oom")),
    )
    assert typical_cost(SPACE, [], BEST) == 0
    assert typical_cost(SPACE, tried, BEST) == 90
    assert typical_cost(SPACE, tried, EAGER) == 30
    assert typical_cost(SPACE, tried[:1], BEST) == 30


def test_without_a_knob_for_compile_all_trials_are_alike():
    space = Space(KNOBS[:2])
    tried = trials(("search", ran((0, 0), cost_s=50.0, space=space)))
    assert trial_deadline(space, tried, (1, 1), 7200) == 150


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
    with pytest.raises(BadDuration, match="is no duration; write 90s"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["0s", "0h", "31h1000h", "800h", "9" * 99 + "h"])
def test_too_little_and_too_much(text):
    with pytest.raises(BadDuration, match=r"duration|at most 30 days"):
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
