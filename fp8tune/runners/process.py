"""A worker process: its lines of JSON under deadlines, and its whole family's end."""

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
"""Bytes that a worker may say before it is taken for broken."""

KILL_S = 10.0
"""How long to wait for killed processes to be gone [s]: a driver may hold them."""

EXIT_S = 2.0
"""How long one that closed its output has to end [s]."""

LAST, LAST_S = ("done", "failed"), 10.0
"""Fields of a worker's last word, and how long it may take to close its output then
[s]: a driver may hang when a process leaves it."""

LOOK_S = 1.0
"""How often it is looked whether a silent worker still lives [s]: what it started may
keep its output open."""

MARK = "FP8TUNE_TRIAL"
"""Environment variable by which the processes of a trial are known."""

_RUN = (
    "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); import fp8tune; "
    "del sys.path[0]; runpy.run_module(sys.argv.pop(1), None, '__main__', True)"
)


def own(module: str) -> tuple[str, ...]:
    """The command that runs a module of this very fp8tune, wherever it lies.

    Not with ``-m``: that would import what happens to lie in the current folder.
    """
    home = str(Path(__file__).parents[2])
    return (sys.executable, "-P", "-c", _RUN, home, module)


class Heard(NamedTuple):
    """What a worker said, and how it ended.

    ``ended`` is ``exit`` with its ``code``, ``late`` where a deadline passed,
    ``flood`` where it said too much, or ``mute`` where it closed its output and went
    on. ``stage`` is the last one that it named.
    """

    events: list[dict[str, Any]]
    ended: str
    stage: str
    code: int | None
    seconds: float


def listen(
    command: Sequence[str],
    stages: Mapping[str, float],
    total: float,
    errors: IO[bytes] | int = subprocess.DEVNULL,
    hear: Callable[[dict[str, Any]], None] = lambda _event: None,
    needs: Callable[[dict[str, Any]], float] = lambda _event: 0.0,
) -> Heard:
    """Run a worker to its end, or to a deadline, and leave nothing of it.

    ``total`` is for all of it; ``stages`` for the time between two lines within a
    stage [s]; ``hear`` gets each line as it comes, ``needs`` tells by it how many
    seconds there have to be, if more than that. The worker gets a session of its
    own, which is killed whole, and with it every process that left it.
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
    hearing = _Hearing(process, stages, start + total, hear, needs)
    try:
        ended = hearing.run()
        if ended == "exit":
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(EXIT_S)
            ended = "mute" if process.returncode is None else ended
    finally:
        kill_family(process.pid, mark)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(KILL_S)
        assert process.stdout is not None
        process.stdout.close()
    seconds = _now() - start
    return Heard(hearing.events, ended, hearing.stage, process.returncode, seconds)


class _Hearing:
    def __init__(
        self,
        process: subprocess.Popen[bytes],
        stages: Mapping[str, float],
        end: float,
        hear: Callable[[dict[str, Any]], None],
        needs: Callable[[dict[str, Any]], float],
    ) -> None:
        assert process.stdout is not None
        self.process = process
        self.descriptor = process.stdout.fileno()
        self.stages = stages
        self.end = end
        self.hear = hear
        self.needs = needs
        self.stage = "start"
        self.events: list[dict[str, Any]] = []
        self._said = 0
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
            self._said += len(data)
            if self._said > MAX_OUTPUT:
                return "flood"
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                self._hear(line)

    def _hear(self, line: bytes) -> None:
        """Take a line that is an event; what libraries print is passed over."""
        if not line.startswith(b"{"):
            return
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            return
        if isinstance(event, dict):
            self.events.append(event)
            self.hear(event)
            self.end = max(self.end, _now() + self.needs(event))
            if any(name in event for name in LAST):
                self._has_ended = True
                self.end = min(self.end, _now() + LAST_S)
            self.stage = str(event.get("stage", self.stage))
            self._due = self._deadline()


def _now() -> float:
    return time.monotonic()


def kill_family(leader: int, mark: str) -> None:
    """Kill every process of a session or with a mark, and wait until none is left."""
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
    """Living processes of a family, from /proc; none where there is no /proc."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = (folder / "stat").read_text(errors="replace").rpartition(")")
            state, _, _, own, *_ = fields[2].split()
            if state != "Z" and (int(own) == session or _has(folder, mark)):
                found.append(int(folder.name))
    return found


def _has(folder: Path, mark: bytes) -> bool:
    try:
        return mark in (folder / "environ").read_bytes().split(b"\0")
    except OSError:  # another user's, or gone
        return False
