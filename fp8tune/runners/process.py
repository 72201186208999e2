"""Run a worker process: read its lines of JSON under deadlines, then kill it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

MAX_OUTPUT = 1 << 26
"""Bytes of output from which a worker counts as broken."""

KILL_S = 10.0
"""How long to wait for killed processes to be gone [s]: a driver may hold them."""

EXIT_S = 2.0
"""How long a worker that closed its output has to end [s]."""

LAST, LAST_S = ("done", "failed"), 10.0
"""Fields of a worker's last line, and how long it may then take to close its output
[s]: a driver may hang when a process leaves it."""

LOOK_S = 1.0
"""How often to check that a silent worker is alive [s]: processes that it started may
keep its output open."""

MARK = "FP8TUNE_TRIAL"
"""Environment variable by which the processes of a trial are known."""

_RUN = (
    "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); import fp8tune; "
    "del sys.path[0]; runpy.run_module(sys.argv.pop(1), None, '__main__', True)"
)


def module_command(module: str) -> tuple[str, ...]:
    """Return the command that runs a module of this installation of fp8tune.

    It does not use ``-m``, which would import files of the current folder.
    """
    home = str(Path(__file__).parents[2])
    return (sys.executable, "-P", "-c", _RUN, home, module)


class WorkerResult(NamedTuple):
    """The lines that a worker printed, and how it ended.

    ``ended`` is ``exit`` (with its ``code``), ``late`` after a deadline, ``flood``
    after too much output, or ``mute`` if it closed its output and kept running.
    ``stage`` is the last stage that it named.
    """

    events: list[dict[str, Any]]
    ended: str
    stage: str
    code: int | None
    seconds: float


def run_worker(
    command: Sequence[str],
    stages: Mapping[str, float],
    total: float,
    errors: IO[bytes] | int = subprocess.DEVNULL,
    on_event: Callable[[dict[str, Any]], None] = lambda _event: None,
    extra_seconds: Callable[[dict[str, Any]], float] = lambda _event: 0.0,
) -> WorkerResult:
    """Run a worker to its end or to a deadline, then kill all its processes.

    Args: command: the worker. stages: longest time between two lines, by stage [s].
    total: longest time of the whole worker [s]. errors: where its stderr goes.
    on_event: called with each line when it is read. extra_seconds: returns, for a line,
    how much longer the worker needs at most [s]; ``total`` is extended to that.
    """
    start = _now()
    mark = uuid.uuid4().hex
    process = subprocess.Popen(  # noqa: S603, the command is ours
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
        env={**os.environ, MARK: mark},
        start_new_session=True,
    )
    reader = _Reader(process, stages, start + total, on_event, extra_seconds)
    try:
        ended = reader.run()
        if ended == "exit":
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(EXIT_S)
            ended = "mute" if process.returncode is None else ended
    finally:
        kill_processes(process.pid, mark)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(KILL_S)
        assert process.stdout is not None
        process.stdout.close()
    seconds = _now() - start
    code = process.returncode
    return WorkerResult(reader.events, ended, reader.stage, code, seconds)


class _Reader:
    def __init__(
        self,
        process: subprocess.Popen[bytes],
        stages: Mapping[str, float],
        end: float,
        on_event: Callable[[dict[str, Any]], None],
        extra_seconds: Callable[[dict[str, Any]], float],
    ) -> None:
        assert process.stdout is not None
        self.process = process
        self.descriptor = process.stdout.fileno()
        self.stages = stages
        self.end = end
        self.on_event = on_event
        self.extra_seconds = extra_seconds
        self.stage = "start"
        self.events: list[dict[str, Any]] = []
        self._size = 0
        self._rest = b""
        self._has_ended = False
        self._due = self._deadline()

    def _deadline(self) -> float:
        allowed = self.stages.get(self.stage)
        return self.end if allowed is None else min(self.end, _now() + allowed)

    def run(self) -> str:
        while True:
            left = self._due - _now()
            if left <= 0:
                return "exit" if self._has_ended else "late"
            ready, _, _ = select.select([self.descriptor], [], [], min(left, LOOK_S))
            if not ready and self.process.poll() is not None:
                return "exit"
            if not ready:
                continue
            data = os.read(self.descriptor, 1 << 16)
            if not data:
                return "exit"
            self._size += len(data)
            if self._size > MAX_OUTPUT:
                return "flood"
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                self._take(line)

    def _take(self, line: bytes) -> None:
        """Record a line that is an event; ignore the output of libraries."""
        if not line.startswith(b"{"):
            return
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            return
        if isinstance(event, dict):
            self.events.append(event)
            self.on_event(event)
            self.end = max(self.end, _now() + self.extra_seconds(event))
            if any(name in event for name in LAST):
                self._has_ended = True
                self.end = min(self.end, _now() + LAST_S)
            self.stage = str(event.get("stage", self.stage))
            self._due = self._deadline()


def _now() -> float:
    return time.monotonic()


def kill_processes(leader: int, mark: str) -> None:
    """Kill every process of a session or with a mark; wait until none is left."""
    until = _now() + KILL_S
    while _now() < until:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)
        alive = list(_members(leader, f"{MARK}={mark}".encode()))
        for member in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(member, signal.SIGKILL)
        if not alive:
            return
        time.sleep(0.05)


def _members(session: int, mark: bytes) -> list[int]:
    """Return the living processes of a session or with a mark, from /proc."""
    members = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = (folder / "stat").read_text(errors="replace").rpartition(")")
            state, _, _, of_session, *_ = fields[2].split()
            if state != "Z" and (int(of_session) == session or _has(folder, mark)):
                members.append(int(folder.name))
    return members


def _has(folder: Path, mark: bytes) -> bool:
    try:
        return mark in (folder / "environ").read_bytes().split(b"\0")
    except OSError:  # another user's process, or gone
        return False
