"""Steps with a throttled GPU are left out, and a record says its energy."""

import itertools

import pytest

from fp8tune.runners.counted import (
    power,
    with_interval_and_energy,
    without_throttled_steps,
)
from fp8tune.runners.gpu import Sample
from fp8tune.trials.record import Record
from tests.search.tries import but

ALL = [500.0, 100.0, 100.0, 110.0, 100.0, 100.0, 100.0]
EVENTS = [
    {"step": number, "ms": took, "at": 10.0 + number} for number, took in enumerate(ALL)
]
WARM = {"first": 0, "last": 1, "why": "warm-up"}


def ran(**more):
    fields = {"all_step_ms": ALL, "discarded": [WARM], **more}
    return but(Record({}, "ok", 1000.0, tuple(ALL[2:])), **fields)


def samples(*times, bits=0x40):
    return [Sample(time, reasons=bits) for time in times]


def test_a_throttled_step_is_left_out():
    found = without_throttled_steps(ran(), EVENTS, samples(12.95))
    assert found.outcome == "ok"
    assert found.step_ms == (100.0, 100.0, 100.0, 100.0)
    assert found.tokens_per_second == 1000.0
    slow = {"first": 3, "last": 3, "why": "throttled"}
    assert found.data()["discarded"] == [WARM, slow]


def test_the_speed_is_of_the_steps_that_are_left():
    record = ran()._replace(step_ms=(120.0, 120.0, 120.0, 100.0, 100.0))
    found = without_throttled_steps(record, EVENTS, samples(11.95, 12.95))
    assert found.step_ms == (120.0, 100.0, 100.0)
    assert found.tokens_per_second == pytest.approx(1200.0)


@pytest.mark.parametrize(
    "seen",
    [
        [],
        # between steps, before what counts, for another reason, unknown
        samples(12.5),
        samples(10.95),
        samples(12.95, bits=0x04),
        [Sample(12.95), Sample(reasons=0x40)],
    ],
)
def test_nothing_to_leave_out(seen):
    assert without_throttled_steps(ran(), EVENTS, seen) == ran()


def test_a_trial_that_throttled_most_of_the_time_says_nothing():
    found = without_throttled_steps(ran(), EVENTS, samples(11.95, 12.95, 13.95))
    assert (found.outcome, found.step_ms) == ("throttled", tuple(ALL[2:]))
    assert found.message == "3 of 5 steps were throttled"


LATE = {"first": 0, "last": 2, "why": "recompile"}
"""After two warm steps a late recompile, in which the GPU idles."""


def steps(*seconds):
    """The events of steps that follow each other from 0 s on."""
    ends = itertools.accumulate(seconds)
    return [
        {"step": number, "at": end, "ms": 1e3 * took}
        for number, (end, took) in enumerate(zip(ends, seconds, strict=True))
    ]


def metered(*stretches, every=4):
    """Samples of a GPU whose counter tells its energy."""
    each = [
        power for seconds, power in stretches for _ in range(round(every * seconds))
    ]
    joules = itertools.accumulate(power / every for power in each)
    return [
        Sample((n + 1) / every, energy_j=7e9 + spent) for n, spent in enumerate(joules)
    ]


@pytest.mark.parametrize(
    ("seconds", "left", "seen", "watts"),
    [
        ([0.5, 1, 5], [{**LATE, "last": 0}], [(0.5, 400), (6, 700)], 700.0),
        # what was before the steps that count is not of them
        ([0.5, 0.5, 20, *[0.5] * 10], [LATE], [(1, 700), (20, 130), (5, 700)], 700.0),
        # too short for the counter
        ([20, 0.3, 0.3], [{**LATE, "last": 0}], [(20, 130), (0.6, 700)], None),
        # 1.25 s at 600 W and 3 s at 700 W, between samples
        (
            [1.5, 1, 3],
            [{"first": 1, "last": 1, "why": "throttled"}],
            [(1.5, 600), (1, 100), (3, 700)],
            670.6,
        ),
    ],
)
def test_watts_are_of_the_steps_that_count(seconds, left, seen, watts):
    times = [1e3 * took for took in seconds]
    record = ran(all_step_ms=times, discarded=left)
    told = {"power_w": watts} if watts else {}
    assert power(record, steps(*seconds), metered(*seen)) == told


def test_a_counter_that_starts_again_tells_nothing():
    seen = [Sample(12.0, energy_j=9.0), Sample(15.0, energy_j=1.0)]
    assert power(ran(), EVENTS, seen) == {}


@pytest.mark.parametrize(
    ("times", "joules", "tokens"),
    [
        ([100.0] * 5, 60.0, 0.25),
        # a slow step is in the tokens and in the joules
        ([100.0] * 9 + [600.0], 85.0, 0.176471),
    ],
)
def test_energy_is_one_gpus_and_of_the_same_steps_as_its_tokens(times, joules, tokens):
    record = ran(power_w=500.0, communication_ms=20.0)._replace(step_ms=tuple(times))
    found = with_interval_and_energy(record, 8)
    assert (found.extra["joules_per_step"], found.tokens_per_joule) == (joules, tokens)
    low, high = found.median_step_ms_95
    assert low <= 100.0 <= high


def test_without_watts_there_is_no_energy():
    assert not {"tokens_per_joule", "joules_per_step"} & {
        *with_interval_and_energy(ran(), 1).data()
    }
    failed = but(Record({}, "oom"), power_w=500.0)
    assert with_interval_and_energy(failed, 1) == failed
