"""How slow is slow enough, and what becomes of what ended early."""

import json

import pytest

from fp8tune.runners.replay import Replay
from fp8tune.search.answer import answer, ranked
from fp8tune.search.capacity import Memory
from fp8tune.search.confirm import again
from fp8tune.search.coordinator import Limits, Search
from fp8tune.search.floor import SHARE, floor
from fp8tune.search.outlook import Known, outlook
from fp8tune.search.output import outcome
from fp8tune.search.record import parse
from fp8tune.search.space import Space
from fp8tune.search.statistics import speed
from fp8tune.search.study import Study
from tests.search.tries import (
    BEST,
    GIVEN,
    KNOBS,
    OTHER,
    SPACE,
    TWIN,
    InOrder,
    ran,
    trials,
)

EARLY = {"censored": True, "median_step_ms_95": [99.0, 101.0]}
FULL = {"alloc_retries": 3}
STEPS = (100.0, 100.1, 99.9, 100.0, 100.1, 99.9, 100.0, 100.1, 99.9, 100.0)


def given_and(*records):
    pairs = [("search", record) for record in records]
    return trials(("given", ran(GIVEN, 100)), *pairs)


@pytest.mark.parametrize(
    ("tried", "best"),
    [
        (given_and(), 100),
        (given_and(ran(BEST, 150)), 150),
        (given_and(ran(BEST, 150, more=EARLY)), 100),
        (given_and(ran(BEST, 150), ran(OTHER, outcome="oom")), 150),
        (given_and(ran(TWIN, 999)), 100),
        (given_and(ran(BEST, 150, more=FULL)), 100),
    ],
)
def test_the_floor_is_below_the_best_that_may_be_chosen(tried, best):
    assert SHARE * 0.96 * best < floor(SPACE, GIVEN, tried) < SHARE * best


@pytest.mark.parametrize(
    "tried",
    [
        [],
        trials(("given", ran(GIVEN, outcome="oom"))),
        trials(("given", ran(GIVEN, 100, more=FULL))),
    ],
)
def test_nothing_ends_early_for_what_may_have_to_give_way(tried):
    assert floor(SPACE, GIVEN, tried) == 0


def test_what_ended_early_is_never_chosen_nor_confirmed():
    tried = given_and(ran(OTHER, 150), ran(BEST, 149, more=EARLY))
    found = answer(SPACE, GIVEN, tried, 60.0)
    assert ranked(SPACE, GIVEN, tried) == [OTHER, GIVEN]
    assert (found.chosen, found.runner_up, found.trials) == (OTHER, GIVEN, 3)
    while point := again(SPACE, GIVEN, tried):
        assert point != BEST
        (run,) = trials(("confirm", ran(point, 150)))
        tried.append(run._replace(number=len(tried)))


def test_its_figure_is_no_point_estimate():
    cut = ran(BEST, 150, more=EARLY)
    assert speed([cut]) is None
    assert speed([cut, ran(BEST, 100)]) == speed([ran(BEST, 100)])
    assert (cut.ok, cut.least) == (True, pytest.approx(150 * 99 / 101))
    assert outcome(cut) == "under 150 tokens/s, 60 s, ended early"
    again_ = parse(json.dumps(json.loads(cut.line())))
    assert not again_.measured


LINE = Space(KNOBS[:1])
TWO = [((0,), ran((0,), 100, space=LINE)), ((1,), ran((1,), 130, space=LINE))]


def gain_at_4(*more):
    runs = [*TWO, *(((3,), record) for record in more)]
    known = Known(LINE, (0,), {}, runs, Memory(LINE, runs))
    return outlook(known, [(2,)]).gain[0]


def cut_between(low, high):
    more = {"censored": True, "median_step_ms_95": [99.0, 99.0 * high / low]}
    return ran((3,), high, space=LINE, more=more)


def test_the_model_of_speed_keeps_to_close_bounds():
    exact = gain_at_4(ran((3,), 120, space=LINE))
    assert gain_at_4(cut_between(119, 121)) == pytest.approx(exact, rel=0.1)
    assert gain_at_4(cut_between(119, 121)) < 0.5 * gain_at_4()


def test_a_vague_bound_tells_the_model_of_speed_what_it_expects_anyway():
    at_most = gain_at_4(cut_between(1, 5000))
    assert gain_at_4(ran((3,), 5000, space=LINE)) == 0
    assert at_most == pytest.approx(gain_at_4(), rel=0.5)


def test_a_search_ends_slow_trials_early_but_no_other():
    twin_of_best = (2, 1, 1, 0)
    points = {GIVEN: 100, TWIN: 50, BEST: 150, OTHER: 60, twin_of_best: 70}
    records = [ran(p, value, step_ms=STEPS) for p, value in points.items()]
    space = Space(KNOBS, points)
    study = Study("")
    limits = Limits(7200.0)
    runner = Replay(records, space)
    Search(space, GIVEN, runner, InOrder(BEST, OTHER), study, limits).run()
    cut = [
        (t.stage, space.point(t.record.knobs))
        for t in study.trials
        if not t.record.measured
    ]
    assert cut == [("search", OTHER)]
    assert runner.now() == pytest.approx(60 * len(study.trials) - 0.5, abs=0.01)


@pytest.mark.parametrize("point", [GIVEN, TWIN])
def test_ones_own_config_and_its_twin_are_measured_in_full_whenever(point):
    failed = ran(point, outcome="launch", cost_s=1.0)
    points = {GIVEN: 100, TWIN: 90, BEST: 200}
    records = [ran(p, value, step_ms=STEPS) for p, value in points.items()]
    records = [failed, failed, *records]
    space = Space(KNOBS, points)
    study = Study("")
    limits = Limits(7200.0)
    runner = Replay(records, space)
    Search(space, GIVEN, runner, InOrder(BEST, point), study, limits).run()
    found = [t.record for t in study.trials if t.stage == "search"]
    assert [record.measured for record in found] == [True, True]


def test_another_aim_than_speed_needs_every_step():
    more = {"tokens_per_joule": 1.0}
    points = {GIVEN: 100, OTHER: 60}
    records = [ran(p, v, step_ms=STEPS, more=more) for p, v in points.items()]
    space = Space(KNOBS, points)
    study = Study("")
    Search(
        space,
        GIVEN,
        Replay(records, space),
        InOrder(OTHER),
        study,
        Limits(7200.0),
        aim="tokens-per-joule",
    ).run()
    assert all(trial.record.measured for trial in study.trials)
