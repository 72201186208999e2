"""What is said of a driver that fails."""

import pytest

from fp8tune.runners import smi
from tests.runners.fake_smi import script

MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"


@pytest.mark.parametrize(
    ("text", "failure"),
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
        ('test "$1" = -L && exit 0; echo the GPU is lost; exit 15', "the GPU is lost"),
        ("exit 0", ""),
    ],
)
def test_a_driver_that_fails_is_quoted(tmp_path, monkeypatch, text, failure):
    script(tmp_path, monkeypatch, text)
    assert (smi.name(), smi.failure()) == ("", failure)


def test_no_program_is_no_failure(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert smi.failure() == ""
