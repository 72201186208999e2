"""Read the profile that a trial left: did FP8 matmuls run where the config asks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from fp8tune.job import Job
from fp8tune.verify import trace
from fp8tune.verify.evidence import Log
from fp8tune.verify.expected import of_job
from fp8tune.verify.inputs import NoRun, inputs
from fp8tune.verify.verdict import judge

NAMES = (".json", ".json.gz")
"""How the names of profiles end."""


class Proof(NamedTuple):
    """What proves that FP8 ran, and else why nothing does (``missing``).

    ``matmuls`` is the number of FP8 matmuls in a step, on one rank.
    """

    matmuls: int = 0
    missing: str = ""


def profiles(folder: str) -> Iterator[str]:
    """Yield the profiles below a folder that have been written, in order."""
    try:
        found = inputs((folder,)) if os.path.isdir(folder) else None
    except NoRun:  # a folder with others alone
        return
    for path in sorted(found.traces if found else ()):
        if path.endswith(NAMES) and os.path.getsize(path):
            yield path


def proof(log: Log, folder: str, job: Job) -> Proof:
    """Return whether FP8 ran, by one profile and the log; reads the first rank's."""
    path = next(profiles(folder), "")
    traces = [trace.read(path)] if path else []
    verdict = judge([log], traces, of_job(job))
    why = "; ".join(reason.message for reason in verdict.reasons[-1:])
    if verdict.word != "verified":
        lack = "" if path else "the trainer wrote no profile; "
        return Proof(missing=f"FP8 was asked for, but {lack}{why or verdict.word}")
    steps = max(1, traces[0].steps) if traces else 1
    calls = traces[0].fp8.calls if traces else 0
    return Proof(round(calls / steps))
