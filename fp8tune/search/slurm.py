"""The processes of a search as jobs of Slurm, and a search inside a job.

The jobs are one array of the same command. Each runs trials until nothing is left to
run. A job that ends before, by its time limit or because Slurm has other use for the
GPU, is queued again.

Slurm's programs get an argument list. The batch script is for ``sh``, with every word
quoted. The URL of the storage, which may hold a password, is only in the environment of
the jobs.

Inside a job with one node the workers are plain processes, as without Slurm. Where it
has several nodes, or only this shell and no node (``salloc`` on a login node), one
``srun`` starts all of them, each on GPUs of its own.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from fp8tune import atomic
from fp8tune.search import CannotSearch
from fp8tune.search.budget import parse_duration
from fp8tune.search.local_workers import STORAGE
from fp8tune.search.say import note
from fp8tune.suggest import closest
from fp8tune.words import counted, plain

SCRIPT = "worker.sbatch"
"""The batch script, in the study's folder."""
LOGS = "slurm-%A_%a.log"
"""What Slurm calls the output of a job, in the study's folder."""
LOG_FILES = "slurm-*.log"
NOTICE_S = 60
"""How long before its time limit a job gets SIGUSR1 [s]; Slurm may send it up to a
minute early."""
POLL_S = 60.0
"""How often ``squeue`` is asked [s]; it burdens the controller of a large cluster."""
ANSWER_S = 60.0
"""Slurm's programs wait for a busy controller; after so long they are ended [s]."""
KEYS = (
    *("partition", "gpus", "time", "account", "qos", "constraint", "gres", "mem"),
    *("cpus-per-task", "cpus-per-gpu", "mem-per-cpu", "mem-per-gpu", "nodelist"),
    *("exclude", "reservation", "licenses", "nice", "comment"),
)
"""Long options of sbatch that ``--slurm`` passes on."""
_OF_A_JOB = re.compile(
    r"(SLURM|SBATCH|SQUEUE|SCANCEL)_(?!CONF$)\w*|CUDA_VISIBLE_DEVICES|NVIDIA_VISIBLE_DEVICES"
    r"|(LOCAL_|GROUP_)?RANK|(LOCAL_)?WORLD_SIZE|MASTER_(ADDR|PORT)"
)
"""Variables of this process's own job, and defaults of Slurm's programs: the workers
must not get them."""
RESERVE_S = 120.0
"""Part of a job's time that a budget leaves, at least [s]: Slurm may end the job up to
a minute early, and the answer is written after the budget."""
RESERVE = 0.03
"""The same as a part of the time that is left."""
LEAST_S = 60.0
"""A budget shorter than this is no default [s]."""
EXAMPLE = "--slurm partition=gpu,gpus=1,time=30m"


def parse(text: str) -> dict[str, str]:
    """Return the options of ``partition=gpu,gpus=1,time=30m``.

    Raises ``CannotSearch``.

    A value may contain commas, as in ``exclude=node1,node2``.
    """
    options: dict[str, str] = {}
    for part in re.split(r",(?=[^,=]+=)", text.strip()):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not value:
            what = f"{key!r} has no value" if key else "nothing is asked for"
            raise CannotSearch(f"--slurm: {what}; write {EXAMPLE}")
        if key not in KEYS:
            near = closest(key, KEYS)
            known = f"did you mean {near}?" if near else f"known: {', '.join(KEYS)}"
            raise CannotSearch(f"--slurm: unknown key {plain(key)!r}; {known}")
        if key in options:
            raise CannotSearch(f"--slurm: {key} is given twice")
        if not value.isprintable():
            raise CannotSearch(f"--slurm: {key} has a control character")
        options[key] = value
    if "time" in options:
        options["time"] = _time_limit(options["time"])
    return options


def _time_limit(text: str) -> str:
    """Return a time limit such as ``30m`` in minutes; other forms are Slurm's own."""
    try:
        limit_s = parse_duration(text)
    except CannotSearch:
        return text
    if limit_s < 4 * NOTICE_S:
        raise CannotSearch(
            f"--slurm: time={text} is too short for a trial, because Slurm announces "
            f"the end up to {2 * NOTICE_S} s before; at least {4 * NOTICE_S // 60}m"
        )
    return str(math.ceil(limit_s / 60))


class Jobs:
    """The jobs of a search: an array of ``count``.

    ``command`` is the argument list of each, ``folder`` that of the study, which the
    nodes must see too. ``say`` gets notes for the user.
    """

    is_other = False

    def __init__(
        self,
        options: Mapping[str, str],
        count: int,
        command: Sequence[str],
        storage: str,
        folder: str,
        say: Callable[[str], None],
    ) -> None:
        self._options = options
        self._count = count
        self._command = command
        self._storage = storage
        self._folder = os.path.abspath(folder)
        self._say = say
        self._array = ""
        self._next_look = 0.0

    def start(self) -> None:
        """Submit the jobs; raises ``CannotSearch`` if Slurm refuses them."""
        script = os.path.join(self._folder, SCRIPT)
        text = f"#!/bin/sh\nexec {shlex.join(self._command)}\n"
        try:
            atomic.write(script, text.encode())
        except OSError as error:
            raise CannotSearch(f"{script}: {error.strerror}") from None
        submit = [
            *("sbatch", "--parsable"),
            f"--array=0-{self._count - 1}",
            f"--job-name=fp8tune-{os.path.basename(self._folder)}",
            f"--output={os.path.join(self._folder.replace('%', '%%'), LOGS)}",
            "--open-mode=append",
            "--requeue",
            f"--signal=B:USR1@{NOTICE_S}",
            "--export=ALL",
            *(f"--{key}={value}" for key, value in self._options.items()),
            script,
        ]
        try:
            answer = run(submit, {STORAGE: self._storage}).strip()
        except Refused as error:
            raise CannotSearch(f"Slurm refused the workers: {error}") from None
        self._array = answer.partition(";")[0]
        if not self._array.isdecimal():
            raise CannotSearch(f"Slurm: sbatch answered {plain(answer[:80])!r}")
        workers = counted(self._count, "worker")
        self._say(f"Slurm job {self._array}, {workers}: {shlex.join(submit)}")
        self._next_look = time.monotonic() + POLL_S

    def poll(self) -> str:
        """Return why no job is left, else ``""``; Slurm is asked once in a while."""
        if time.monotonic() < self._next_look:
            return ""
        self._next_look = time.monotonic() + POLL_S
        try:
            left = run(["squeue", "--noheader", f"--jobs={self._array}"])
        except Refused as error:
            # squeue refuses a job that ended some minutes ago
            left = "" if "Invalid job id" in str(error) else str(error)
        if left.strip():
            return ""
        logs = f"{shlex.quote(self._folder)}/{LOG_FILES}"
        return f"Slurm job {self._array} has ended; see why: tail {logs}"

    def stop(self) -> None:
        """Cancel the jobs that are left."""
        cancel = ["scancel", "--quiet", self._array]
        try:
            run(cancel)
        except Refused as error:
            self._say(f"Slurm: {error}; to cancel the workers: {shlex.join(cancel)}")


def requeue_this_job() -> None:
    """Let Slurm start the job of this process again, whose time limit is near."""
    if job := os.environ.get("SLURM_JOB_ID", ""):
        try:
            run(["scontrol", "requeue", job])
        except Refused as error:
            note(f"Slurm: {error}; submit the job again")


class Refused(Exception):
    """A program of Slurm's failed; the message is its own, in one line."""


def run(words: list[str], more: Mapping[str, str] | None = None) -> str:
    """Run a program of Slurm's and return its output; raises ``Refused``.

    ``more`` are variables that it gets besides those of this process.
    """
    try:
        done = subprocess.run(  # noqa: S603, an argument list without a shell
            words,
            env={**outside_this_job(), **(more or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            text=True,
            errors="replace",
            timeout=ANSWER_S,
        )
    except FileNotFoundError:
        where = "run this on a machine of the cluster"
        raise Refused(f"no {words[0]} on this machine; {where}") from None
    except subprocess.TimeoutExpired:
        raise Refused(f"{words[0]} did not answer in {ANSWER_S:.0f} s") from None
    if done.returncode:
        lines = [line.removeprefix(f"{words[0]}: ") for line in _lines(done.stderr)]
        text = " ".join(line.removeprefix("error: ") for line in lines)
        raise Refused(text or f"{words[0]} ended with exit code {done.returncode}")
    return done.stdout


def outside_this_job() -> dict[str, str]:
    """Return the variables of this process that are not of its own job.

    Slurm's programs take options from those, which are not meant for other processes.
    """
    return {k: v for k, v in os.environ.items() if not _OF_A_JOB.fullmatch(k)}


def _lines(text: str) -> list[str]:
    return [plain(line.strip()) for line in text.splitlines() if line.strip()]


def seconds(text: str) -> float | None:
    """Return the seconds of Slurm's ``1-02:03:04``, ``02:03:04`` or ``3:04``.

    ``None`` for what is no duration, such as UNLIMITED.
    """
    days, dash, clock = text.strip().rpartition("-")
    parts = clock.split(":")
    known = [*([days] if dash else []), *parts]
    if not all(part.isdecimal() for part in known) or not 2 <= len(parts) <= 3:
        return None
    total = 0.0
    for part in parts:
        total = 60 * total + int(part)
    return total + 86400 * int(days or 0)


class Allocation(NamedTuple):
    """The job of Slurm in which this process runs."""

    job: str
    nodes: int
    gpus: int
    """GPUs of the whole job; 0 if unknown."""
    on_a_node: bool
    """Whether this process runs on a node of the job, and not on a login node."""

    @property
    def needs_srun(self) -> bool:
        """Whether workers on all of its GPUs have to be started by srun."""
        return self.nodes > 1 or not self.on_a_node

    def workers(self, gpus_of_each: int) -> int:
        """Return how many workers with so many GPUs fit; raises ``CannotSearch``."""
        count = self.gpus // max(gpus_of_each, 1)
        if not count:
            has = counted(self.gpus, "GPU") if self.gpus else "no GPU that Slurm names"
            raise CannotSearch(
                f"Slurm job {self.job} has {has}, and a worker needs {gpus_of_each}; "
                "give the number of workers: --workers N"
            )
        return count

    def srun(self, workers: int, gpus_of_each: int) -> list[str]:
        """Return the beginning of a command that starts workers on all nodes.

        The others go on if one fails, or its node.
        """
        return [
            *("srun", f"--jobid={self.job}", f"--ntasks={workers}"),
            *([f"--gpus-per-task={gpus_of_each}"] if gpus_of_each else []),
            *("--kill-on-bad-exit=0", "--no-kill", "--label"),
        ]


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
        on_a_node="SLURMD_NODENAME" in environment,
    )


def _number(environment: Mapping[str, str], name: str) -> int:
    """Return a number; also that of ``h100:4``. 0 if there is none."""
    text = environment.get(name, "").rpartition(":")[2]
    return int(text) if text.isdecimal() and len(text) < 7 else 0


def default_budget(allocation: Allocation) -> float:
    """Return what is left of a job's time, less a reserve [s].

    Raises ``CannotSearch`` if the job has no end, or hardly any time.
    """
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
    return f"{default_budget(allocation):.0f}s"
