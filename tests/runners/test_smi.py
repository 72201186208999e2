"""nvidia-smi's CSV as data, and the GPU beside a trial. No driver is involved."""

import time

import pytest

from fp8tune.runners import smi
from fp8tune.runners.smi import Process, Sample
from fp8tune.runners.visible import Visible, found
from fp8tune.runners.watch import Guard, Sampler, beside, between, sharers, summary
from fp8tune.search.record import tight
from tests.runners.fake_smi import install, script
from tests.search.tries import GIVEN, ran

# The format of the documentation and of outputs that users have published; made up.
STATE = """\
timestamp, clocks.current.sm [MHz], power.draw [W], temperature.gpu, \
memory.used [MiB], clocks_event_reasons.active
2026/11/20 19:58:43.613, 1755, 652.31, 61, 2048, 0x0000000000000004
2026/11/20 19:58:43.863, 1410, 700.02, 84, 2048, 0x0000000000000024
"""
HIDDEN = """\
timestamp, clocks.current.sm [MHz], power.draw [W], temperature.gpu, \
memory.used [MiB], clocks_throttle_reasons.active
2026/11/20 19:58:43.613, [N/A], [Not Supported], [Unknown Error], [N/A], [N/A]
"""


def test_samples_by_their_header():
    first, second = (smi.sample(row) for row in smi.rows(STATE))
    assert first._replace(time=None) == Sample(None, 1755, 652.31, 61, 2, 4)
    assert second.time - first.time == pytest.approx(0.25)
    assert smi.named_reasons(second.reasons) == [
        "power cap",
        "software thermal slowdown",
    ]


@pytest.mark.parametrize(
    "text",
    [HIDDEN.replace("2026/11/20 19:58:43.613", "[N/A]"), "a\nb\n", "a, b\n1, 2\n"],
)
def test_what_is_hidden_is_unknown(text):
    assert [smi.sample(row) for row in smi.rows(text)] == [Sample()]


@pytest.mark.parametrize(
    "text", ["", "\n", "a, b\n", "a, b\n1\n", "No devices were found\n"]
)
def test_what_is_no_table(text):
    assert smi.rows(text) == []


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({}, "0"),
        ({"CUDA_VISIBLE_DEVICES": "3,4"}, "3"),
        ({"CUDA_VISIBLE_DEVICES": "GPU-12ab"}, "GPU-12ab"),
        ({"CUDA_VISIBLE_DEVICES": ""}, "0"),
    ],
)
def test_the_gpu_that_torch_takes(environment, name):
    assert smi.device({"PATH": "", **environment}) == Visible(name)


LISTING = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-11aa)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-22bb)
  MIG 1g.10gb     Device  0: (UUID: MIG-33cc)
  MIG 2g.20gb     Device  1: (UUID: MIG-44dd)
"""


@pytest.mark.parametrize(
    ("wanted", "is_"),
    [
        ("0", Visible("0")),
        ("GPU-11", Visible("GPU-11aa")),
        ("1", Visible("1", "1g.10gb")),
        ("GPU-22bb", Visible("1", "1g.10gb")),
        ("MIG-44dd", Visible("1", "2g.20gb")),
        ("MIG-GPU-22bb/1/0", Visible("GPU-22bb", "slice")),
        ("MIG-unknown", Visible("MIG-unknown")),
        ("7", Visible("7")),
    ],
)
def test_a_slice_is_asked_for_by_its_gpu(wanted, is_):
    assert found(wanted, LISTING) == is_


def test_of_a_slice_nothing_is_told_that_is_of_its_gpu(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-44dd")
    install(tmp_path, monkeypatch, [("12", "other", "9000")], (), LISTING, "1")
    assert smi.name() == "NVIDIA H100 80GB HBM3 MIG 2g.20gb"
    assert smi.driver() == "580.82.07"
    assert (smi.state(), smi.processes()) == (Sample(), [])
    assert not Guard().sees


def test_without_a_driver_nothing_is_known(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (smi.ask("gpu", ("name",)), smi.processes(), smi.state()) == (
        [],
        [],
        Sample(),
    )
    assert Guard().free(1.0) == {}
    sampler = Sampler()
    with sampler.running():
        pass
    assert summary(sampler.samples()) == {}


@pytest.mark.parametrize("unknown", [(), ("clocks_event_reasons.active",)])
def test_a_driver_is_asked_by_the_names_that_it_knows(tmp_path, monkeypatch, unknown):
    install(tmp_path, monkeypatch, unknown=unknown)
    assert smi.state()._replace(time=None) == Sample(
        None, 1755, 652.31, 61, 520 / 1024, 4, 0.0
    )
    start, sampler = time.time(), Sampler()
    with sampler.running():
        while len(sampler.samples()) < 3:
            time.sleep(0.05)
            assert time.time() < start + 30
    found = between(sampler.samples(), start - 1, time.time() + 1)
    assert summary(found) == {
        "sm_mhz": 1755,
        "temperature_c": 61,
        "slowed": 0.0,
        "clock_reasons": ["power cap"],
    }


def test_processes_are_named(tmp_path, monkeypatch):
    apps = [
        ("12", "/usr/bin/python3", "3072"),
        ("13", "[Not Found]", "[N/A]"),
        ("x", "", ""),
    ]
    install(tmp_path, monkeypatch, apps=apps)
    found = [Process(12, "/usr/bin/python3", 3.0), Process(13, "[Not Found]", None)]
    assert smi.processes() == found
    more = Guard().free(1.0)
    assert more["gpu_used_gib"] == 0.51
    assert sharers(more) == "/usr/bin/python3 (pid 12, 3.0 GiB), [Not Found] (pid 13)"


def test_a_program_that_hangs_is_not_waited_for(tmp_path, monkeypatch):
    script(tmp_path, monkeypatch, "exec sleep 1000")
    monkeypatch.setattr(smi, "DEADLINE_S", 0.2)
    assert smi.state() == Sample()
    assert smi.failure() == "no answer in 0.2 s"


def test_memory_is_waited_for():
    used = iter([1.0, 70.0, 70.0, 1.2, 1.2])
    guard = Guard(lambda: Sample(used_gib=next(used)), list)
    assert guard.free(100.0) == {"gpu_used_gib": 1.2}


def test_memory_that_stays_is_not_waited_for_long():
    used = iter([1.0, *[70.0] * 100])
    other = Process(7, "python", 69.0)
    guard = Guard(lambda: Sample(used_gib=next(used)), lambda: [other], wait=0.6)
    start = time.monotonic()
    assert guard.free(100.0) == {"gpu_used_gib": 70.0, "others": [other._asdict()]}
    assert time.monotonic() - start < 30


def test_who_joins_during_a_trial_is_named_too():
    one, two = Process(7, "python", 69.0), Process(8, "python", 5.0)
    lists = iter([[one], [two]])
    guard = Guard(lambda: Sample(used_gib=1.0), lambda: next(lists))
    before = guard.free(100.0)
    assert sharers(before) == "python (pid 7, 69.0 GiB)"
    after = guard.beside(before)["others"]
    assert sorted(other["pid"] for other in after) == [7, 8]


@pytest.mark.parametrize(
    "odd",
    ["x", 7, None, {}, ["x", None, {"pid": "x"}, {"name": [], "pid": 1, "gib": "x"}]],
)
def test_a_record_may_say_odd_things_of_others(odd):
    assert sharers({"others": odd}) == ""


def test_a_driver_that_stops_answering_is_asked_no_more():
    answers = iter([Sample(used_gib=1.0), Sample()])
    guard = Guard(lambda: next(answers), list)
    assert [guard.free(100.0), guard.free(100.0), guard.sees] == [{}, {}, False]


@pytest.mark.parametrize(
    ("looks", "told"),
    [
        ([0.0], {}),
        ([0.9, 0.9, 0.1], {}),
        ([0.9] * 4, {"gpu_busy": 0.9}),
        ([None], {}),
    ],
)
def test_who_computes_while_no_trial_does_is_seen(looks, told):
    answers = iter([None, *looks])
    guard = Guard(lambda: Sample(used_gib=1.0, busy=next(answers)), list)
    assert guard.beside({}) == told


def test_what_computed_before_a_trial_is_not_forgotten_after_it():
    guard = Guard(lambda: Sample(used_gib=1.0, busy=0.0), list)
    assert guard.beside({"gpu_busy": 0.5}) == {"gpu_busy": 0.5}


OTHERS = {"others": [Process(7, "python", 69.0)._asdict()]}
HOT = {"slowed": 0.4, "clock_reasons": ["hardware thermal slowdown"]}


@pytest.mark.parametrize(
    ("outcome", "before", "steady", "then", "message"),
    [
        ("ok", {}, {}, "ok", None),
        ("ok", OTHERS, {"slowed": 0.05, "clock_reasons": []}, "ok", None),
        ("oom", {}, {}, "oom", None),
        ("oom", OTHERS, {}, "launch", "out of memory beside python (pid 7, 69.0 GiB)"),
        (
            "oom",
            {"gpu_used_gib": 60.0},
            {},
            "launch",
            "out of memory beside 60.0 GiB that were in use before",
        ),
        ("oom", {"gpu_used_gib": 0.5}, {}, "oom", None),
        ("ok", {"gpu_used_gib": 60.0}, {}, "ok", None),
        (
            "ok",
            {**OTHERS, "gpu_busy": 0.9},
            {},
            "throttled",
            "python (pid 7, 69.0 GiB) computes on the GPU, 90 % of the time",
        ),
        (
            "ok",
            {"gpu_busy": 0.3},
            {},
            "throttled",
            "a process that is not shown computes on the GPU, 30 % of the time",
        ),
        ("nan", {"gpu_busy": 0.3}, {}, "nan", None),
        ("ok", {}, HOT, "throttled", "40 % of the time: hardware thermal slowdown"),
        ("nan", {}, HOT, "nan", None),
    ],
)
def test_what_the_gpu_makes_of_a_trial(outcome, before, steady, then, message):
    found = beside(ran(GIVEN, outcome=outcome), before, steady)
    assert (found.outcome, found.more.get("message")) == (then, message)
    assert found.more.items() >= {**before, **steady}.items()


@pytest.mark.parametrize(
    ("before", "then"),
    [({}, "ok"), (OTHERS, "launch"), ({"gpu_used_gib": 60.0}, "launch")],
)
def test_memory_that_others_hold_is_no_lack_of_the_setting(before, then):
    found = beside(ran(GIVEN, more={"alloc_retries": 2}), before, {})
    assert found.outcome == then
    assert bool(tight(found)) == (then == "ok")


def test_the_share_of_a_hot_time():
    hot, fine = Sample(0.0, reasons=0x24), Sample(1.0, reasons=0x4)
    assert summary([hot, fine, fine, fine]) == {
        "slowed": 0.25,
        "clock_reasons": ["power cap", "software thermal slowdown"],
    }
