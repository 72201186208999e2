"""What an earlier study on a similar config does to a search."""

import statistics

import pytest

from benchmarks.search.head_start import compare
from benchmarks.search.near import near, unlike
from fp8tune.search.prior import no_prior
from fp8tune.search.sampler import EarlierTrial, Expected
from fp8tune.search.sampler.memory import USABLE
from fp8tune.search.strategy import Strategy
from fp8tune.search.study import Study
from fp8tune.search.warm_start import earlier_trials
from tests.search.tries import (
    AC,
    BATCH,
    BEST,
    COMPILE,
    GIVEN,
    OTHER,
    PRECISION,
    SPACE,
    ran,
)

RECORD = ran(BEST, 200, peak_gib=40.0, more={"capacity_gib": 80.0})


def test_a_record_becomes_a_trial_of_this_space():
    """Sequences of another length count by their tokens; missing keys are None."""
    bare = RECORD._replace(knobs={BATCH: 4, AC: "full", "train.other": 1})
    found = list(earlier_trials(SPACE, [RECORD, bare], lambda _: Expected(0, 190), 0.4))
    values = {"outcome": "ok", "tokens_per_second": 200.0}
    values |= {"memory_share": 40.0 / (80.0 * USABLE)}
    values |= {"expected_tokens_per_second": 190}
    whole = {BATCH: 1.6, AC: "full", COMPILE: True, PRECISION: "fp8"}
    lacking = {BATCH: 1.6, AC: "full", COMPILE: None, PRECISION: None}
    assert found == [EarlierTrial(params=p, **values) for p in (whole, lacking)]


def proposal(*records):
    """The first proposal beside the records of an earlier study."""
    study = Study(SPACE)
    study.add("baseline", ran(GIVEN, 100, peak_gib=20.0))
    earlier = list(earlier_trials(SPACE, records))
    return Strategy(study, GIVEN, no_prior, earlier=earlier).propose(study.trials)


@pytest.mark.parametrize(
    "change", [{PRECISION: "fp16"}, {BATCH: "many"}, {BATCH: 0}, {AC: None}]
)
def test_values_that_the_space_does_not_have_change_nothing(change):
    record = ran(OTHER, 900)
    record = record._replace(knobs=record.knobs | change)
    assert proposal(record) == proposal()


def test_an_earlier_study_leads_to_what_was_fast_there():
    fast, slow = (
        proposal(ran(GIVEN, 1000), ran(OTHER, speed), ran(BEST, 1100))
        for speed in (1500, 700)
    )
    assert SPACE.cell(fast.point) == SPACE.cell(OTHER)
    assert SPACE.cell(slow.point) != SPACE.cell(OTHER)


PAIRS = range(7100, 7103)


def test_a_near_study_saves_trials():
    found = [compare(near(seed), 0.1, alike=True) for seed in PAIRS]
    fresh = sum(both.fresh.chosen for both in found)
    started = sum(both.started.chosen for both in found)
    assert started <= 0.7 * fresh
    assert all(both.started.fraction > 0.97 for both in found)


def test_a_misleading_study_costs_little():
    found = [compare(unlike(seed), 0.1, alike=False) for seed in PAIRS]
    lost = [both.fresh.fraction - both.started.fraction for both in found]
    assert statistics.fmean(lost) < 0.02
    assert max(both.started.oom for both in found) <= 5
