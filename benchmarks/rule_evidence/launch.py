"""Start the ranks of one run, wait for them, end what is left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.paths import ROOT, python_path

GRACE = 10.0
"""Seconds that the other ranks get once one has failed."""
OUTPUT = 2000
"""Bytes of a rank's output that explain an end without a report."""

Seen = dict[str, Any]
"""What was seen of a run, by name."""


class Run(NamedTuple):
    """One run of the training script."""

    checkout: Path
    config: str
    device: str
    ranks: int
    names: list[str]
    timeout: float


def launch(run: Run, folder: Path, command: list[str] | None = None) -> Seen:
    """Run to the end or the timeout; the first error of any rank, rank 0's figures.

    ``command`` is what a rank is, the worker by default; it gets the task's path.
    """
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(run.config, encoding="utf-8")
    task = {"checkout": str(run.checkout.resolve()), "device": run.device}
    (folder / "task.json").write_text(json.dumps({**task, "names": run.names}))
    start = command or [sys.executable, "-m", "benchmarks.rule_evidence.worker"]
    with _ranks([*start, str(folder / "task.json")], run.ranks, folder) as processes:
        late = wait(processes, run.timeout)
    return _seen(folder, run.ranks, run.timeout if late else 0)


def wait(processes: list[subprocess.Popen[bytes]], timeout: float) -> bool:
    """Wait for all, or shortly after the first failure; whether time ran out."""
    end = time.monotonic() + timeout
    failed = False
    while any(process.poll() is None for process in processes):
        if not failed and any(process.poll() for process in processes):
            failed, end = True, min(end, time.monotonic() + GRACE)
        if time.monotonic() > end:
            return not failed
        time.sleep(0.05)
    return False


@contextlib.contextmanager
def _ranks(
    command: list[str], ranks: int, folder: Path
) -> Iterator[list[subprocess.Popen[bytes]]]:
    shared = {
        **os.environ,
        "PYTHONPATH": python_path(ROOT),
        "WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(_free_port()),
        "OMP_NUM_THREADS": str(max(1, len(os.sched_getaffinity(0)) // ranks)),
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder / "hub"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder.parent / "inductor"),
    }
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(ranks):
            with (folder / f"rank{rank}.log").open("wb") as log:
                process = subprocess.Popen(  # noqa: S603 - the command is ours
                    command,
                    cwd=folder,
                    env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            processes.append(process)
        yield processes
    finally:
        for process in processes:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a rank and what it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _seen(folder: Path, ranks: int, timeout: float) -> Seen:
    reports = [_report(folder, rank) for rank in range(ranks)]
    there = [report for report in reports if report]
    errors = [report for report in there if report["error"]]
    found: Seen = dict(reports[0] or {"failed_at": ""})
    if errors:
        first = min(errors, key=lambda report: float(report["ended"]))
        found |= {"error": first["error"], "failed_at": first["failed_at"]}
    elif timeout:
        found["error"] = f"TimeoutError: no end after {timeout:.0f} s"
    elif len(there) < ranks:
        log = (folder / f"rank{reports.index(None)}.log").read_bytes()[-OUTPUT:]
        found["error"] = f"died without a report: {log.decode(errors='replace')}"
    found.pop("ended", None)
    return found


def _report(folder: Path, rank: int) -> Seen | None:
    try:
        report: Seen = json.loads((folder / f"rank{rank}.json").read_text())
    except FileNotFoundError:
        return None
    return report


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return int(listener.getsockname()[1])
