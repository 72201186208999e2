"""Start the workers of a search on this machine, one for each GPU or group of GPUs.

Or one srun, which starts workers on the nodes of a job of Slurm.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fp8tune.runners.process import STORAGE as STORAGE
from fp8tune.runners.process import module_command as module_command
from fp8tune.search import CannotSearch
from fp8tune.words import counted

LOGS = "workers"
"""Folder of their output, in the study's folder."""
RESTARTS = 3
"""How often a worker that was killed is started again, on average."""
STOP_S = 30.0
"""How long stopped workers may take to end their trials [s]."""
SHOWN = 4096
"""Bytes at the end of a worker's output in which its reason is looked for."""


class LocalWorkers:
    """Worker processes of this machine.

    ``command`` is the argument list of a worker, ``folder`` that of the study.
    ``visible`` has the value of ``CUDA_VISIBLE_DEVICES`` for each worker, ``None`` to
    leave it as it is. They outlive this process if it is killed, and search to the end.
    ``environment`` has their other variables, by default those of this process, and
    ``end_signal`` asks them to leave.
    """

    is_other = False

    def __init__(
        self,
        command: Sequence[str],
        storage: str,
        folder: str,
        visible: Sequence[str | None],
        say: Callable[[str], None],
        environment: Mapping[str, str] = os.environ,
        end_signal: int = signal.SIGTERM,
    ) -> None:
        self._command = command
        self._environment = {**environment, STORAGE: storage}
        self._folder = Path(folder) / LOGS
        self._visible = visible
        self._end_signal = end_signal
        self._say = say
        self._restarts_left = RESTARTS * len(visible)
        self._ended: set[int] = set()  # processes of which the user knows this
        self._processes: list[subprocess.Popen[Any]] = []

    def start(self) -> None:
        """Start the workers; their output goes to files."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._processes = [self._started(n) for n in range(len(self._visible))]

    def _started(self, number: int) -> subprocess.Popen[Any]:
        visible = self._visible[number]
        gpus = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
        with self._log(number).open("ab") as log:
            return subprocess.Popen(  # noqa: S603, the command is ours
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**self._environment, **gpus},
                start_new_session=True,
            )

    def poll(self) -> str:
        """Start workers again that were killed; return why none is left, or ``""``."""
        for number, process in enumerate(self._processes):
            code = process.poll()
            if code is not None and code < 0 and self._restarts_left > 0:
                self._restarts_left -= 1
                name = worker_name(self._visible[number], process.pid)
                again = self._processes[number] = self._started(number)
                place = f"process {again.pid} takes its place"
                self._say(f"{name} was killed (signal {-code}); {place}")
        if any(process.poll() is None for process in self._processes):
            self._name_ended()
            return ""
        last = (self._last_line(number) for number in range(len(self._processes)))
        reason = next(filter(None, last), "none of them printed why")
        return f"all workers ended: {reason} (their output is in {self._folder})"

    def _name_ended(self) -> None:
        """Say once which workers failed, and why: the search goes on without them."""
        for number, process in enumerate(self._processes):
            if process.poll() and process.pid not in self._ended:
                self._ended.add(process.pid)
                name = worker_name(self._visible[number], process.pid)
                last = self._last_line(number) or f"exit code {process.returncode}"
                self._say(
                    f"{name} ended: {last} (its output is in {self._log(number)})"
                )

    def stop(self) -> None:
        """Ask the workers to leave, and kill those that do not."""
        for process in self._processes:
            process.send_signal(self._end_signal)
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)
            process.kill()
            process.wait()

    def _log(self, number: int) -> Path:
        return self._folder / f"worker-{number}.log"

    def _last_line(self, number: int) -> str:
        with contextlib.suppress(OSError), self._log(number).open("rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - SHOWN))
            lines = log.read().decode(errors="replace").split("\n")
            return next((line for line in reversed(lines) if line.strip()), "")
        return ""


def worker_name(gpus: str | None, pid: int) -> str:
    """Return the name of a worker: its host, and its GPUs or on a CPU its process."""
    return (
        f"{socket.gethostname()} {f'process {pid}' if gpus is None else f'GPU {gpus}'}"
    )


def gpus_of_workers(
    named: str, workers: int, device: str, visible: int, ranks: int = 1
) -> list[str | None]:
    """Return ``CUDA_VISIBLE_DEVICES`` for each worker of ``ranks`` GPUs.

    ``named`` lists GPUs as ``CUDA_VISIBLE_DEVICES`` does, or is ``all``, or ``""`` for
    as many as ``workers`` need of the ``visible`` ones. Workers on a CPU get ``None``.
    Raises ``CannotSearch`` where there are too few.
    """
    if device == "cpu":
        return [None] * max(1, workers)
    names = [name.strip() for name in named.split(",") if name.strip()]
    if named in ("", "all"):
        names = visible_names(visible)
    count = workers if workers > 0 else len(names) // ranks
    if count * ranks > len(names) or not count:
        asked = f"{counted(max(count, 1), 'worker')} of {counted(ranks, 'GPU')}"
        raise CannotSearch(f"{asked} need more than the {len(names)} GPUs here")
    if len(set(names)) < len(names):
        raise CannotSearch(f"--gpus {named}: a GPU is named twice")
    groups = range(0, count * ranks, ranks)
    return [",".join(names[first : first + ranks]) for first in groups]


def visible_names(count: int) -> list[str]:
    """Return the GPUs that ``CUDA_VISIBLE_DEVICES`` names, else ``count`` numbers."""
    if visible := os.environ.get("CUDA_VISIBLE_DEVICES", ""):
        return [name.strip() for name in visible.split(",")]
    return list(map(str, range(count)))
