"""What trials say of the estimates of configs like theirs, and where that is kept.

Within a study the models of memory and speed correct the estimate as trials come in.
What outlives it is kept with the GPU and the versions, for ``fp8tune estimate`` and for
the next search.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping

from fp8tune.facts.gpus import is_another
from fp8tune.facts.runs import BadCalibration, Run, of_job
from fp8tune.facts.stored import add, read
from fp8tune.job import Job, Unknown
from fp8tune.search.tokens import with_knobs
from fp8tune.trials.record import Record

NAME = "calibration.jsonl"
MOST = 400
"""Runs that one search starts from."""


def measured(job: Job, records: Iterable[Record]) -> list[Run]:
    """What trials of a config have measured, once for each of its settings.

    Rehearsals on a CPU say nothing of a GPU, a rank by itself and a trial on another
    GPU nothing of speed, and runs for their losses nothing at all. A trial that ran out
    of memory says that it needs more than there is.
    """
    last: dict[str, Record] = {}
    for record in records:
        tells = record.ok or record.outcome == "oom"
        if tells and not record.rehearsal and not record.loss_run:
            last[repr(sorted(record.knobs.items()))] = record
    return [run for record in last.values() for run in _runs(job, record)]


def _runs(job: Job, record: Record) -> Iterator[Run]:
    """What one trial has measured; what cannot be or was not predicted is left out.

    Synthetic data routes tokens to other experts than the config's data do.
    """
    key = job.words.renamed.get("grad_accum")
    values = dict(record.knobs)
    if key is not None and record.grad_accum:
        values.setdefault(key, record.grad_accum)
    changed, versions = with_knobs(job, values), _versions(record)
    whole = record.ok and not record.extrapolated
    with contextlib.suppress(Unknown):
        whole = whole and not _is_elsewhere(job, record)
    tokens = record.tokens_per_second if whole else 0.0
    told = [(record.peak_gib, 0.0), (0.0, tokens)]
    for peak, rate in told if record.ok else [(0.0, 0.0)]:
        with contextlib.suppress(Unknown, BadCalibration):
            runs = of_job(changed, peak, rate, versions, ran_out=not record.ok)
            routed = job["experts"] > 0 and record.synthetic_data is True
            yield from (run._replace(config="") if routed else run for run in runs)


def _is_elsewhere(job: Job, record: Record) -> bool:
    """Whether a trial ran on another GPU than its config is for."""
    device = record.environment.partition(", torch ")[0]
    return bool(device) and is_another(device, job["gpu"])


def _versions(record: Record) -> dict[str, str]:
    """The software of a trial, by name."""
    if record.versions:
        return {name: version for name, version in record.versions.items() if version}
    torch = record.environment.rpartition("torch ")[2]
    return {"torch": torch} if torch else {}


def stored(studies: str, gpu: str, here: Mapping[str, str]) -> list[Run]:
    """The newest runs that are kept of a GPU and these versions.

    Raises ``BadCalibration``.
    """
    runs = read(os.path.join(studies, NAME))
    return [
        run
        for run in runs
        if run.gpu == gpu
        and all(same(here.get(name, said), said) for name, said in run.versions.items())
    ][-MOST:]


def same(version: str, other: str) -> bool:
    """Whether two versions are the same but for the build, as in ``2.9.1+cu128``."""
    return version.partition("+")[0] == other.partition("+")[0]


def keep(studies: str, job: Job, records: Iterable[Record]) -> str:
    """Keep what trials have measured; what is odd about that, or ``""``."""
    try:
        add(os.path.join(studies, NAME), measured(job, records))
    except (BadCalibration, OSError) as error:
        return f"the estimate is not corrected by this study: {error}"
    return ""
