"""A search inside a job of Slurm: the time and the GPUs that the job still has.

The workers of a job with one node are plain processes, as without Slurm. Where the job
has several nodes, or only this shell and no node (``salloc`` on a login node), ``srun``
starts each worker as a step of the job, on GPUs of its own.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fp8tune.atomic import no_link
from fp8tune.search import CannotSearch
from fp8tune.search.local_workers import STORAGE
from fp8tune.search.slurm import (
    OF_A_JOB,
    Refused,
    run,
    seconds,
)
from fp8tune.words import counted

RESERVE_S = 120.0
"""Part of a job's time that a budget leaves, at least [s]: Slurm may end the job up to
a minute early, and the answer is written after the budget."""
RESERVE = 0.03
"""The same as a part of the time that is left."""
LEAST_S = 60.0
"""A budget shorter than this is no default [s]."""
LOG_FILES = "srun*.log"
LOGS = "srun-%j.%s.log"
"""What Slurm calls the output of a step, in the study's folder."""
END_S = 5.0
"""How long workers may take to see that nothing is left to run [s]."""
SHORT_S = 60.0
"""A worker that ends sooner did no trial: it could not start or was refused [s]."""


class Allocation(NamedTuple):
    """The job of Slurm in which this process runs."""

    job: str
    nodes: int
    gpus: int
    """GPUs of the whole job; 0 if unknown."""
    cpus: int
    """CPUs of the whole job; 0 if unknown."""
    on_a_node: bool
    """Whether this process runs on a node of the job, and not on a login node."""

    @property
    def needs_steps(self) -> bool:
        """Whether workers on all of its GPUs have to be started by srun."""
        return self.nodes > 1 or not self.on_a_node

    def workers(self, gpus_of_each: int) -> int:
        """Return how many workers with so many GPUs fit; raises ``CannotSearch``."""
        count = self.gpus // max(gpus_of_each, 1)
        if 0 < self.cpus < count:
            raise CannotSearch(
                f"Slurm job {self.job} has {counted(self.cpus, 'CPU')} for {count} "
                "workers; submit it with more: --cpus-per-gpu 4"
            )
        if not count:
            has = counted(self.gpus, "GPU") if self.gpus else "no GPU that Slurm names"
            raise CannotSearch(
                f"Slurm job {self.job} has {has}, and a worker needs {gpus_of_each}; "
                "give the number of workers: --workers N"
            )
        return count


def this_allocation(environment: Mapping[str, str]) -> Allocation | None:
    """Return the job of this process; raises ``CannotSearch`` in one of many tasks."""
    job = environment.get("SLURM_JOB_ID", "")
    if not job.isdecimal():
        return None
    if "SLURM_STEP_ID" in environment and _number(environment, "SLURM_NTASKS") > 1:
        raise CannotSearch(
            f"srun started {environment['SLURM_NTASKS']} searches at once; start one: "
            "without srun, or with srun --ntasks=1"
        )
    nodes = max(_number(environment, "SLURM_JOB_NUM_NODES"), 1)
    each = _number(environment, "SLURM_GPUS_ON_NODE")
    each = each or _number(environment, "SLURM_GPUS_PER_NODE")  # of salloc
    return Allocation(
        job,
        nodes=nodes,
        gpus=_number(environment, "SLURM_GPUS") or each * nodes,
        cpus=_cpus(environment.get("SLURM_JOB_CPUS_PER_NODE", "")),
        on_a_node="SLURMD_NODENAME" in environment,
    )


def with_gpus(allocation: Allocation) -> Allocation:
    """Return an allocation with the number of its GPUs, if Slurm knows it.

    No variable has it after ``salloc --gres=gpu:4``. A step that does not say how many
    GPUs it takes would take all of its node, and the next one would wait for its end.
    """
    if allocation.gpus:
        return allocation
    ask = ["squeue", "--noheader", f"--jobs={allocation.job}", "--format=%b"]
    try:
        each = sum(map(int, _GPUS.findall(run(ask))))
    except Refused:
        return allocation
    return allocation._replace(gpus=each * allocation.nodes)


_GPUS = re.compile(r"\bgpu(?:[:=][^,:=(]+)*[:=](\d+)")
"""The number of a node's GPUs in ``gres:gpu:4`` or ``gres/gpu:h100:4``."""


def _number(environment: Mapping[str, str], name: str) -> int:
    """Return a number; also that of ``h100:4``. 0 if there is none."""
    text = environment.get(name, "").rpartition(":")[2]
    return int(text) if text.isdecimal() and len(text) < 7 else 0


def _cpus(text: str) -> int:
    """Return the sum of ``72(x2),36``; 0 if it is not of that form."""
    total = 0
    for part in text.split(","):
        each, _, times = part.removesuffix(")").partition("(x")
        if not each.isdecimal() or not (times or "1").isdecimal():
            return 0
        total += int(each) * int(times or "1")
    return total


def default_budget(allocation: Allocation, environment: Mapping[str, str]) -> float:
    """Return what is left of a job's time, less a reserve [s].

    Raises ``CannotSearch`` if the job has no end, or hardly any time.
    """
    end = environment.get("SLURM_JOB_END_TIME", "")
    left: float | None = int(end) - time.time() if end.isdecimal() else None
    if left is None:  # before Slurm 23.02
        ask = ["squeue", "--noheader", f"--jobs={allocation.job}", "--format=%L"]
        try:
            left = seconds(run(ask))
        except Refused as error:
            raise CannotSearch(f"Slurm: {error}; give --budget") from None
    if left is None:
        what = f"Slurm job {allocation.job} has no time limit"
        raise CannotSearch(f"{what}: give --budget, e.g. --budget 2h")
    budget = left - max(RESERVE_S, RESERVE * left)
    if budget < LEAST_S:
        what = f"Slurm job {allocation.job} ends in {left:.0f} s"
        raise CannotSearch(f"{what}, too soon for a search; give --budget to try")
    return budget


def budget_of_job(environment: Mapping[str, str]) -> str:
    """Return the budget of a search that was given none; raises ``CannotSearch``."""
    allocation = this_allocation(environment)
    if allocation is None:
        raise CannotSearch(
            "--budget is missing: the wall time for everything, e.g. --budget 2h "
            "(inside a job of Slurm it is what is left of the job)"
        )
    return f"{default_budget(allocation, environment):.0f}s"


class Steps:
    """Workers as steps of the job of this process, one ``srun`` each.

    ``command`` is the argument list of a worker, ``folder`` that of the study. A step
    that fails is started again, because its node may have been at fault only once.
    """

    is_other = False

    def __init__(
        self,
        allocation: Allocation,
        workers: int,
        gpus_of_each: int,
        command: Sequence[str],
        storage: str,
        folder: str,
    ) -> None:
        self._folder = os.path.abspath(folder)
        place = os.path.join(self._folder.replace("%", "%%"), LOGS)
        # --exact and --mem=0: a step takes its own GPUs and CPUs, not the whole node's
        self._srun = [
            *("srun", f"--jobid={allocation.job}", "--nodes=1", "--ntasks=1"),
            *("--exact", "--mem=0", "--kill-on-bad-exit=0", "--open-mode=append"),
            f"--cpus-per-task={max(allocation.cpus // max(workers, 1), 1)}",
            *([f"--gpus={gpus_of_each}"] if allocation.gpus else []),
            f"--output={place}",
            *command,
        ]
        # srun takes options from variables, and those of this job are not the steps'
        own = {k: v for k, v in os.environ.items() if not OF_A_JOB.fullmatch(k)}
        self._environment = {**own, STORAGE: storage}
        self._workers = workers
        self._running: dict[subprocess.Popen[bytes], float] = {}
        self._short = 0
        self._has_ended = False

    def start(self) -> None:
        """Start the workers; raises ``CannotSearch`` without srun."""
        try:
            while len(self._running) < self._workers:
                self._start_one()
        except OSError as error:
            raise CannotSearch(f"srun: {error.strerror}") from None

    def poll(self) -> str:
        """Start workers again that ended; return why no more are started, or ""."""
        now = time.monotonic()
        for process, since in list(self._running.items()):
            if process.poll() is not None:
                del self._running[process]
                self._short = self._short + 1 if now - since < SHORT_S else 0
                self._has_ended |= process.returncode == 0
        if self._has_ended:  # nothing is left to run
            return "" if self._running else "all workers ended"
        if self._short >= max(3, 2 * self._workers):
            why = f"see why: tail {shlex.quote(self._folder)}/{LOG_FILES}"
            return f"the last {self._short} workers ended within a minute; {why}"
        while len(self._running) < self._workers:
            self._start_one()
        return ""

    def stop(self) -> None:
        """Wait a moment until the workers ended; end those that stay."""
        deadline = time.monotonic() + END_S
        for process in self._running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(deadline - time.monotonic(), 0.1))
            process.terminate()  # srun kills its step
            process.wait()
        self._running = {}

    def _start_one(self) -> None:
        with open(os.path.join(self._folder, "srun.log"), "ab", opener=no_link) as log:
            process = subprocess.Popen(  # noqa: S603, an argument list without a shell
                self._srun,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        self._running[process] = time.monotonic()
