"""Slow trials end early: by their steps so far, real ones and recorded ones alike."""

import pytest

from fp8tune.runners.early import STEPS, bounds, ended_early, is_hopeless
from tests.search.tries import GIVEN, ran

TIMES = (100.0, 100.2, 99.9, 100.1, 100.0, 99.8, 100.1, 100.0, 100.2, 99.9)
TOKENS = 1000.0


def test_bounds_hold_the_speed_and_nothing_more():
    low, high = bounds(TIMES, TOKENS)
    assert 9980 <= low <= 10_000 <= high <= 10_020


@pytest.mark.parametrize(
    ("count", "floor", "hopeless"),
    [
        (10, 10_500, True),
        (10, 10_021, True),
        (10, 10_000, False),
        (10, 9_000, False),
        (10, 0, False),
        (STEPS, 10_500, True),
        (STEPS - 1, 10_500, False),
        (0, 10_500, False),
    ],
)
def test_only_what_is_surely_slower_is_hopeless(count, floor, hopeless):
    assert is_hopeless(TIMES[:count], TOKENS, floor) is hopeless


def test_noisy_steps_are_given_more_time():
    noisy = (80.0, 130.0, 90.0, 120.0, 100.0, 85.0)
    assert not is_hopeless(noisy, TOKENS, 10_500)
    assert is_hopeless(noisy, TOKENS, 13_000)


def test_a_recorded_trial_costs_less_by_the_steps_that_it_did_not_take():
    whole = ran(GIVEN, 10_000, step_ms=TIMES, cost_s=60.0, peak_gib=9.0)
    found = ended_early(whole, 10_500)
    assert found.step_ms == TIMES[:STEPS]
    assert found.cost_s == pytest.approx(60.0 - sum(TIMES[STEPS:]) / 1e3)
    assert (found.ok, found.measured, found.peak_gib) == (True, False, 9.0)
    assert found.least <= 10_000 <= found.tokens_per_second < 10_500


@pytest.mark.parametrize(
    ("record", "floor"),
    [
        (ran(GIVEN, 10_000, step_ms=TIMES), 9_000),
        (ran(GIVEN, 10_000, step_ms=TIMES), 0),
        (ran(GIVEN, 10_000, step_ms=TIMES[:STEPS]), 10_500),
        (ran(GIVEN, 10_000, step_ms=(100.0,)), 10_500),
        (ran(GIVEN, 10_000, step_ms=(0.0,) * 16), 10_500),
        (ran(GIVEN, 10_000), 10_500),
        (ran(GIVEN, 10_000, step_ms=TIMES, more={"censored": True}), 10_500),
        (ran(GIVEN, outcome="oom"), 10_500),
    ],
)
def test_other_records_stay_as_they_are(record, floor):
    assert ended_early(record, floor) == record
