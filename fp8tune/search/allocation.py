"""A search inside a job of Slurm: the time and the GPUs that the job still has.

The workers of a job with one node are plain processes, as without Slurm. Where the job
has several nodes, or only this shell and no node (``salloc`` on a login node), one
``srun`` starts all of them, each on GPUs of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from fp8tune.search import CannotSearch
from fp8tune.search.slurm import Refused, run, seconds
from fp8tune.words import counted

RESERVE_S = 120.0
"""Part of a job's time that a budget leaves, at least [s]: Slurm may end the job up to
a minute early, and the answer is written after the budget."""
RESERVE = 0.03
"""The same as a part of the time that is left."""
LEAST_S = 60.0
"""A budget shorter than this is no default [s]."""


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


def with_gpus(allocation: Allocation) -> Allocation:
    """Return an allocation with the number of its GPUs, if Slurm knows it.

    No variable has it after ``salloc --gres=gpu:4``.
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
