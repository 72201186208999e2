"""A fake libnvidia-ml.so.1, so that the real pynvml runs without a GPU."""

import atexit
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from fp8tune.runners import driver

IDLE = {
    "name": "NVIDIA H100 80GB HBM3",
    "driver": "580.82.07",
    "total_mib": 81559,
    "reserved_mib": 560,
    "used_mib": 3,
    "counter_watts": 70,
    "celsius": 30,
    "mhz": 345,
    "use": 0,
    "reasons": 1,
    "apps": "",
}
"""An H100 that nobody uses; its figures are invented."""


@functools.cache
def library():
    """Compile it; the folder that it lies in."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler here")
    folder = tempfile.mkdtemp(prefix="fake-nvml-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    source = Path(__file__).with_suffix(".c")
    out = os.path.join(folder, "libnvidia-ml.so.1")
    line = [compiler, "-Wall", "-Werror", "-shared", "-fPIC", str(source), "-o", out]
    subprocess.run(line, check=True)
    return folder


def install(folder, monkeypatch, **state):
    """Put it where the loader finds it first; what it tells can change at any time.

    A ``None`` leaves a name out: it is not supported. Returns what changes it.
    """
    monkeypatch.setenv("LD_LIBRARY_PATH", library())
    monkeypatch.setenv("FAKE_NVML", str(folder / "nvml"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    driver.close()
    told = {}

    def tell(**changed):
        told.update(changed)
        lines = (
            f"{name} {value}\n" for name, value in told.items() if value is not None
        )
        new = folder / "nvml.new"
        new.write_text("".join(lines))
        new.rename(folder / "nvml")

    tell(**(IDLE | state))
    return tell


def hide(folder, monkeypatch):
    """Have no NVML on this machine: the loader stops at a file that is no library."""
    (folder / "libnvidia-ml.so.1").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    driver.close()
