"""Decide who starts the workers of a search: this machine, Slurm, or somebody else.

- ``--slurm``: jobs of Slurm.
- ``--workers 0``: nobody; the user starts ``fp8tune worker``.
- ``--workers N`` or ``--gpus``: processes of this machine. Inside a job of Slurm with
  several nodes, or with nodes that are other machines (``salloc``): steps of the job.
"""

from __future__ import annotations

import os
import shlex

from fp8tune.search import CannotSearch
from fp8tune.search.allocation import Allocation, Steps, this_allocation
from fp8tune.search.database import without_password
from fp8tune.search.local_workers import LocalWorkers, gpus_of_workers, worker_command
from fp8tune.search.options import SearchOptions
from fp8tune.search.slurm import Jobs, parse
from fp8tune.search.study import Study
from fp8tune.search.workers import NoStarter, Starter, say


def is_remote(options: SearchOptions) -> bool:
    """Return whether trials run on other machines, so that this one needs no GPU."""
    return options.workers == 0 or bool(options.slurm) or bool(_allocation(options))


def check_storage(options: SearchOptions) -> None:
    """Raise ``CannotSearch`` for a storage that several processes cannot share."""
    if options.storage.startswith("sqlite"):
        raise CannotSearch(
            "SQLite may give one trial to two workers: leave --storage out, or name a "
            "PostgreSQL or MySQL database"
        )


def starter_of(options: SearchOptions, study: Study, gpus_of_each: int) -> Starter:
    """Return what starts the workers; raises ``CannotSearch`` if they cannot be."""
    place = study.place if "://" in study.place else os.path.abspath(study.place)
    command = worker_command(study.name)
    if options.slurm:
        asked = parse(options.slurm)
        count = max(1, options.workers)
        return Jobs(asked, count, command, place, study.folder, say)
    if options.workers == 0:
        shown = f"fp8tune worker --storage {shlex.quote(without_password(place))}"
        say(f"waits for workers: {shown} --study {study.name}")
        return NoStarter()
    if allocation := _allocation(options):
        each = 0 if options.device == "cpu" else gpus_of_each
        count = options.workers if options.workers > 0 else allocation.workers(each)
        return Steps(allocation, count, each, command, place, study.folder)
    named, workers = options.gpus, options.workers
    gpus = gpus_of_workers(named, workers, options.device, gpus_of_each)
    return LocalWorkers(command, place, study.folder, gpus, say)


def _allocation(options: SearchOptions) -> Allocation | None:
    """Return the job of Slurm in which workers have to be started by srun, if any."""
    if options.slurm or not options.has_workers or options.workers == 0:
        return None
    allocation = this_allocation(os.environ)
    if allocation is None or not allocation.needs_steps:
        return None
    if options.gpus not in ("", "all"):
        raise CannotSearch(
            f"--gpus {options.gpus}: Slurm job {allocation.job} has GPUs on other "
            "machines; --gpus all takes all of them, --workers N some"
        )
    return allocation
