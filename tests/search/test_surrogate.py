"""The model of speed: what it learns from few trials, and how sure it is."""

import math

import numpy as np
import pytest

from fp8tune.search.surrogate import Speed, features
from fp8tune.trials.space import Knob, Space
from tests.search.tries import KNOBS

SPACE = Space([KNOBS[0]._replace(values=(1, 2, 3, 4, 6, 8, 12, 16)), *KNOBS[1:]])
POINTS = list(SPACE.points((0, 0, 0, 1)))


def true(point):
    batch, ac, compiled, _ = SPACE.values(point).values()
    slow = 0.75 if ac == "full" else 1.0
    return math.log(1000 * batch / (batch + 2) * slow * (1.2 if compiled else 1.0))


def seen_as(points, used=0.0, expected=None, space=SPACE):
    told = np.zeros(len(points)) if expected is None else np.array(expected)
    return features(space, points, np.full(len(points), used), told)


def model(points, expected=None):
    logs = np.array([true(point) for point in points])
    told = None if expected is None else [expected(point) for point in points]
    return Speed(SPACE, seen_as(points, expected=told), logs, expected is not None)


def test_few_trials_tell_a_whole_landscape():
    points = [(0, 0, 1, 1), (5, 0, 1, 1), (2, 1, 1, 1), (7, 1, 1, 1), (3, 0, 0, 1)]
    found = model(points).predict(seen_as(POINTS))
    wrong = np.abs(found.mean - [true(point) for point in POINTS])
    assert wrong.max() < 0.12
    assert np.all(wrong < 3 * found.deviation)


def test_what_was_measured_is_sure_and_the_rest_is_not():
    points = [(0, 0, 1, 1), (1, 0, 1, 1), (2, 0, 1, 1)]
    found = model(points).predict(seen_as([points[1], (1, 1, 0, 1)]))
    assert found.mean[0] == pytest.approx(true(points[1]), abs=0.01)
    assert found.deviation[0] < 0.02
    assert found.deviation[1] > 0.1


def test_one_trial_is_enough_to_expect_more_of_a_larger_batch():
    found = model([(2, 1, 1, 1)]).predict(seen_as([(2, 1, 1, 1), (7, 1, 1, 1)]))
    assert found.mean[1] > found.mean[0] + 0.05


def test_a_full_gpu_is_expected_to_be_slower():
    speed = model([(0, 0, 1, 1), (3, 0, 1, 1)])
    free, full = (speed.predict(seen_as([(5, 0, 1, 1)], u)) for u in (0.5, 1.0))
    assert full.mean[0] < free.mean[0]
    assert full.deviation[0] > free.deviation[0]


def test_a_good_estimate_is_believed_and_its_scale_does_not_matter():
    speed = model(POINTS[::4], lambda point: true(point) + 7)
    told = seen_as(POINTS, expected=[true(point) + 7 for point in POINTS])
    found = speed.predict(told)
    assert found.mean == pytest.approx([true(p) for p in POINTS], abs=0.04)


def test_an_absurd_estimate_is_not():
    points = POINTS[::3]
    speed = model(points, lambda point: -5 * true(point))
    told = seen_as(POINTS, expected=[-5 * true(point) for point in POINTS])
    wrong = speed.predict(told).mean - [true(point) for point in POINTS]
    assert np.abs(wrong).max() < 0.2


def test_draws_have_the_predicted_mean_and_spread():
    speed = model([(0, 0, 1, 1), (3, 1, 1, 1)])
    told = seen_as(POINTS[:6])
    draws = speed.draws(told, 4000, seed=3)
    found = speed.predict(told)
    assert draws.shape == (4000, 6)
    assert draws.mean(axis=0) == pytest.approx(found.mean, abs=0.02)
    assert draws.std(axis=0) == pytest.approx(found.deviation, rel=0.1)
    assert np.array_equal(draws, speed.draws(told, 4000, seed=3))


@pytest.mark.parametrize(
    "knob",
    [
        Knob("train.batch_size", (0, -1, 4), "micro_batch"),
        Knob("train.batch_size", ("a", 2, True), "micro_batch"),
        Knob("train.other", (0.5, 1, 2)),
    ],
)
def test_odd_values_are_learned_as_well(knob):
    space = Space([knob])
    points = [(0,), (1,), (2,)]
    logs = np.array([1.0, 2.0, 3.0])
    speed = Speed(space, seen_as(points, space=space), logs, False)
    found = speed.predict(seen_as(points, space=space))
    assert found.mean == pytest.approx(logs, abs=0.1)
