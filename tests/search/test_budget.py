"""How long a trial may take, by those that have run."""

import pytest

from fp8tune.search.budget import deadline_while_stepping, trial_deadline, typical_cost
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
