"""Use the measurements of trials to correct the estimates of similar configs.

Within a study the sampler's models correct the estimate. This module stores measured
runs, with GPU and versions, for ``fp8tune estimate`` and for later searches. A search
reads them once and stores them in its study, so that a search that was killed continues
with the same estimate.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from fp8tune.facts.gpus import is_another
from fp8tune.facts.runs import BadCalibration, Run, of_job
from fp8tune.facts.stored import add, parse, read
from fp8tune.job import Job, Unknown
from fp8tune.search.description import Description
from fp8tune.search.saved_study import described
from fp8tune.trials.record import Record

NAME = "calibration.jsonl"
MOST = 400
"""Runs that correct the estimate of one search."""
VERSIONS = ("fp8tune", "torch", "torchao", "driver", "allocator")


class Calibration(NamedTuple):
    """What corrects the estimate of a search, as its study stores it.

    ``note`` tells the user why nothing does.
    """

    runs: tuple[Run, ...] = ()
    note: str = ""

    @property
    def data(self) -> dict[str, Any]:
        """The calibration as JSON."""
        return {"runs": [run._asdict() for run in self.runs], "note": self.note}


def choose_calibration(
    about: Description, folder: str, studies: str, url: str = ""
) -> Calibration:
    """Return the calibration of the search whose study is in ``folder`` or at ``url``.

    ``about`` describes the search. A rehearsal on a CPU and a replay have none.
    """
    if (kept := described(folder, url)) is not None:
        return stored_calibration(kept)
    if about.device != "cuda":
        return Calibration()
    here = {name: str(about[name]) for name in VERSIONS if about.get(name)}
    try:
        return Calibration(tuple(stored(studies, str(about["gpu"]), here)))
    except BadCalibration as error:
        return Calibration(note=f"the estimate is not corrected: {error}")


def stored_calibration(about: Description) -> Calibration:
    """Return the calibration in a study, checked: anybody may have written it."""
    try:
        lines = (json.dumps(run) for run in about["calibration"]["runs"])
        return Calibration(tuple(parse(NAME, n, s) for n, s in enumerate(lines, 1)))
    except (ValueError, LookupError, TypeError, BadCalibration):
        return Calibration()


def measured(job: Job, records: Iterable[Record]) -> list[Run]:
    """Return the measured runs of a config, one for each setting.

    Rehearsals on a CPU and loss runs give none. A single rank and a trial on another
    GPU give memory but no speed. A trial that ran out of memory gives a lower bound of
    its peak.
    """
    last: dict[str, Record] = {}
    for record in records:
        counts = record.ok or record.outcome == "oom"
        if counts and not record.rehearsal and not record.loss_run:
            last[repr(sorted(record.knobs.items()))] = record
    return [run for record in last.values() for run in _runs(job, record)]


def _runs(job: Job, record: Record) -> Iterator[Run]:
    """Yield what one trial measured, if it is possible and was predicted.

    Synthetic data routes tokens to other experts than the config's data does.
    """
    accumulation = {"grad_accum": record.grad_accum} if record.grad_accum else {}
    changed = job.keep_tokens(accumulation | record.knobs)
    versions = _versions(record)
    whole = record.ok and not record.extrapolated
    with contextlib.suppress(Unknown):
        whole = whole and not _is_elsewhere(job, record)
    tokens = record.tokens_per_second if whole else 0.0
    # a trainer that prints what is reserved, and nothing else
    is_reserved = record.peak_gib == record.reserved_gib
    peak_gib = 0.0 if is_reserved else record.peak_gib
    pairs = [(peak_gib, 0.0), (0.0, tokens)]
    for peak, rate in pairs if record.ok else [(0.0, 0.0)]:
        with contextlib.suppress(Unknown, BadCalibration):
            runs = of_job(changed, peak, rate, versions, ran_out=not record.ok)
            routed = job["experts"] > 0 and record.synthetic_data is True
            yield from (run._replace(config="") if routed else run for run in runs)


def _is_elsewhere(job: Job, record: Record) -> bool:
    """Return whether a trial ran on another GPU than its config is for."""
    device = record.environment.partition(", torch ")[0]
    return bool(device) and is_another(device, job["gpu"])


def _versions(record: Record) -> dict[str, str]:
    """Return the versions of a trial's software, by name."""
    if record.versions:
        return {name: version for name, version in record.versions.items() if version}
    torch = record.environment.rpartition("torch ")[2]
    return {"torch": torch} if torch else {}


def stored(studies: str, gpu: str, versions: Mapping[str, str]) -> list[Run]:
    """Return the newest stored runs of a GPU with these versions.

    Raises ``BadCalibration``.
    """
    runs = read(os.path.join(studies, NAME))
    return [
        run
        for run in runs
        if run.gpu == gpu
        and all(
            _without_build(versions.get(name, known)) == _without_build(known)
            for name, known in run.versions.items()
        )
    ][-MOST:]


def _without_build(version: str) -> str:
    """Return ``2.9.1`` of ``2.9.1+cu128``."""
    return version.partition("+")[0]


def keep(studies: str, job: Job, records: Iterable[Record]) -> str:
    """Store the measurements of trials; return why that failed, or ``""``."""
    try:
        add(os.path.join(studies, NAME), measured(job, records))
    except (BadCalibration, OSError) as error:
        return f"the estimate is not corrected by this study: {error}"
    return ""
