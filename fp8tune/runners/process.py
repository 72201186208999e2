"""Run a process: read its output under deadlines, then kill all its processes.

``supervise`` runs any program and gives its output to a listener. ``run_worker`` runs a
worker of fp8tune, which prints lines of JSON.
"""

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
from typing import IO, Any, NamedTuple, Protocol

from fp8tune.trials.record import BEFORE_BUILD

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

_LATE = {
    "start": "launch",
    "import": "launch",
    "ranks": "launch",
    "gpu": "launch",
    "build": "launch",
    "convert": "launch",
    "compile": "compile",
}

_BROKEN = {"flood": "printed too much", "mute": "closed its output"}

SCRATCH = "fp8tune-"
"""Prefix of the folders that hold the files of a running trial."""

STORAGE = "FP8TUNE_STORAGE"
"""Environment variable of a study's storage. Its URL may hold a password, which trials
do not get."""

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


def unfinished(result: WorkerResult, device: str) -> tuple[str, str]:
    """Return outcome and message of a worker that gave neither result nor error."""
    where, code = f"in stage {result.stage}", result.code
    if result.ended == "late":
        return _LATE.get(result.stage, "hang"), f"stopped at its deadline {where}"
    if result.ended in _BROKEN:
        return "launch", f"the worker {_BROKEN[result.ended]} {where}"
    if code == -signal.SIGKILL:
        loaded = result.stage not in BEFORE_BUILD
        kind = "oom" if device == "cpu" and loaded else "launch"
        return kind, f"killed {where}, probably because host memory ran out"
    kind = "compile" if result.stage == "compile" else "launch"
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return (
                kind,
                f"the worker was killed by {signal.Signals(-code).name} {where}",
            )
    return kind, f"the worker ended with code {code} {where}"


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
    events = _Events(stages, _now() + total, on_event, extra_seconds)
    how, code, seconds = supervise(command, events, errors=errors)
    return WorkerResult(events.events, how, events.stage, code, seconds)


class Listener(Protocol):
    """What reads the output of a process, and decides until when it may run."""

    def feed(self, data: bytes) -> str:
        """Read on; return why the process is to be ended now, ``""`` to go on."""
        ...

    def due(self) -> float:
        """Return until when to wait for more output, on the clock of ``_now``."""
        ...

    def finished(self) -> bool:
        """Whether the result is complete, so that the output need not end."""
        ...


class Ended(NamedTuple):
    """How a process ended: as in ``WorkerResult``, or why its listener ended it."""

    ended: str
    code: int | None
    seconds: float


def supervise(
    command: Sequence[str],
    listener: Listener,
    *,
    errors: IO[bytes] | int = subprocess.DEVNULL,
    environment: Mapping[str, str] = os.environ,
) -> Ended:
    """Run a program until it ends or its listener ends it; then kill all of it.

    That is every process that it started, in other sessions too. ``errors`` is where
    its stderr goes; ``subprocess.STDOUT`` gives it to the listener too.
    """
    start = _now()
    mark = uuid.uuid4().hex
    process = subprocess.Popen(  # noqa: S603, no shell: a list of arguments
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
        env={**without_storage(environment), MARK: mark},
        start_new_session=True,
    )
    try:
        ended = _follow(process, listener)
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
    return Ended(ended, process.returncode, _now() - start)


def without_storage(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a trial, or a trainer, may have."""
    return {name: value for name, value in environment.items() if name != STORAGE}


def _follow(process: subprocess.Popen[bytes], listener: Listener) -> str:
    """Give the listener all output; return how that ended."""
    assert process.stdout is not None
    descriptor = process.stdout.fileno()
    gone_at: float | None = None  # others may keep writing to its output
    while True:
        left = listener.due() - _now()
        if left <= 0:
            return "exit" if listener.finished() else "late"
        if process.poll() is not None:  # asked first: all that it wrote is there then
            gone_at = gone_at or _now()
        ready, _, _ = select.select([descriptor], [], [], min(left, LOOK_S))
        if gone_at and (not ready or _now() - gone_at > EXIT_S):
            return "exit"
        if not ready:
            continue
        data = os.read(descriptor, 1 << 16)
        if not data:
            return "exit"
        if stop := listener.feed(data):
            return stop


class _Events:
    """Listens to a worker: its lines of JSON, and the deadlines of its stages."""

    def __init__(
        self,
        stages: Mapping[str, float],
        end: float,
        on_event: Callable[[dict[str, Any]], None],
        extra_seconds: Callable[[dict[str, Any]], float],
    ) -> None:
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

    def due(self) -> float:
        return self._due

    def finished(self) -> bool:
        return self._has_ended

    def _deadline(self) -> float:
        allowed = self.stages.get(self.stage)
        return self.end if allowed is None else min(self.end, _now() + allowed)

    def feed(self, data: bytes) -> str:
        self._size += len(data)
        if self._size > MAX_OUTPUT:
            return "flood"
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(line)
        return ""

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
