"""nvidia-smi's answers as data. No driver is involved."""

import pytest

from fp8tune.runners import smi
from fp8tune.runners.gpu import Gpu, Process, Sample, named_reasons
from tests.runners.fake_smi import install, script

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
[N/A], [N/A], [Not Supported], [Unknown Error], [N/A], [N/A]
"""


def test_samples_by_their_header():
    read = smi.Reader()
    header, first, second = map(read, STATE.splitlines())
    assert header is None
    assert first._replace(time=None) == Sample(None, 1755, 652.31, 61, 2, 4)
    assert second.time - first.time == pytest.approx(0.25)
    assert named_reasons(second.reasons) == ["power cap", "software thermal slowdown"]


@pytest.mark.parametrize("text", [HIDDEN, "a\nb\n", "a, b\n1, 2\n"])
def test_what_is_hidden_is_unknown(text):
    assert [smi.sample(row) for row in smi.rows(text)] == [Sample()]


@pytest.mark.parametrize("text", ["", "\n", "a, b\n", "a, b\n1\n", "No devices\n"])
def test_what_is_no_table(text):
    assert smi.rows(text) == []


def test_what_a_gpu_is_and_who_is_on_it(tmp_path, monkeypatch):
    apps = [
        ("12", "/usr/bin/python3", "3072"),
        ("13", "[Not Found]", "[N/A]"),
        ("x", "", ""),
    ]
    install(tmp_path, monkeypatch, apps=apps)
    found = smi.Smi(30.0)
    gpu = Gpu("NVIDIA H100 80GB HBM3", "580.82.07", 81559 / 1024, "9.0", "nvidia-smi")
    assert (found.gpu, found.failed, found.sliced) == (gpu, "", False)
    assert found.processes(30.0) == (
        Process(12, "/usr/bin/python3", 3.0),
        Process(13, "[Not Found]", None),
    )


MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"
LISTED = 'test "$1" = -L && echo "GPU 0: H100 (UUID: GPU-1)" && exit 0; '


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        (f"echo {MISMATCH}; exit 18", MISMATCH),
        (
            f"echo {MISMATCH}; echo; echo 'library: 5'; exit 18",
            f"{MISMATCH} library: 5",
        ),
        ("echo no libnvidia-ml.so >&2; exit 127", "no libnvidia-ml.so"),
        ("exit 9", "exit code 9"),
        ("printf '\\377'; exit 1", "\ufffd"),
        ("printf '%0999d' 7; exit 1", "0" * smi.LONGEST),
        ("echo No devices were found; exit 6", ""),
        (f"{LISTED}echo the GPU is lost; exit 15", "the GPU is lost"),
        ("exit 0", ""),
    ],
)
def test_a_driver_that_fails_is_quoted(tmp_path, monkeypatch, text, failed):
    script(tmp_path, monkeypatch, text)
    found = smi.Smi(30.0)
    assert (found.installed, found.gpu, found.failed) == (True, Gpu(), failed)


def test_a_program_that_hangs_is_not_waited_for(tmp_path, monkeypatch):
    script(tmp_path, monkeypatch, "exec sleep 1000")
    found = smi.Smi(0.2)
    assert (found.gpu, found.failed) == (Gpu(), "no answer in 0.2 s")


def test_no_program_is_no_failure(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = smi.Smi(30.0)
    assert (found.installed, found.gpu, found.failed) == (False, Gpu(), "")
