"""Decide who starts the processes that run trials: this machine, Slurm, or somebody.

- ``--slurm``: jobs of Slurm.
- ``--workers 0``: nobody; the user types the same command with ``--study``.
- ``--workers N`` or ``--gpus``: processes of this machine. Inside a job of Slurm with
  several nodes, or with nodes that are other machines (``salloc``): one srun.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from contextlib import suppress

from fp8tune.search import CannotSearch
from fp8tune.search.budget import show_duration
from fp8tune.search.database import without_password
from fp8tune.search.description import DERIVED, TEXTS, Description
from fp8tune.search.local_workers import (
    LocalWorkers,
    gpus_of_workers,
    module_command,
    worker_name,
)
from fp8tune.search.options import NO_WORKERS, SearchOptions
from fp8tune.search.saved_study import described
from fp8tune.search.say import note
from fp8tune.search.slurm import (
    Allocation,
    Jobs,
    outside_this_job,
    parse,
    this_allocation,
)
from fp8tune.search.stop import THROUGH_SRUN
from fp8tune.search.storage import BEAT_S, MISSED, BadStudy
from fp8tune.search.study import Study
from fp8tune.studies import JOURNAL, SHOWN, NoStudy, find, has_journal, newest

OF_THE_FIRST = (
    *("workers", "gpus", "slurm", "storage", "output", "in_place"),
    *("gpu", "world_size", "trainer", "studies", "objective"),
)
"""Options of the command that begins a study: who joins reads the study, or writes no
answer."""
UNNOTICED = 0.1
"""The part of a budget after which a lost worker is noticed at the latest."""


def is_remote(options: SearchOptions) -> bool:
    """Return whether trials run on other machines, so that this one needs no GPU."""
    return options.workers == 0 or bool(options.slurm) or bool(_allocation(options))


def is_shared(options: SearchOptions) -> bool:
    """Return whether others may search the study too: it is not only in its folder.

    SQLite takes one process, and a replay has one.
    """
    is_own = not options.storage or options.storage.startswith("sqlite")
    return not is_own and options.runner != "replay"


def study_to_join(options: SearchOptions) -> tuple[str, str]:
    """Return the folder and the storage of ``--study``; raises ``CannotSearch``."""
    if options.storage:
        return os.path.join(options.studies, options.study), options.storage
    try:
        folder = find(options.study, options.studies)
    except NoStudy as error:
        raise CannotSearch(str(error)) from None
    if not has_journal(folder):
        raise CannotSearch(f"{folder}: no study.journal in it; give its --storage")
    return folder, os.path.join(folder, JOURNAL)


def name_of_this_process(options: SearchOptions) -> str:
    """Return the name of this process: its host, GPU or number, Slurm job and task.

    The job is named as ``scancel`` takes it, ``12_3`` in an array. Tasks of one srun
    may each see their GPU as number 0.
    """
    array, task = (os.environ.get(f"SLURM_ARRAY_{n}_ID", "") for n in ("JOB", "TASK"))
    job = f"{array}_{task}" if array else os.environ.get("SLURM_JOB_ID", "")
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES") or "0"
    name = worker_name(gpus if options.device == "cuda" else None, os.getpid())
    several = os.environ.get("SLURM_NTASKS", "1") != "1"
    of_srun = f" task {os.environ.get('SLURM_PROCID')}" * several
    return name + f" of job {job}{of_srun}" * bool(job)


def command_to_join(options: SearchOptions, study: str) -> list[str]:
    """Return the command by which a process joins a study; it reads STORAGE."""
    words = ["search", options.config]
    for name, value in options.kept.items():
        if name in OF_THE_FIRST:
            continue
        option = f"--{name.replace('_', '-')}"
        for each in value if isinstance(value, (list, tuple)) else [value]:
            words += [option] if each is True else [option, str(each)]
    words += ["--study", study]
    return [*words, "--", *options.overrides] if options.overrides else words


def more_gpus_note(options: SearchOptions, visible: int, gpus_of_each: int) -> str:
    """Return a note if GPUs of this job or machine stay idle, else ``""``.

    ``visible`` is the number of GPUs that torch sees here. Nothing is said to who gave
    ``--gpus`` or a number of workers.
    """
    chosen = options.gpus or options.slurm or options.workers != NO_WORKERS
    if options.device == "cpu" or chosen:
        return ""
    allocation = None
    with suppress(CannotSearch):  # one of several tasks of srun
        allocation = this_allocation(os.environ)
    spans = allocation is not None and allocation.needs_srun
    count = allocation.gpus if allocation and spans else visible
    if count < 2 * gpus_of_each:
        return ""
    place = "job" if allocation else "machine"
    return f"this {place} has {count} GPUs; --gpus all uses them"


def check_workers(options: SearchOptions) -> None:
    """Raise ``CannotSearch`` for options with which several processes cannot work."""
    most_s = max(BEAT_S, int(options.budget_s * UNNOTICED / MISSED))
    if options.beat_s > most_s:
        unnoticed = show_duration(MISSED * options.beat_s)
        raise CannotSearch(
            f"--heartbeat {options.heartbeat}: a lost worker would be noticed after "
            f"{unnoticed} of a budget of {show_duration(options.budget_s)}; give "
            f"{most_s:.0f}s or less"
        )
    if options.storage.startswith("sqlite"):
        raise CannotSearch(
            "SQLite may give one trial to two workers: leave --storage out, or name a "
            "PostgreSQL database"
        )


def new_study_note(study: Study, options: SearchOptions) -> str:
    """Return why the newest other study of this config's file is not continued.

    ``""`` if there is none.
    """
    own, stem = study.about, study.name.rpartition("-")[0]
    for folder in newest(options.studies):
        name = os.path.basename(folder)
        if name == study.name or name.rpartition("-")[0] != stem:
            continue
        with suppress(BadStudy):
            about = described(folder, "" if has_journal(folder) else options.storage)
            if about is not None and about.get("config") == own["config"]:
                return f"a new study: {_difference(name, about, own)}"
    return ""


def _difference(name: str, about: Description, own: Description) -> str:
    """Return how the search of an earlier study differs from this one."""
    if about.get("overrides") == own.get("overrides"):
        before, now = about.texts, own.texts
        if before.keys() != now.keys():
            own_files, others = (", ".join(sorted(each)) for each in (now, before))
            return f"the files of the job are {own_files}, those of {name} {others}"
        if changed := sorted(path for path in now if now[path] != before[path]):
            return f"the text of {', '.join(changed)} changed since {name}"
    here, there = own.get("machine"), about.get("machine")
    if there and not here:
        return (
            f"{name} was measured on this machine, and workers of --workers 0 and "
            "--slurm may run on others"
        )
    if here and not there:
        return (
            f"{name} was measured by workers that may run on other machines; "
            "--workers 0 or --slurm continues it"
        )
    keys = sorted({*about, *own} - {*TEXTS, *DERIVED})
    changed = [key for key in keys if about.get(key) != own.get(key)]
    names = ", ".join(key.replace("_", " ") for key in changed[:SHOWN])
    return f"changed since {name}: {names or 'the settings'}"


class SomebodyElse:
    """Starts no processes: people do, who get the ``note``."""

    is_other = True

    def __init__(self, note: str) -> None:
        self._note = note

    def start(self) -> None:
        """Say how processes join."""
        note(self._note)

    def poll(self) -> str:
        """Return ``""``: processes may join at any time."""
        return ""

    def stop(self) -> None:
        """Do nothing."""


Starter = LocalWorkers | Jobs | SomebodyElse
"""Starts the processes that run the trials of a search."""


def starter_of(
    options: SearchOptions, study: Study, visible: int, gpus_of_each: int
) -> Starter:
    """Return what starts the workers; raises ``CannotSearch`` if they cannot be.

    torch sees ``visible`` GPUs here.
    """
    place = study.place if "://" in study.place else os.path.abspath(study.place)
    words = command_to_join(options, study.name)
    command = [*module_command("fp8tune"), *words]
    if options.slurm:
        count = max(1, options.workers)
        return Jobs(parse(options.slurm), count, command, place, study.folder, note)
    if options.workers == 0:
        return SomebodyElse(how_to_join(place, words))
    if allocation := _allocation(options):
        each = 0 if options.device == "cpu" else gpus_of_each
        count = options.workers if options.workers > 0 else allocation.workers(each)
        command = [*allocation.srun(count, each), *command]
        more = outside_this_job(), THROUGH_SRUN
        return LocalWorkers(command, place, study.folder, [None], note, *more)
    named, workers = options.gpus, options.workers
    gpus = gpus_of_workers(named, workers, options.device, visible, gpus_of_each)
    return LocalWorkers(command, place, study.folder, gpus, note)


def how_to_join(place: str, words: Sequence[str]) -> str:
    """Return what to type to join, without the storage's password."""
    shown, where = without_password(place), "start one for each GPU, in this folder"
    command = shlex.join(["fp8tune", *words])
    if shown != place:
        where += f" and with FP8TUNE_STORAGE={shown}"
        return f"waits for workers; {where}: {command}"
    option = f"--storage {shlex.quote(place)} --study"
    return f"waits for workers; {where}: {command.replace('--study', option)}"


def _allocation(options: SearchOptions) -> Allocation | None:
    """Return the job of Slurm in which workers have to be started by srun, if any."""
    if options.slurm or not options.has_workers or options.workers == 0:
        return None
    allocation = this_allocation(os.environ)
    if allocation is None or not allocation.needs_srun:
        return None
    if options.gpus not in ("", "all"):
        raise CannotSearch(
            f"--gpus {options.gpus}: Slurm job {allocation.job} has GPUs on other "
            "machines; --gpus all takes all of them, --workers N some"
        )
    return allocation
