"""Memory lines: two peaks tell the rest, cells help each other."""

import math

import numpy as np
import pytest

from fp8tune.search.line import Guess, Lines, Run
from fp8tune.search.normal import below, improvement
from fp8tune.trials.space import Knob, Space
from tests.search.tries import KNOBS, SPACE

STATE = 12.0
EACH = {"none": 6.0, "full": 1.5}


def peak(point):
    values = list(SPACE.values(point).values())
    return STATE + values[0] * EACH[values[1]] * (0.9 if values[2] else 1.0)


CAP = math.log(80)


def predicted(told, points, space=SPACE, prior=(), cap=CAP):
    lines = Lines(space, told, 0.0, prior)
    lines.learn(cap)
    logs, deviations = lines.predict(points)
    return np.exp(logs), deviations


def runs(*points):
    return [Run(point, peak(point), True) for point in points]


def test_two_peaks_tell_the_others_of_their_cell():
    cell = [(batch, 0, 1, 1) for batch in range(4)]
    found, deviations = predicted(runs(cell[0], cell[1]), cell)
    assert found == pytest.approx([peak(point) for point in cell], rel=0.03)
    assert max(deviations) < 0.05


def test_cells_share_what_their_knobs_have_in_common():
    seen = [(0, 0, 1, 1), (2, 0, 1, 1), (0, 1, 1, 1), (3, 1, 1, 1)]
    eager = [(batch, ac, 0, 1) for batch in range(4) for ac in range(2)]
    found, deviations = predicted(runs(*seen), eager)
    assert found == pytest.approx([peak(point) for point in eager], rel=0.15)
    assert all(deviations > 0.01)


def test_a_cell_is_less_sure_the_further_it_is_from_what_ran():
    _, deviations = predicted(
        runs((0, 1, 1, 1), (1, 1, 1, 1)), [(3, 1, 1, 1), (3, 1, 0, 1), (3, 0, 1, 1)]
    )
    assert list(deviations) == sorted(deviations)


def test_what_ran_out_of_memory_raises_its_line():
    told = runs((0, 1, 1, 1))
    point = (1, 0, 1, 1)
    (before,), _ = predicted(told, [point])
    (after,), _ = predicted([*told, Run(point, 0.0, False)], [point])
    assert before < 60 < after


def test_what_ran_without_a_peak_lowers_its_line():
    told = runs((0, 1, 1, 1), (3, 1, 1, 1))
    point = (3, 0, 1, 1)
    cap = math.log(30)
    (before,), _ = predicted(told, [point], cap=cap)
    (after,), _ = predicted([*told, Run(point, 0.0, True)], [point], cap=cap)
    assert before > 33 > after


def test_an_estimate_counts_by_its_shape_and_not_its_scale():
    prior = [Guess(point, 2 * peak(point)) for point in SPACE.every()]
    point = (2, 0, 0, 1)
    (blind,), _ = predicted(runs((0, 1, 1, 1)), [point])
    (told,), _ = predicted(runs((0, 1, 1, 1)), [point], prior=prior)
    assert abs(told / peak(point) - 1) < 0.1 < abs(blind / peak(point) - 1)


@pytest.mark.parametrize(
    "knobs", [KNOBS[1:], [Knob("train.batch_size", ("a", "b"), "micro_batch")]]
)
def test_without_batches_a_setting_is_its_own_line(knobs):
    space = Space(knobs)
    first, *_, last = space.every()
    (found, other), deviations = predicted(
        [Run(first, 40.0, True)], [first, last], space=space
    )
    assert found == pytest.approx(40, rel=0.02)
    assert deviations[0] < 0.03 <= deviations[1] or len(space.knobs) == 1
    assert other > 0


def test_nothing_told_is_no_error():
    found, deviations = predicted([], list(SPACE.every()))
    assert np.all(np.isfinite(found))
    assert min(deviations) > 0.3


@pytest.mark.parametrize("z", [-4.0, -1.0, 0.0, 0.5, 2.0])
def test_the_normal_distribution(z):
    exact = 0.5 * math.erfc(-z / math.sqrt(2))
    assert below(np.array([z]))[0] == pytest.approx(exact, abs=2e-7)


def test_expected_improvement_against_samples():
    draws = np.random.default_rng(1).normal(0.1, 0.2, 200_000)
    found = improvement(np.array([0.1]), np.array([0.2]), 0.25)[0]
    assert found == pytest.approx(np.maximum(draws - 0.25, 0).mean(), rel=0.02)
