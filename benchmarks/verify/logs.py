"""How fast `fp8tune verify` reads logs, and in how much memory.

`python -m benchmarks.verify.logs FOLDER` writes logs of the given size into FOLDER,
reads each in a process of its own, and removes them. `wc -l` and `grep -c` of the same
file take turns with it; their times are the unit of the ratios, since they meet the
same moments of the machine. All read from the page cache. Speed is by CPU time, user
and system, so that other programs on the machine change it little; the wall times stand
beside it in the JSON file.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import machine
from benchmarks.paths import RESULTS, ROOT
from fp8tune.verify.cause import texts
from fp8tune.verify.log import read

WORDS = 5000
CHUNK = 20_000
"""Lines that are made at a time; the same come again with other steps."""

TARGET = 200.0
"""MB/s for a log of steps."""


class Kind(NamedTuple):
    """A kind of log: what its lines are, and its share of the size asked for."""

    name: str
    lines: Callable[[random.Random], Iterator[str]]
    share: float


def steps(random_: random.Random) -> Iterator[str]:
    """Yield lines of KempnerForge, with a checkpoint now and then."""
    for step in range(1 << 62):
        yield (
            f"[rank 0] INFO     [step {step}] loss={2 + random_.random():.4f} | "
            f"lr=3.00e-05 | grad_norm={random_.random():.3f} | "
            f"tok/s={1_600_000 + random_.randrange(50_000):,} | "
            f"mfu={50 + random_.random():.1f}% | mem=71.2/140GB | step_time=1.25s"
        )
        if step % 1000 == 0:
            yield f"[rank 0] INFO     Checkpoint committed: a/step_{step} (step={step})"


def coloured(random_: random.Random) -> Iterator[str]:
    """Yield lines of torchtitan on a terminal, of four ranks."""
    for step in range(1 << 62):
        for rank in range(4):
            yield (
                f"[rank{rank}]:[titan] 2026-01-01 00:00:00,000 - root - INFO - "
                f"\x1b[31mstep: {step:2}  \x1b[32mloss: {2 + random_.random():8.5f}  "
                f"\x1b[38;2;180;60;0mgrad_norm: {random_.random():7.4f}  "
                "\x1b[38;2;54;234;195mmemory: 51.02GiB(64.41%)  "
                f"\x1b[34mtps: {8000 + random_.randrange(999):,}  "
                "\x1b[36mtflops: 471.20  \x1b[35mmfu: 47.60%\x1b[39m"
            )


def addresses(random_: random.Random) -> Iterator[str]:
    """Yield lines of NCCL, each with addresses of its own."""
    while True:
        rank = random_.randrange(64)
        yield (
            f"node{rank // 8}:{rank + 4000}:{rank + 5000} [{rank % 8}] NCCL INFO "
            f"Channel {random_.randrange(32):02d}/0 : {rank}[{rank % 8}] -> "
            f"{random_.randrange(64)}[0] [send] via NET/IB/0/GDRDMA "
            f"comm 0x{random_.getrandbits(48):x} commId {random_.getrandbits(64):016x}"
        )


def unique(random_: random.Random) -> Iterator[str]:
    """Yield lines of which no two are alike, the worst case."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(random_.choices(letters, k=6)) for _ in range(WORDS)]
    while True:
        text = " ".join(random_.choices(words, k=14))
        yield f"2026-01-01 00:00:00,000 DEBUG {text}"


KINDS = (
    Kind("steps", steps, 1.0),
    Kind("coloured steps of 4 ranks", coloured, 0.2),
    Kind("steps, gzip", steps, 0.2),
    Kind("lines of NCCL", addresses, 0.2),
    Kind("lines all different", unique, 0.04),
)


def main() -> int:
    """Make, read, compare, print and save; 1 if the target is missed."""
    parser = argparse.ArgumentParser(prog="logs", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS / "verify_logs.json")
    parser.add_argument("--read", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        print(json.dumps(read_once(given.folder)))
        return 0
    load = os.getloadavg()[0]
    rows = [measure(kind, given.folder, given.gigabytes, given.runs) for kind in KINDS]
    found = {"machine": machine.describe(), "load": load, "logs": rows}
    given.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    text = page(found)
    given.output.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)
    return 0 if rows[0]["mb_per_second"] >= TARGET else 1


def measure(kind: Kind, folder: Path, gigabytes: float, runs: int) -> dict[str, Any]:
    """Write a log and read it in turns with other programs."""
    path = folder / "verify_logs.log"
    write(path, kind, int(gigabytes * kind.share * 1e9))
    size = path.stat().st_size
    if "gzip" in kind.name:
        packed = path.with_suffix(".gz")
        with path.open("rb") as source, gzip.open(packed, "wb", 1) as target:
            shutil.copyfileobj(source, target)
        path.unlink()
        path = packed
    command = [sys.executable, "-m", "benchmarks.verify.logs", "--read", str(path)]
    search = ["grep", "-c", "OutOfMemoryError", str(path)]
    reads, counts, searches = [], [], []
    for _ in range(runs):
        output = subprocess.check_output(command, cwd=ROOT)  # noqa: S603
        reads.append(json.loads(output))
        counts.append(timed(["wc", "-l", str(path)]))
        searches.append(timed(search))
    path.unlink()
    seconds = statistics.median(each["cpu_seconds"] for each in reads)
    last = {name: reads[-1][name] for name in ("trainer", "lines", "steps", "every")}
    return {
        "kind": kind.name,
        "bytes": size,
        "cpu_seconds": [each["cpu_seconds"] for each in reads],
        "wall_seconds": [each["wall_seconds"] for each in reads],
        "mb_per_second": size / 1e6 / seconds,
        "peak_mib": max(each["peak_mib"] for each in reads),
        "times_wc": seconds / statistics.median(counts),
        "times_grep": seconds / statistics.median(searches),
        **last,
    }


def write(path: Path, kind: Kind, size: int) -> None:
    """Write lines of a kind up to a size [bytes]."""
    lines = kind.lines(random.Random(1))  # noqa: S311 - not for secrets
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < size:
            file.writelines(f"{next(lines)}\n" for _ in range(CHUNK))


def read_once(path: Path) -> dict[str, Any]:
    """Read a log in this process."""
    started, cpu = time.perf_counter(), time.process_time()
    log = read(str(path), causes=texts())
    return {
        "wall_seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "trainer": log.trainer,
        "lines": log.lines,
        "steps": sum(len(curve) for curve in log.starts),
        "every": max((curve.every for curve in log.starts), default=1),
    }


def timed(command: list[str]) -> float:
    """Return the CPU time of a program [s]; `grep` that finds nothing ends with 1."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=False)  # noqa: S603
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def page(found: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    facts = [f"- {name}: {value}" for name, value in found["machine"].items()]
    rows = [
        (
            row["kind"],
            f"{row['bytes'] / 1e9:.2f}",
            f"{row['mb_per_second']:.0f}",
            f"{row['bytes'] / 1e6 / statistics.median(row['wall_seconds']):.0f}",
            f"{row['peak_mib']:.0f}",
            f"{row['times_wc']:.1f}",
            f"{row['times_grep']:.1f}",
            f"{row['lines']}",
            f"{row['steps']}",
        )
        for row in found["logs"]
    ]
    head = (
        "log",
        "GB",
        "MB/s",
        "MB/s, wall",
        "peak MiB",
        "x wc -l",
        "x grep -c",
        "lines",
        "kept",
    )
    fast = found["logs"][0]["mb_per_second"] >= TARGET
    return "\n".join(
        [
            "# Speed of reading logs",
            "",
            *facts,
            f"- load before: {found['load']:.2f}",
            "",
            machine.table(rows, head),
            "",
            f"- {'PASS' if fast else 'MISS'}: steps at {TARGET:.0f} MB/s of CPU time",
            "- `wall` is with whatever else ran on the machine, see the load",
            "- `kept` counts steps of the curve; a gzip file has the size of its text,",
            "  and `wc` and `grep` read it packed",
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
