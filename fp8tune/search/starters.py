"""Choose who starts the workers of a search: this process, Slurm, or nobody."""

from __future__ import annotations

import os
import shlex
import sys

from fp8tune.lint.wording import plain
from fp8tune.search import CannotSearch
from fp8tune.search.allocation import Steps, default_budget, this_allocation
from fp8tune.search.budget import show_duration
from fp8tune.search.database import without_password
from fp8tune.search.local_workers import LocalWorkers, gpus_of_workers, worker_command
from fp8tune.search.options import NO_WORKERS, SearchOptions
from fp8tune.search.slurm import Jobs, parse
from fp8tune.search.study import Study
from fp8tune.search.workers import NoStarter, Starter


def in_this_job(options: SearchOptions) -> SearchOptions:
    """Return the options with what the Slurm job of this process sets.

    Its time is the default of the budget. Its GPUs all get a worker if it has several,
    unless an option says where trials run. Raises ``CannotSearch``.
    """
    slurm = this_allocation(os.environ) if options.runner != "replay" else None
    if not options.budget:
        if slurm is None:
            raise CannotSearch("how long may it take? give --budget, e.g. --budget 2h")
        budget_s = default_budget(slurm, os.environ)
        options = options._replace(budget=f"{budget_s:.0f}s")
        note = f"budget {show_duration(budget_s)}: what is left of Slurm job"
        print(f"note: {note} {slurm.job}", file=sys.stderr)
    if slurm is None or options.has_workers or options.device == "cpu":
        return options
    if slurm.gpus > 1 or slurm.needs_steps:
        return options._replace(workers=slurm.workers(1))
    return options


def starter_of(options: SearchOptions, study: Study) -> Starter:
    """Return who starts the workers of a search; raises ``CannotSearch``."""
    place = study.place if "://" in study.place else os.path.abspath(study.place)
    command, folder = worker_command(study.name), study.folder
    if options.slurm:
        asked, count = parse(options.slurm), max(1, options.workers)
        return Jobs(asked, count, command, place, folder, _say)
    if options.workers == 0:
        typed = f"fp8tune worker --storage {shlex.quote(without_password(place))}"
        _say(f"waits for workers: {typed} --study {study.name}")
        return NoStarter()
    slurm = this_allocation(os.environ)
    if slurm and slurm.needs_steps and not options.gpus:
        count = slurm.workers(1) if options.workers == NO_WORKERS else options.workers
        gpus_of_each = int(options.device == "cuda")
        return Steps(slurm, count, gpus_of_each, command, place, folder)
    gpus = gpus_of_workers(options.gpus, options.workers, options.device)
    return LocalWorkers(command, place, folder, gpus)


def _say(text: str) -> None:
    print(plain(f"note: {text}"), file=sys.stderr, flush=True)
