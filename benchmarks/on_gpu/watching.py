"""What the driver tells of a GPU that is idle, busy, and left again.

Shows what ``fp8tune/runners`` takes for granted: that the use of an idle GPU is none
while one process keeps the driver loaded, and what one-shot calls of nvidia-smi read
instead; how much memory a CUDA context takes; which watts the energy counter tells; how
soon the memory of a killed process is back.
"""

from __future__ import annotations

import itertools
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from fp8tune.runners import driver
from fp8tune.runners.gpu import Sample

UNLOADED_S = 10.0
"""Time without any process on the GPU, for the driver to unload [s]."""
CALLS = 3
BUSY = """
import sys, time, torch
device = sys.argv[1]
ones = torch.ones(64, 64, dtype=torch.bfloat16, device=device)
(ones @ ones).sum().item()
print("touched", flush=True)
sys.stdin.readline()
size = 8192 if device == "cuda" else 256
a = torch.ones(size, size, dtype=torch.bfloat16, device=device)
while True:
    (a @ a)[0, 0].item()
"""
"""A process that makes a context and multiplies once, then for ever when told to."""


class Seen(NamedTuple):
    """The GPU over a stretch of time; what was not told is ``None``.

    ``counter_w`` are the watts by the energy counter, ``gap_s`` the longest time
    between two samples.
    """

    samples: int
    use: float | None
    used_gib: float | None
    counter_w: float | None
    gap_s: float | None


def measure(device: str, seconds: float) -> dict[str, Any]:
    """Watch the GPU idle, with a context on it, busy, and after that; needs torch."""
    start = time.monotonic()
    with closing(driver.watched()) as found:
        said: dict[str, Any] = {
            **found.gpu._asdict(),
            "failed": found.failed,
            "first_answer_s": time.monotonic() - start,
            "idle": _watch(found, seconds)._asdict(),
        }
        idle = said["idle"]["used_gib"]
        with _process(device) as process:
            assert process.stdin is not None
            said["with_context"] = _watch(found, seconds)._asdict()
            own = {p.pid: p.gib for p in found.look().processes or ()}
            said["context_gib"] = own.get(process.pid)
            process.stdin.write("go\n")
            process.stdin.flush()
            time.sleep(1.0)
            said["busy"] = _watch(found, seconds)._asdict()
        said["released_s"] = _released(found, idle)
    said["one_shots"] = list(_one_shots())
    return said


def _watch(found: driver.Driver, seconds: float) -> Seen:
    start = time.time()
    time.sleep(seconds)
    return summed_up(found.samples(start, time.time()))


def summed_up(samples: Sequence[Sample]) -> Seen:
    """Sum up the samples of a stretch of time, in their order."""
    times = [s.time for s in samples if s.time is not None]
    pairs = itertools.pairwise(times)
    counted = [
        (s.time, s.energy_j)
        for s in samples
        if s.time is not None and s.energy_j is not None
    ]
    counter = None
    if len(counted) > 1:
        (first, before), (last, after) = counted[0], counted[-1]
        counter = (after - before) / (last - first)
    return Seen(
        len(samples),
        _median(s.busy for s in samples),
        _median(s.used_gib for s in samples),
        counter,
        max((later - one for one, later in pairs), default=None),
    )


def _median(values: Iterator[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


@contextmanager
def _process(device: str) -> Iterator[subprocess.Popen[str]]:
    """Run ``BUSY`` from its first product on, killed at the end of the block."""
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", BUSY, device],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            process.kill()


def _released(found: driver.Driver, idle: float | None) -> float | None:
    """Return how long the memory of the killed process stays [s]."""
    start = time.monotonic()
    while idle is not None and time.monotonic() - start < 60:
        used = found.look().used_gib
        if used is not None and used <= idle + 0.05:
            return time.monotonic() - start
    return None


def _one_shots() -> Iterator[dict[str, Any]]:
    """Ask nvidia-smi a few times, each after the driver had time to unload."""
    program = shutil.which("nvidia-smi")
    for _ in range(CALLS if program else 0):
        time.sleep(UNLOADED_S)
        start = time.monotonic()
        done = subprocess.run(  # noqa: S603
            [str(program), "--query-gpu=utilization.gpu", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=False,
        )
        took = time.monotonic() - start
        yield {"seconds": took, "use": done.stdout.split("\n")}
