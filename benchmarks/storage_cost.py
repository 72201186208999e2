"""Measure what Optuna's storage costs a trial, for many workers at once.

    python -m benchmarks.storage_cost postgresql://user:password@host/database
    python -m benchmarks.storage_cost study.journal --workers 1 8

It asks of a storage what a parallel search asks, and nothing else: one coordinator puts
each trial as WAITING with its parameters; workers claim it, set its record as user
attributes, tell it, and read the trials so far. ``separate`` sets each field of the
record by itself, ``packed`` sets all but six of them as one attribute. With ``--pause``
a worker waits about so many seconds between its trials; without, the storage is as busy
as so many workers can make it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import statistics
import time
from collections.abc import Iterable
from itertools import pairwise
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier, Semaphore
from typing import Any, NamedTuple

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.storages import BaseStorage
from optuna.trial import TrialState, create_trial

from fp8tune.search.database import without_password
from fp8tune.search.storage import open_storage

FIELDS = 30
"""User attributes of a trial; real records have 25 to 35."""
PLAIN = 6
"""Attributes that ``packed`` keeps apart, such as the stage and the outcome."""
PARTS = ("claim", "attributes", "tell", "read")
PARAMS = {"train.batch_size": 8, "train.activation_checkpointing": "full"}
DISTRIBUTIONS: dict[str, BaseDistribution] = {
    "train.batch_size": CategoricalDistribution((1, 2, 4, 8)),
    "train.activation_checkpointing": CategoricalDistribution(("none", "full")),
}


def record(*, packed: bool) -> dict[str, Any]:
    """Return the user attributes of one trial."""
    steps = [3130.125 + step for step in range(40)]
    fields: dict[str, Any] = {f"field_{n}": 1234.5 + n for n in range(FIELDS - 1)}
    fields["step_ms"] = steps
    if not packed:
        return fields
    names = list(fields)
    rest = {name: fields[name] for name in names[PLAIN:]}
    return {**{name: fields[name] for name in names[:PLAIN]}, "rest": json.dumps(rest)}


def create(storage: BaseStorage, study: int) -> int:
    """Put a trial as WAITING, as the coordinator does; return its ID."""
    template = create_trial(
        state=TrialState.WAITING,
        params=PARAMS,
        distributions=DISTRIBUTIONS,
        user_attrs={"stage": "search", "process": 0},
    )
    return storage.create_new_trial(study, template)


def work_on(
    storage: BaseStorage, study: int, trial: int, fields: dict[str, Any]
) -> list[float]:
    """Do what a worker asks of a storage; return the time of each of ``PARTS`` [s]."""
    at = [time.perf_counter()]
    if not storage.set_trial_state_values(trial, TrialState.RUNNING):
        raise RuntimeError("another process claimed the trial")
    at.append(time.perf_counter())
    for name, value in fields.items():
        storage.set_trial_user_attr(trial, name, value)
    at.append(time.perf_counter())
    storage.set_trial_system_attr(trial, "constraints", [0.0])
    storage.set_trial_state_values(trial, TrialState.COMPLETE, [1.0])
    at.append(time.perf_counter())
    storage.get_all_trials(study, deepcopy=False)
    at.append(time.perf_counter())
    return [end - start for start, end in pairwise(at)]


class Load(NamedTuple):
    """What each worker does."""

    url: str
    study: str
    packed: bool
    trials: int
    pause_s: float


class Channels(NamedTuple):
    """What the processes tell each other besides the storage.

    At most as many trials are WAITING as there are workers (``room``).
    """

    waiting: Queue[int]
    room: Semaphore
    out: Queue[Any]
    ready: Barrier


def worker(load: Load, channels: Channels) -> None:
    """Work on trials; put the times of their parts and the CPU time [s]."""
    storage = open_storage(load.url, create=False)
    study = storage.get_study_id_from_name(load.study)
    fields = record(packed=load.packed)
    storage.get_all_trials(study)  # connects
    channels.ready.wait()
    draw = random.Random(os.getpid())  # noqa: S311
    times, cpu_s, start = [], 0.0, time.monotonic()
    for _ in range(load.trials):
        time.sleep(draw.uniform(0.0, 2 * load.pause_s))
        trial = channels.waiting.get()
        channels.room.release()
        before = time.process_time()
        times.append(work_on(storage, study, trial, fields))
        cpu_s += time.process_time() - before
    channels.out.put((start, time.monotonic(), times, cpu_s))


def _ms(seconds: Iterable[float]) -> float:
    """Return the median in ms."""
    return round(1e3 * statistics.median(seconds), 1)


def measure(load: Load, workers: int) -> dict[str, Any]:
    """Return the costs with so many workers, each with so many trials.

    ``cpu`` is of the worker's process alone, without the server.
    """
    context = multiprocessing.get_context("spawn")
    storage = open_storage(load.url, create=True)
    optuna.create_study(storage=storage, study_name=load.study)
    study = storage.get_study_id_from_name(load.study)
    channels = Channels(
        waiting=context.Queue(),
        room=context.Semaphore(workers),
        out=context.Queue(),
        ready=context.Barrier(workers + 1),
    )
    args = (load, channels)
    started = [context.Process(target=worker, args=args) for _ in range(workers)]
    for process in started:
        process.start()
    channels.ready.wait()
    creating = []
    for _ in range(workers * load.trials):
        channels.room.acquire()
        start = time.perf_counter()
        channels.waiting.put(create(storage, study))
        creating.append(time.perf_counter() - start)
    results = [channels.out.get(timeout=600) for _ in started]
    for process in started:
        process.join()
    optuna.delete_study(storage=storage, study_name=load.study)
    every = [times for _, _, told, _ in results for times in told]
    wall = max(end for _, end, *_ in results) - min(start for start, *_ in results)
    parts = dict(zip(PARTS, zip(*every, strict=True), strict=True))
    return {
        "workers": workers,
        "attributes": "packed" if load.packed else "separate",
        "pause_s": load.pause_s,
        "trials": len(every),
        "ms_per_trial_of_coordinator": _ms(creating),
        "ms_per_trial_of_worker": _ms(map(sum, every)),
        "cpu_ms_per_trial_of_worker": round(
            1e3 * sum(cpu_s for *_, cpu_s in results) / len(every), 1
        ),
        "ms_of_part": {part: _ms(times) for part, times in parts.items()},
        "trials_per_second": round(len(every) / wall, 1),
    }


def main() -> None:
    """Print one JSON line for each number of workers, separate and packed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="storage URL, or the path of a journal")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--trials", type=int, default=640, help="of all workers")
    parser.add_argument("--pause", type=float, default=0.0, metavar="SECONDS")
    asked = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    print(f"# {without_password(asked.url)}, {os.cpu_count()} cores")
    for packed in (False, True):
        for workers in asked.workers:
            each = max(asked.trials // workers, 5)
            name = f"cost-{os.getpid()}-{workers}-{packed}"
            load = Load(asked.url, name, packed, each, asked.pause)
            print(json.dumps(measure(load, workers)), flush=True)


if __name__ == "__main__":
    main()
