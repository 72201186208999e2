"""Which steps of a run count, and how sure their median is."""

import math
import random
import statistics

import pytest

from fp8tune.runners.steady import (
    Steady,
    half_width,
    interval,
    last_change,
    steady,
)
from fp8tune.trials.record import Discarded


def level(count, middle=100.0, seed=1, deviation=0.0015):
    draw = random.Random(seed)
    return [middle * draw.gauss(1, deviation) for _ in range(count)]


@pytest.mark.parametrize(
    ("times", "start"),
    [
        (level(20), 0),
        # the steps settle, once or twice, by little or by much
        (level(4, 104) + level(16), 4),
        (level(12, 101) + level(16), 12),
        (level(3, 200) + level(5, 110) + level(16), 8),
        # they become slower for good
        (level(10) + level(12, 103), 10),
        # a single slow step is none, wherever it is
        ([*level(8), 150.0, *level(8)], 0),
        ([*level(16), 150.0], 0),
        # nor are two at the end
        (level(12) + level(2, 150), 0),
        # less than 0.3 % is no change
        (level(15, 100.2, deviation=0) + level(15, deviation=0), 0),
        (level(5), 0),
        ([100.0] * 20, 0),
        ([], 0),
    ],
)
def test_where_the_last_level_begins(times, start):
    assert last_change(times) == start


@pytest.mark.parametrize("deviation", [0.0005, 0.0015, 0.02, 0.1])
@pytest.mark.parametrize("count", [12, 20, 40])
def test_one_level_is_seldom_cut(count, deviation):
    cut = sum(last_change(level(count, 100, s, deviation)) > 0 for s in range(200))
    assert cut <= 200 / 50


@pytest.mark.parametrize(("count", "least"), [(3, 70), (6, 95)])
def test_a_change_of_five_deviations_is_found(count, least):
    found = [
        last_change(level(count, 101, seed, 0.002) + level(20, 100, seed + 1, 0.002))
        for seed in range(100)
    ]
    assert sum(abs(cut - count) <= 1 for cut in found) >= least


WARM = Discarded(0, 2, "warm-up")


@pytest.mark.parametrize(
    ("times", "events", "expected"),
    [
        (level(20), {}, Steady(3, (WARM,), True)),
        # an event in the warm-up is part of it
        (level(20), {1: "recompile"}, Steady(3, (WARM,), True)),
        (
            level(20),
            {5: "allocator", 8: "recompile"},
            Steady(9, (WARM, Discarded(3, 8, "recompile")), True),
        ),
        (
            level(9) + level(4, 110) + level(12),
            {8: "allocator"},
            Steady(
                13,
                (
                    WARM,
                    Discarded(3, 8, "allocator"),
                    Discarded(9, 12, "change of level"),
                ),
                True,
            ),
        ),
        # too few steps after an event: those before it are all there is
        (level(20), {18: "recompile"}, Steady(3, (WARM,), False)),
        (level(2), {}, Steady(1, (Discarded(0, 0, "warm-up"),), True)),
    ],
)
def test_what_is_left_out_and_why(times, events, expected):
    assert steady(times, events, 3) == expected


def test_the_interval_of_a_median():
    assert interval([100.0] * 12) == (100.0, 100.0)
    times = level(20)
    assert interval(times) == interval(times)
    assert half_width([100.0] * 6 + [200.0] * 6) > 0.1
    assert half_width(times) > half_width(level(80))


@pytest.mark.parametrize("count", [3, 4, 5, 6, 8, 12, 20, 40])
@pytest.mark.parametrize(("follows", "least"), [(0.0, 0.92), (0.3, 0.84)])
def test_the_interval_holds_the_truth_as_often_as_it_says(count, follows, least):
    held = 0
    for seed in range(400):
        low, high = interval(following(count, follows, seed))
        held += low <= 100.0 <= high
    assert held / 400 >= least


def following(count, follows, seed):
    """Steps of which each follows the one before it."""
    draw, times = random.Random(seed), []
    own, last = math.sqrt(1 - follows**2), draw.gauss(0, 1)
    for _ in range(count):
        times.append(100.0 * math.exp(0.0015 * last))
        last = follows * last + own * draw.gauss(0, 1)
    return times


@pytest.mark.parametrize("count", [2, 5, 6, 2000])
def test_one_very_slow_step_leaves_the_interval_positive(count):
    low, high = interval([*[100.0] * (count - 1), 1e6])
    assert 0 < low <= statistics.median([*[100.0] * (count - 1), 1e6]) <= high
