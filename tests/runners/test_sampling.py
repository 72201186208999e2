"""How much of training a trial measures."""

import random

import pytest

from fp8tune.runners.sampling import Sampling, Steps, micro_batches, whole_step_ms


@pytest.mark.parametrize(
    ("accumulated", "micro_ms", "count"),
    [
        (1, [9000.0], 1),
        (64, [500.0, 600.0], 4),
        (64, [9000.0], 4),
        (64, [100.0, 900.0], 20),  # two seconds by the fastest
        (8, [1.0], 8),
        (3, [9000.0], 3),
        (64, [0.0], 64),
    ],
)
def test_micro_batches_that_run(accumulated, micro_ms, count):
    assert micro_batches(accumulated, micro_ms) == count


def test_what_did_not_run_takes_as_long_as_what_lies_between():
    ran = [110.0, 100.0, 102.0, 150.0]
    assert whole_step_ms(ran, 4) == 462.0
    assert whole_step_ms(ran, 64) == 462.0 + 60 * 101.0


def taken(step_s, sampling, deviation=0.0015, events=()):
    """The steps of a trial of which each lasts so long, the first twice as long."""
    draw, steps = random.Random(1), Steps(sampling)
    for number in range(500):
        ran = step_s * 1e3 * draw.gauss(1, deviation) * (1 + (number == 0))
        steps.add(ran, 8 * ran, "allocator" if number in events else "")
        if number and steps.suffice():
            return steps
    raise AssertionError("it never ends")


@pytest.mark.parametrize(
    ("step_s", "sampling", "count", "start"),
    [
        # step 0 and three of warm-up, then six
        (1.0, Sampling(), 10, 4),
        (1.0, Sampling(least_s=9.9), 14, 4),
        # a step of 8 s: two of warm-up and the three that show a level
        (8.0, Sampling(enough_s=20.0), 5, 2),
    ],
)
def test_how_many_steps_a_trial_takes(step_s, sampling, count, start):
    steps = taken(step_s, sampling)
    assert (len(steps.whole_ms), steps.steady().start) == (count, start)


def test_noisy_steps_and_steps_after_an_event_take_more():
    quiet, noisy = (len(taken(1.0, Sampling(), d).whole_ms) for d in (0.001, 0.05))
    assert quiet == 10
    assert 20 < noisy <= 4 + 40
    assert len(taken(1.0, Sampling(), events=(8,)).whole_ms) == 9 + 6
