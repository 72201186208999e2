"""The GPU beside a trial: who else is on it, and what that makes of the trial."""

import pytest

from fp8tune.runners.driver import Driver
from fp8tune.runners.gpu import Gpu, Process, Sample
from fp8tune.runners.watch import Guard, summary, with_gpu_state
from fp8tune.trials.record import process_names
from tests.search.tries import GIVEN, ran


class Seen(Driver):
    """A driver that tells one sample after the other, the last one for ever."""

    def __init__(self, *samples):
        super().__init__(Gpu("H100"), unwatched="no answer")
        self.left = list(samples)

    def look(self, wait=0.0):
        return self.left.pop(0) if self.left[1:] else self.left[0]


def holding(*gib):
    return [Sample(used_gib=used, processes=()) for used in gib]


def test_memory_is_waited_for():
    guard = Guard(Seen(*holding(1.0, 70.0, 70.0, 1.2)))
    assert guard.free(100.0) == {"gpu_used_gib": 1.2}


def test_memory_that_stays_is_not_waited_for_twice():
    held = Sample(used_gib=70.0, processes=(Process(7, "python", 69.0),))
    driver = Seen(*holding(1.0), held)
    guard = Guard(driver, wait=0.6)
    told = {"gpu_used_gib": 70.0, "others": [held.processes[0]._asdict()]}
    assert guard.free(100.0) == told
    guard = Guard(driver, wait=1e9)
    assert guard.free(1e9) == told


def test_who_joins_during_a_trial_is_named_too():
    one, two = Process(7, "python", 69.0), Process(8, "python", 5.0)
    before = Sample(used_gib=69.0, processes=(one,))
    after = Sample(used_gib=5.0, processes=(two,))
    guard = Guard(Seen(before, before, after))
    said = guard.free(100.0)
    assert (
        process_names(with_gpu_state(ran(GIVEN), said, {}).others)
        == "python (pid 7, 69.0 GiB)"
    )
    said = guard.free(100.0, said)
    assert said["gpu_used_gib"] == 69.0
    assert sorted(other["pid"] for other in said["others"]) == [7, 8]


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        *((odd, "") for odd in ("x", 7, None, {}, ["x", None, {"pid": "x"}])),
        ([{"name": [], "pid": 1, "gib": "x"}], ""),
        ([{"name": "a", "pid": 1, "gib": "x"}], "a (pid 1)"),
    ],
)
def test_a_record_may_say_odd_things_of_others(odd, said):
    assert process_names(ran(GIVEN, more={"others": odd}).others) == said


def test_a_driver_that_stops_answering_and_starts_again():
    driver = Seen(*holding(1.0), Sample(), *holding(1.0))
    guard = Guard(driver)
    assert guard.free(100.0, {"gpu_busy": 0.5}) == {
        "gpu_busy": 0.5,
        "unwatched": "no answer",
    }
    assert guard.free(100.0) == {"gpu_used_gib": 1.0}


SMALL, LARGE = Process(7, "Xorg", 0.1), Process(7, "python", 3.0)
HIDDEN = Process(7, "python", None)


@pytest.mark.parametrize(
    ("used", "processes", "uses", "told"),
    [
        # a driver that has just started, without a process or with a small one
        (0.003, (), [0.99], {}),
        (0.1, (SMALL,), [0.99], {}),
        (3.0, (LARGE,), [0.99], {"others": [LARGE._asdict()], "gpu_busy": 0.99}),
        (3.0, (LARGE,), [0.99, 0.99, 0.1], {"others": [LARGE._asdict()]}),
        (3.0, (LARGE,), [None], {"others": [LARGE._asdict()]}),
        # a container hides the processes, or their memory
        (3.0, (), [0.99], {"gpu_busy": 0.99}),
        (3.0, None, [0.99], {"gpu_busy": 0.99}),
        (0.9, None, [0.99], {}),
        (0.9, (HIDDEN,), [0.99], {"others": [HIDDEN._asdict()]}),
    ],
)
def test_who_computes_while_no_trial_does_is_seen(used, processes, uses, told):
    first = Sample(used_gib=used, processes=processes)
    guard = Guard(Seen(first, *(first._replace(busy=use) for use in uses)))
    assert guard.free(100.0) == {"gpu_used_gib": round(used, 2), **told}


def test_what_computed_before_a_trial_is_not_forgotten_after_it():
    guard = Guard(Seen(*holding(1.0)))
    assert guard.free(1.0, {"gpu_busy": 0.5})["gpu_busy"] == 0.5


OTHERS = {"others": [Process(7, "python", 69.0)._asdict()], "gpu_used_gib": 69.0}
LITTLE = {"others": [Process(7, "python", 0.5)._asdict()], "gpu_used_gib": 0.5}
HOT = {"slowed": 0.4, "clock_reasons": ["hardware thermal slowdown"]}


@pytest.mark.parametrize(
    ("outcome", "before", "steady", "then", "message"),
    [
        ("ok", {}, {}, "ok", None),
        ("ok", OTHERS, {"slowed": 0.05, "clock_reasons": []}, "ok", None),
        ("oom", {}, {}, "oom", None),
        (
            "oom",
            OTHERS,
            {},
            "shared",
            "out of memory with python (pid 7, 69.0 GiB) on the GPU",
        ),
        ("oom", LITTLE, {}, "oom", None),
        (
            "oom",
            {"gpu_used_gib": 1.1},
            {},
            "shared",
            "out of memory with 1.1 GiB of a hidden process on the GPU",
        ),
        ("ok", {"gpu_used_gib": 60.0}, {}, "ok", None),
        (
            "ok",
            {**OTHERS, "gpu_busy": 0.9},
            {},
            "shared",
            "python (pid 7, 69.0 GiB) computes on the GPU, 90 % of the time",
        ),
        (
            "ok",
            {"gpu_busy": 0.3},
            {},
            "shared",
            "a hidden process computes on the GPU, 30 % of the time",
        ),
        ("nan", {"gpu_busy": 0.3}, {}, "nan", None),
        ("ok", {}, HOT, "throttled", "40 % of the time: hardware thermal slowdown"),
        ("nan", {}, HOT, "nan", None),
    ],
)
def test_what_the_gpu_makes_of_a_trial(outcome, before, steady, then, message):
    found = with_gpu_state(ran(GIVEN, outcome=outcome), before, steady)
    assert (found.outcome, found.data().get("message")) == (then, message)
    assert found.data().items() >= {**before, **steady}.items()


@pytest.mark.parametrize(
    ("before", "then"), [({}, "ok"), (LITTLE, "ok"), (OTHERS, "shared")]
)
def test_memory_that_others_hold_is_no_lack_of_the_setting(before, then):
    found = with_gpu_state(ran(GIVEN, more={"alloc_retries": 2}), before, {})
    assert found.outcome == then
    assert bool(found.memory_shortage) == (then == "ok")


def test_the_driver_is_a_version_of_the_trial():
    found = ran(GIVEN, more={"versions": {"torch": "2.13.0"}})
    said = with_gpu_state(found, {}, {}, "580.82.07").versions
    assert said == {"torch": "2.13.0", "driver": "580.82.07"}
    assert not with_gpu_state(ran(GIVEN), {}, {}, "580.82.07").versions


def test_the_gpu_in_the_steady_time():
    hot, fine = Sample(reasons=0x24, sm_mhz=1200), Sample(reasons=0x4, sm_mhz=1755)
    first = fine._replace(sm_mhz=1980, temperature_c=70)
    assert summary([first, first, fine, fine, hot, hot]) == {
        "sm_mhz": 1755,
        "temperature_c": 70,
        "slowed": 0.333,
        "clock_reasons": ["power cap", "software thermal slowdown"],
    }
    assert summary([Sample(), Sample()]) == {}
