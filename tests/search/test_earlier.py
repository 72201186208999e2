"""What an earlier study on a near config does to a search."""

import math
import statistics

import numpy as np
import pytest

from benchmarks.search.head_start import compare
from benchmarks.search.near import near, unlike
from fp8tune.search.capacity import USABLE
from fp8tune.search.earlier import NOTHING, earlier
from fp8tune.search.guided import Guided
from fp8tune.search.prior import Expected
from fp8tune.search.surrogate import Speed, elsewhere, features, together
from fp8tune.trials.space import Knob, Space
from tests.search.tries import BATCH, BEST, GIVEN, OTHER, PRECISION, SPACE, ran, trials

RECORD = ran(BEST, 200, peak_gib=40.0, more={"capacity_gib": 80.0})


def test_a_record_lies_where_its_values_are():
    (past,) = earlier("a", SPACE, [RECORD], lambda _: Expected(0.0, 190.0)).past
    assert (past.point, past.batch, past.record) == (BEST, 4.0, RECORD)
    assert (past.used, past.expected) == (40.0 / (80.0 * USABLE), 190.0)


def test_sequences_of_another_length_count_by_their_tokens():
    (past,) = earlier("a", SPACE, [RECORD], scale=0.4).past
    assert past.batch == pytest.approx(1.6)
    assert SPACE.batch(past.point) == 2


@pytest.mark.parametrize(
    "change",
    [{PRECISION: "fp16"}, {BATCH: "many"}, {BATCH: 0}],
)
def test_values_that_the_space_has_not_are_left_out(change):
    record = RECORD._replace(knobs=RECORD.knobs | change)
    assert earlier("a", SPACE, [record]).past == ()


def test_knobs_that_a_record_lacks():
    record = RECORD._replace(knobs={BATCH: 4})
    assert earlier("a", SPACE, [record]).past == ()
    bare = Space([Knob("train.other", ("a", "b"))])
    (past,) = earlier("a", bare, [ran((1,), space=bare)]).past
    assert (past.point, past.batch) == ((1,), 0.0)


def test_runs_of_one_setting_are_one():
    again = [ran(BEST, speed, peak_gib=40.0) for speed in (100, 400)]
    failed = ran(OTHER, outcome="oom")
    seen, logs = earlier("a", SPACE, [*again, failed]).measured(SPACE, told=False)
    assert logs == pytest.approx([math.log(200)])
    assert (len(seen.batch), seen.study.tolist()) == (1, [1.0])


def test_without_an_expectation_nothing_counts_where_others_have_one():
    found = earlier("a", SPACE, [RECORD]).measured(SPACE, told=True)
    assert len(found[1]) == 0


def speed_at(point, own, past):
    """What the model expects of a point relative to the given one."""
    ours = features(SPACE, [p for p, _ in own], np.zeros(len(own)), np.zeros(len(own)))
    logs = np.log([value for _, value in own])
    if past:
        none = np.zeros(len(past))
        theirs = features(SPACE, [p for p, _ in past], none, none)
        theirs = elsewhere(SPACE, theirs, [SPACE.batch(p) for p, _ in past])
        ours = together(ours, theirs)
        logs = np.append(logs, np.log([value for _, value in past]))
    model = Speed(SPACE, ours, logs, False)
    belief = model.predict(features(SPACE, [point], np.zeros(1), np.zeros(1)))
    return float(np.exp(belief.mean[0])), float(belief.deviation[0])


def test_an_earlier_study_tells_how_fast_at_its_own_level():
    own = [(GIVEN, 100.0)]
    past = [(GIVEN, 1000.0), (OTHER, 1500.0), (BEST, 1100.0)]
    value, deviation = speed_at(OTHER, own, past)
    assert value == pytest.approx(150, rel=0.1)
    assert deviation < 0.7 * speed_at(OTHER, own, [])[1]


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


def test_no_earlier_study_changes_nothing():
    tried = trials(("baseline", ran(GIVEN, 100, peak_gib=20.0)))
    plain = Guided(SPACE, GIVEN).propose(tried)
    assert Guided(SPACE, GIVEN, earlier=NOTHING).propose(tried) == plain
    useless = earlier("a", SPACE, [ran(OTHER, outcome="launch")])
    assert Guided(SPACE, GIVEN, earlier=useless).propose(tried) is not None
