"""Start the ranks of a trial on this machine, and end them together.

``python -m fp8tune.runners.builtin.launch PARENT RANKS COMMAND... SPEC_FILE`` starts
the command once per rank. It prints the lines of rank 0, and one line on a failure:
the ``failed`` line of the rank that failed first, with its ``rank``, or ``{"died": R}``
for a rank that ended without a word; then it ends as that rank did. The ranks are its
children in its session, so that who kills that session kills them all.

``torchrun`` is not used: it would import torch once more, stop the other ranks with a
grace of 30 s after an error (torch/distributed/elastic, ``SubprocessContext``), and its
report is text. The rank variables are set here, all of them, so those of Slurm or of a
``torchrun`` around the search decide nothing. The port of the store is bound here and
handed to rank 0, so none can be taken meanwhile. This process does not import torch.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

from fp8tune.runners.orphan import die_with_parent
from fp8tune.runners.process import module_command

COMMAND = module_command("fp8tune.runners.builtin.launch")

HOST = "127.0.0.1"
STORE_FD = "FP8TUNE_STORE_FD"
"""Environment variable with the descriptor of the store's listening socket."""
GRACE_S = 2.0
"""How long the other ranks may report what failed, after the first did [s]."""
END_S = 5.0
"""How long the other ranks may take to end after rank 0's result [s]."""
LONGEST = 1 << 20
"""Bytes of an unfinished line from which a rank's output is dropped."""

SYMPTOMS = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "ncclRemoteError",
    "ncclSystemError",
    "remote process exited",
    "recvValue failed",
    "failed to recv",
)
"""What a rank says when another one is gone (gloo, transport/tcp/pair.cc; NCCL's
``ncclRemoteError`` and ``ncclSystemError`` as torch prints them, NCCLUtils.hpp;
TCPStore.cpp)."""


class End(NamedTuple):
    """How a rank failed: its ``failed`` line, or ``None`` if it died without one."""

    at: float
    rank: int
    code: int
    line: dict[str, Any] | None

    @property
    def is_symptom(self) -> bool:
        """Whether the rank only lost its connection to another one."""
        text = str((self.line or {}).get("failed"))
        return any(words in text for words in SYMPTOMS)


class Ranks:
    """The running ranks of a trial, and how they failed."""

    def __init__(self, command: Sequence[str], count: int, held: ExitStack) -> None:
        self.ends: list[End] = []
        self.result_at = 0.0
        self._rest = dict.fromkeys(range(count), b"")
        self._over: set[int] = set()
        self._selector = held.enter_context(selectors.DefaultSelector())
        with socket.create_server((HOST, 0)) as store:
            self._processes = [
                subprocess.Popen(  # noqa: S603, the command is ours
                    [*command, str(os.getpid())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    env=rank_environment(rank, count, store),
                    pass_fds=[store.fileno()] if rank == 0 else [],
                )
                for rank in range(count)
            ]
        for rank, process in enumerate(self._processes):
            held.callback(_end, process)
            assert process.stdout is not None
            self._selector.register(process.stdout, selectors.EVENT_READ, rank)

    def run(self) -> End | None:
        """Wait for rank 0's result or a failure; return what failed."""
        until = float("inf")
        while self._selector.get_map() and time.monotonic() < until:
            left = until - time.monotonic()
            for key, _ in self._selector.select(None if left > 1e6 else left):
                self._read(key)
            if self.ends or self.result_at:
                limit = END_S if self.result_at else GRACE_S
                until = min(until, time.monotonic() + limit)
        return None if self.result_at else first_cause(self.ends)

    def _read(self, key: selectors.SelectorKey) -> None:
        rank: int = key.data
        data = os.read(key.fd, 1 << 16)
        if not data:
            self._selector.unregister(key.fileobj)
            self._ended(rank)
        *lines, rest = (self._rest[rank] + data).split(b"\n")
        self._rest[rank] = rest[:LONGEST]
        for line in lines:
            self._take(rank, line)

    def _take(self, rank: int, line: bytes) -> None:
        """Print a line of rank 0; note failures, which are printed at the end."""
        event = _event(line)
        if "failed" in event:
            self.ends.append(End(_time(event), rank, 1, event))
            self._over.add(rank)
        elif rank == 0:
            os.write(1, line + b"\n")
        if "done" in event:
            self._over.add(rank)
            self.result_at = self.result_at or (time.monotonic() if rank == 0 else 0.0)

    def _ended(self, rank: int) -> None:
        """Note a rank that has closed its output, and died without a report."""
        code = 0
        with suppress(subprocess.TimeoutExpired):
            code = self._processes[rank].wait(GRACE_S)
        if rank not in self._over:
            self.ends.append(End(time.time(), rank, code, None))


def first_cause(ends: Sequence[End]) -> End | None:
    """Return the first failure that is not a symptom of another one, else the first."""
    return min(ends, key=lambda end: (end.is_symptom, end.at), default=None)


def rank_environment(
    rank: int, count: int, store: socket.socket, cores: int = 0
) -> dict[str, str]:
    """Return the environment of a rank: all variables by which ranks are known.

    Gloo connects by the loopback device, unless the user names one. Threads are shared
    out, unless the user says how many, as torchrun would give each rank only one.
    """
    cores = cores or len(os.sched_getaffinity(0))
    chosen = {
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": str(max(1, cores // count)),
    }
    own = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count}
    own |= {"LOCAL_WORLD_SIZE": count, "MASTER_PORT": store.getsockname()[1]}
    named = {name: str(value) for name, value in own.items()}
    descriptor = {STORE_FD: str(store.fileno())} if rank == 0 else {}
    return {**chosen, **os.environ, **named, "MASTER_ADDR": HOST, **descriptor}


def _event(line: bytes) -> dict[str, Any]:
    try:
        event = json.loads(line) if line.startswith(b"{") else {}
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}


def _time(event: dict[str, Any]) -> float:
    at = event.get("at")
    return at if isinstance(at, float) else time.time()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a rank that still runs."""
    with suppress(ProcessLookupError):
        process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)


def main(count: int, command: Sequence[str]) -> None:
    """Run a command as so many ranks; end as the rank did that failed first."""
    with ExitStack() as held:
        end = Ranks(command, count, held).run()
    if end is None:
        return
    if end.line is not None:
        print(json.dumps({**end.line, "rank": end.rank}), flush=True)
        raise SystemExit(1)
    print(json.dumps({"died": end.rank}), flush=True)
    if end.code < 0:
        with suppress(OSError):  # SIGKILL has no handler to restore
            signal.signal(-end.code, signal.SIG_DFL)
        os.kill(os.getpid(), -end.code)
    raise SystemExit(end.code or 1)


if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    main(int(sys.argv[2]), sys.argv[3:])
