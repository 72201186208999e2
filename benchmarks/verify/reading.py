"""How fast ``fp8tune verify`` reads logs and traces of 1 GB, and in how much memory.

``python tests/verify/record.py FOLDER`` records a trace, and
``python -m benchmarks.verify.reading FOLDER/tensorwise-eager.json`` reads it, repeated
with moving timestamps, and a log of KempnerForge's steps, each in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import machine
from benchmarks.paths import ROOT
from fp8tune.verify.cause import texts
from fp8tune.verify.log import read as read_log
from fp8tune.verify.trace import read as read_trace

TIMES = re.compile(r'("ts": )(\d+\.\d+)')


def main(arguments: list[str] | None = None) -> int:
    """Write the files, read them and print the table."""
    parser = argparse.ArgumentParser("benchmarks.verify.reading", description=__doc__)
    parser.add_argument("trace", type=Path, help="a trace that torch.profiler wrote")
    parser.add_argument("--size", type=float, default=1e9, help="bytes of each file")
    parser.add_argument("--read", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.read:
        print(json.dumps(read(options.trace)))
        return 0
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, pieces in (
            ("trace.json", repeated(options.trace.read_text(), options.size)),
            ("steps.log", steps(options.size)),
        ):
            path = Path(folder) / name
            with path.open("w", encoding="utf-8") as file:
                file.writelines(pieces)
            command = [sys.executable, "-m", "benchmarks.verify.reading", "--read"]
            done = subprocess.check_output([*command, str(path)], cwd=ROOT)  # noqa: S603
            seconds, peak_mib = json.loads(done)
            megabytes = path.stat().st_size / 1e6
            path.unlink()
            speed = megabytes / seconds
            rows.append((name, f"{megabytes:,.0f}", f"{speed:.0f}", f"{peak_mib:.0f}"))
    print(machine.describe())
    print(machine.table(rows, ("file", "MB", "MB per s of CPU time", "peak MiB")))
    return 0


def read(path: Path) -> tuple[float, float]:
    """Return CPU time [s] and peak memory [MiB] of reading a file in this process."""
    begin = time.process_time()
    if path.suffix == ".log":
        read_log(str(path), causes=texts())
    else:
        read_trace(path)
    seconds = time.process_time() - begin
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def steps(size: float) -> Iterator[str]:
    """Yield lines of KempnerForge up to a size, with a checkpoint now and then."""
    draw = random.Random(1)  # noqa: S311
    written = step = 0
    while written < size:
        line = (
            f"[rank 0] INFO     [step {step}] loss={2 + draw.random():.4f} | "
            f"lr=3.00e-05 | grad_norm={draw.random():.3f} | "
            f"tok/s={1_600_000 + draw.randrange(50_000):,} | "
            f"mfu={50 + draw.random():.1f}% | mem=71.2/140GB | step_time=1.25s\n"
        )
        if step % 1000 == 0:
            line += f"[rank 0] INFO     Checkpoint committed: a/step_{step}\n"
        yield line
        written += len(line)
        step += 1


def repeated(text: str, size: float) -> Iterator[str]:
    """Yield a trace again and again, each time later, up to a size in characters."""
    before, begins, rest = text.partition('"traceEvents": [')
    events, ends, after = rest.rpartition("]")
    parts = TIMES.split(events.rstrip())
    fixed = [a + b for a, b in zip(parts[0:-1:3], parts[1::3], strict=True)]
    times = [float(value) for value in parts[2::3]]
    span = max(times) - min(times) + 1e4
    yield before + begins
    written = number = 0
    while written < size:
        moved = [f"{value + number * span:.3f}" for value in times]
        pieces = [a + b for a, b in zip(fixed, moved, strict=True)]
        block = ("," if number else "") + "".join(pieces) + parts[-1]
        written += len(block)
        number += 1
        yield block
    yield ends + after


if __name__ == "__main__":
    sys.exit(main())
