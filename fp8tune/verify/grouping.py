"""Which logs and traces belong to one run, where a folder holds several.

Logs of the ranks, nodes, attempts and streams of one job are one run, by their names or
by the ranks that their lines show, and so is a job that goes on where the one before it
stopped. Names that differ in another number, or folders that hold a log of the same
name, are runs of their own. Any other log is of the run in its folder, unless it logs
other losses at the same steps.
"""

from __future__ import annotations

import math
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from fp8tune.verify.cause import causes
from fp8tune.verify.evidence import Curve, Log, Trace

SUFFIX = re.compile(r"(?:\.(?:gz|log|out|err|txt|jsonl))+$")
STREAM = re.compile(r"(?:^|[._-])(?:std)?(?:out|err)$")
RANK = re.compile(
    r"(rank|node|worker|proc|process|task|host|attempt|restart|retry)[._-]?\d+",
    re.IGNORECASE,
)
OF_ATTEMPT = re.compile(r"(attempt)/\d+")
"""The folder of a rank, as torchrun names it with ``--log-dir``."""
NUMBER = re.compile(r"\d+")
LAST = re.compile(r"\d+(?=\D*$)")
LOSSES = 1000
"""Steps of two logs whose losses are compared."""
ROUNDING = 0.01
"""How far one loss may differ from itself, as two logs round it [share]."""


@dataclass
class Run:
    """The files of one run. ``job`` is the name that they share."""

    job: str
    logs: list[Log] = field(default_factory=list)
    traces: list[Trace] = field(default_factory=list)

    @property
    def folders(self) -> set[str]:
        """The folders of its logs."""
        return {folder_of(log.path) for log in self.logs}


def runs_of(
    logs: Sequence[Log], traces: Sequence[Trace]
) -> tuple[list[Run], list[str]]:
    """Return the runs that files are of, and traces of which that cannot be told."""
    jobs: dict[str, Run] = {}
    for log in logs:
        name = job_of(log.path)
        jobs.setdefault(name, Run(name)).logs.append(log)
    runs = _runs(list(jobs.values())) if jobs else []
    if len(runs) < 2:
        return [Run("", list(logs), list(traces))], []
    lost, owners = [], _owners(runs)
    for trace in traces:
        if near := _nearest(trace.path, owners):
            near.traces.append(trace)
        else:
            lost.append(trace.path)
    return runs, lost


def folder_of(path: str) -> str:
    """Return the folder of a file, however its path was written."""
    return os.path.dirname(os.path.abspath(path))


def job_of(path: str) -> str:
    """Return a log's path without what tells files of one job apart."""
    folder, name = folder_of(path), os.path.basename(path)
    stem = STREAM.sub("", SUFFIX.sub("", name))
    return OF_ATTEMPT.sub(r"\1", RANK.sub(r"\1", f"{folder}/{stem}"))


def _runs(jobs: list[Run]) -> list[Run]:
    """Return runs: jobs of like names, and others that are of none of them."""
    families = defaultdict(list)
    for job in jobs:
        folder, stem = os.path.split(job.job)
        families[folder.count("/"), NUMBER.sub("#", stem)].append(job)
    leading = max(families.values(), key=lambda each: sum(map(_tells, each)))
    runs = _restarted(_of_ranks(leading))
    runs = [run for run in runs if _tells(run)] or runs[:1]
    owners = _owners(runs)
    for job in (
        job for each in families.values() if each is not leading for job in each
    ):
        near = runs[0] if len(runs) == 1 else _nearest(job.logs[0].path, owners)
        if near and not _differ(near, job):
            near.logs += job.logs
        elif _tells(job):
            runs.append(job)
            owners = _owners([job], owners)
    return runs


def _owners(
    runs: Iterable[Run], owners: dict[str, Run | None] | None = None
) -> dict[str, Run | None]:
    """Return whose each folder is, with those above; None for one of several runs."""
    owners = {} if owners is None else owners
    for run in runs:
        for folder in run.folders:
            for each in _upwards(folder):
                owners[each] = run if owners.get(each, run) is run else None
    return owners


def _nearest(path: str, owners: dict[str, Run | None]) -> Run | None:
    """Return whose the nearest folder around a file is that has logs at all."""
    return next(
        (owners[each] for each in _upwards(folder_of(path)) if each in owners),
        None,
    )


def _upwards(folder: str) -> Iterator[str]:
    """Yield a folder and those above it."""
    yield folder
    while (above := os.path.dirname(folder)) != folder:
        folder = above
        yield folder


def _of_ranks(jobs: list[Run]) -> list[Run]:
    """Join the jobs that are ranks of one run; sort them by the numbers in names."""
    jobs = sorted(jobs, key=lambda job: list(map(int, NUMBER.findall(job.job))))
    groups = defaultdict(list)
    for job in jobs:
        last = LAST.search(job.job)
        rest = (job.job[: last.start()], job.job[last.end() :]) if last else job.job
        groups[rest].append(job)
    joined = []
    for each in groups.values():
        logs = [log for job in each for log in job.logs]
        ranks = [rank for log in logs for rank in log.ranks]
        apart = all(log.ranks for log in logs) and len(ranks) == len(set(ranks))
        names = [int(n) for job in each for n in LAST.findall(job.job)]
        counted = names == list(range(len(each))) and sum(map(_steps, each)) <= 1
        if len(each) > 1 and (apart or counted):
            joined.append(Run(each[0].job, logs))
        else:
            joined += each
    return joined


def _restarted(runs: list[Run]) -> list[Run]:
    """Join a run with the one before that it goes on from."""
    joined: list[Run] = []
    for run in runs:
        if joined and _goes_on(joined[-1], run):
            for log in joined[-1].logs:
                log.continued = True
            joined[-1].logs += run.logs
        else:
            joined.append(run)
    return joined


def _goes_on(before: Run, now: Run) -> bool:
    """Whether a run begins at a step where the other one stopped, in its precision."""
    earlier, later = _curve([before]), _curve([now])
    if not earlier or not later or _says(before) != _says(now):
        return False
    first, last = earlier.step[0], earlier.step[-1]
    interval = (last - first) / max(1, len(earlier) - 1)
    return first < later.step[0] <= last + 2 * interval and last < later.step[-1]


def _says(run: Run) -> set[tuple[str, str]]:
    """Return what the logs of a run say of FP8 and of its precision."""
    said = {(log.trainer, one.name) for log in run.logs for one in log.mentions}
    return said | {("", log.settings.get("precision", "")) for log in run.logs}


def _differ(run: Run, job: Run) -> bool:
    """Whether two logs are of two trainers, or of the same steps with other losses.

    Or, if both show how their run begins, with other lines on FP8.
    """
    trainers = [
        {log.trainer for log in each.logs if log.trainer and log.starts}
        for each in (run, job)
    ]
    if all(trainers) and not trainers[0] & trainers[1]:
        return True
    curves = [curve for curve in (_curve([run]), _curve([job])) if curve]
    first, second = (
        dict(zip(curve.step[:LOSSES], curve.loss[:LOSSES], strict=True))
        for curve in (curves if len(curves) == 2 else (Curve(), Curve()))
    )
    both = first.keys() & second.keys()
    if not both:
        return False
    if any(abs(first[n] - second[n]) > ROUNDING * abs(first[n]) for n in both):
        return True
    began = all(any(log.began for log in each.logs) for each in (run, job))
    return began and _says(run) != _says(job)


def _curve(runs: Iterable[Run]) -> Curve | None:
    """Return the curve with the most steps; None without a numbered step."""
    curves = [c for run in runs for log in run.logs for c in log.starts if len(c)]
    curve = max(curves, key=len, default=None)
    return curve if curve is not None and math.isfinite(curve.step[0]) else None


def _steps(run: Run) -> bool:
    """Whether a run logged a step."""
    return any(len(curve) for log in run.logs for curve in log.starts)


def _tells(run: Run) -> bool:
    """Whether a log tells anything of a run: a step, FP8, or how it failed."""
    return _steps(run) or any(
        log.mentions
        or any(causes()[sign.cause].severity == "error" for sign in log.signs)
        for log in run.logs
    )
