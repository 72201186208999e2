"""Steps with a throttled GPU are left out, and a record says its energy."""

import pytest

from fp8tune.runners.builtin.counted import summed_up, without_slowed
from fp8tune.runners.smi import Sample
from fp8tune.search.record import Record

ALL = [500.0, 100.0, 100.0, 110.0, 100.0, 100.0, 100.0]
EVENTS = [
    {"step": number, "ms": took, "at": 10.0 + number} for number, took in enumerate(ALL)
]
WARM = {"first": 0, "last": 1, "why": "warm-up"}


def ran(**more):
    fields = {"all_step_ms": ALL, "discarded": [WARM], **more}
    return Record({}, "ok", 1000.0, tuple(ALL[2:]), more=fields)


def samples(*times, bits=0x40):
    return [Sample(time, reasons=bits) for time in times]


def test_a_throttled_step_is_left_out():
    found = without_slowed(ran(), EVENTS, samples(12.95))
    assert found.outcome == "ok"
    assert found.step_ms == (100.0, 100.0, 100.0, 100.0)
    assert found.tokens_per_second == 1000.0
    slow = {"first": 3, "last": 3, "why": "throttled"}
    assert found.more["discarded"] == [WARM, slow]


def test_the_speed_is_of_the_steps_that_are_left():
    record = ran()._replace(step_ms=(120.0, 120.0, 120.0, 100.0, 100.0))
    found = without_slowed(record, EVENTS, samples(11.95, 12.95))
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
    assert without_slowed(ran(), EVENTS, seen) == ran()


def test_a_trial_that_throttled_most_of_the_time_says_nothing():
    found = without_slowed(ran(), EVENTS, samples(11.95, 12.95, 13.95))
    assert (found.outcome, found.step_ms) == ("throttled", tuple(ALL[2:]))
    assert found.more["message"] == "3 of 5 steps were throttled"


def test_energy_is_one_gpus():
    record = ran(power_w=500.0, communication_ms=20.0)
    said = summed_up(record, 8).more
    assert (said["joules_per_step"], said["tokens_per_joule"]) == (60.0, 0.25)
    assert said["median_step_ms"] == 100.0
    low, high = said["median_step_ms_95"]
    assert low <= 100.0 <= high


def test_without_watts_there_is_no_energy():
    assert "tokens_per_joule" not in summed_up(ran(), 1).more
    failed = Record({}, "oom", more={"power_w": 500.0})
    assert summed_up(failed, 1) == failed
