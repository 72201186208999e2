"""What the driver tells, through the real pynvml and a fake library."""

import sys
import time
from contextlib import closing

import pytest

from fp8tune.runners import driver, nvml, probe
from fp8tune.runners.driver import current, watched
from fp8tune.runners.gpu import Gpu, Process, Sample
from tests.each import each
from tests.runners import fake_nvml

H100 = Gpu("NVIDIA H100 80GB HBM3", "580.82.07", 81559 / 1024, "9.0", "NVML")
IDLE = Sample(None, 345, 30, 3 / 1024, 1, 0.0, None, ())


def until(look, condition):
    """Look again until something holds; a limit that no machine comes near."""
    end = time.monotonic() + 120
    while not condition(seen := look()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return seen


def test_an_idle_gpu(tmp_path, monkeypatch):
    fake_nvml.install(tmp_path, monkeypatch)
    found = current()
    assert (found.gpu, found.failed, found.answered) == (H100, "", True)
    first = found.look()
    second = found.look()
    assert first._replace(time=None, energy_j=None) == IDLE
    took = second.time - first.time
    assert took > 0
    assert second.energy_j - first.energy_j == pytest.approx(70 * took, rel=0.2)
    assert found.samples(first.time, second.time) == [first, second]
    assert current() is found


def test_what_a_driver_does_not_tell_is_unknown(tmp_path, monkeypatch):
    names = ("counter_watts", "celsius", "mhz", "use", "reasons", "apps")
    fake_nvml.install(tmp_path, monkeypatch, **dict.fromkeys(names))
    assert current().look()._replace(time=None) == Sample(used_gib=3 / 1024)


def test_others_on_the_gpu(tmp_path, monkeypatch):
    fake_nvml.install(tmp_path, monkeypatch, apps="12:3072 1300:-", used_mib=5000)
    seen = current().look()
    assert seen.processes == (
        Process(12, "program-12", 3.0),
        Process(1300, "unknown", None),
    )
    assert seen.used_gib == 5000 / 1024  # without what the driver reserves


def test_gpus_that_a_job_may_not_use_do_not_count(tmp_path, monkeypatch):
    fake_nvml.install(tmp_path, monkeypatch, count=3, forbidden=2)
    assert current().gpu == H100
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-3")  # the third of the machine
    assert current().gpu == H100
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert current().gpu == Gpu()


def test_a_first_answer_may_take_longer_than_others(tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "ANSWER_S", 0.01)
    fake_nvml.install(tmp_path, monkeypatch, init_s=1.5)
    assert current().gpu == H100


def test_a_driver_that_never_answers(tmp_path, monkeypatch):
    fake_nvml.install(tmp_path, monkeypatch, hangs=1)
    monkeypatch.setattr(driver, "START_S", 1.0)
    with closing(watched()) as found:
        assert (found.gpu, found.answered) == (Gpu(), False)
        assert found.failed == "NVML gives no answer in 1 s"
        assert found.look() == Sample()


def test_a_driver_that_is_silent_for_a_while(tmp_path, monkeypatch):
    tell = fake_nvml.install(tmp_path, monkeypatch)
    found = current()
    assert found.look().used_gib == 3 / 1024
    tell(hangs=1)
    until(lambda: found.look(3.0), lambda seen: seen == Sample())
    assert found.unwatched == "no answer in 3 s"
    assert found.look(1000.0) == Sample()  # it is not waited for again
    tell(hangs=None)
    until(found.look, lambda seen: seen.used_gib == 3 / 1024)
    assert found.unwatched == ""


def test_a_watching_process_that_ends(tmp_path, monkeypatch):
    fake_nvml.install(tmp_path, monkeypatch)
    found = current()
    found.look()
    found.close()
    assert found.look(1000.0) == Sample()
    assert found.unwatched == "the process that watches it ended"


@pytest.mark.parametrize(
    ("state", "failed", "answered"),
    [
        ({"init_error": 9}, "NVML fails: Driver Not Loaded", False),
        ({"init_error": 12}, "", False),
        ({"count": 0}, "", True),
        ({"count": 2, "forbidden": 2}, "", True),
    ],
)
def test_nvml_without_a_gpu(tmp_path, monkeypatch, state, failed, answered):
    fake_nvml.install(tmp_path, monkeypatch, **state)
    with closing(watched()) as found:
        said = (found.gpu, found.failed, found.answered)
    assert said == (Gpu(), failed, answered)


def test_another_environment_is_another_gpu(tmp_path, monkeypatch):
    fake_nvml.install(tmp_path, monkeypatch, count=2)
    first = current()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    second = current()
    assert second.gpu == H100
    assert first is not second
    assert first.look(1000.0) == Sample()


def test_the_gpus_of_a_trial_are_watched_together(tmp_path, monkeypatch):
    hot = {"mhz3": 300, "celsius3": 85, "reasons3": 0x40, "used_mib3": 4096}
    fake_nvml.install(tmp_path, monkeypatch, count=3, **hot)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2,7,1")
    two = current(2)
    assert two.gpu == H100._replace(visible=2)  # torch stops at the unknown one
    first, second = two.look(), two.look()
    assert first._replace(time=None, energy_j=None) == Sample(
        None, 300, 85, 4.0, 0x41, 0.0, None, ()
    )
    took = second.time - first.time
    assert second.energy_j - first.energy_j == pytest.approx(140 * took, rel=0.2)
    assert current(1).look().used_gib == 3 / 1024


SAID = {"device": "NVIDIA H200", "capability": "9.0", "memory_gib": 139.8}


def test_a_slice_is_asked_of_torch_alone(tmp_path, monkeypatch):
    fake_nvml.install(tmp_path, monkeypatch, sliced=1)
    said = f"import json; print(json.dumps({SAID}))"
    monkeypatch.setattr(probe, "COMMAND", (sys.executable, "-c", said))
    found = current()
    assert (found.gpu.source, found.unwatched) == ("torch", driver.UNWATCHED)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-33cc")
    assert current().gpu.source == "torch"


@pytest.mark.parametrize(
    ("said", "gpu"),
    [
        (f"print({SAID})", Gpu()),  # no JSON: it said nothing
        (
            f"import json; print(json.dumps({SAID}))",
            Gpu("NVIDIA H200", "", 139.8, "9.0", "torch"),
        ),
    ],
)
def test_torch_where_no_driver_can_be_asked(tmp_path, monkeypatch, said, gpu):
    fake_nvml.hide(tmp_path, monkeypatch)
    monkeypatch.setattr(probe, "COMMAND", (sys.executable, "-c", said))
    found = current()
    assert (found.gpu, found.failed, found.answered) == (gpu, "", False)
    assert (found.look(), found.unwatched) == (Sample(), driver.UNWATCHED)


@each(
    ("devices", "seen"),
    [
        (None, [0, 1]),
        ("", [0, 1]),
        ("1, 0", [1, 0]),
        ("GPU-11", [0]),
        ("0,7,1", [0]),
        ("7", []),
    ],
)
def test_the_gpus_that_torch_takes(devices, seen):
    environment = {} if devices is None else {"CUDA_VISIBLE_DEVICES": devices}
    assert nvml.visible_gpus(["GPU-11aa", "GPU-22bb"], environment) == seen
