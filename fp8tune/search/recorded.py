"""The file of records that a replay is given."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fp8tune.search.accepted import left_out
from fp8tune.search.plan import CannotPlan
from fp8tune.search.retries import without_repaired
from fp8tune.trials.record import BadRecord, Record
from fp8tune.trials.trial import Trial, parse_trial

MAX_BYTES = 1 << 28
WHY = "cut off by the end of a budget, which says nothing under another one"


class Recorded(NamedTuple):
    """The records of a file, what was left out, and the file's digest."""

    records: list[Record]
    notes: list[str]
    digest: str


def recorded(path: str) -> Recorded:
    """Read a file of records; raises ``CannotPlan`` and ``BadRecord``."""
    if not path:
        raise CannotPlan("--runner replay needs --records FILE")
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise CannotPlan(f"{path}: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise CannotPlan(f"{path}: larger than {MAX_BYTES >> 20} MiB")
    lines = data.decode(errors="replace").split("\n")
    try:
        records, notes = alone(parse_trials(lines))
    except BadRecord as error:
        raise BadRecord(f"{path}: {error}") from None
    if notes and not records:
        raise CannotPlan(f"the records hold no trial to replay: {notes[0]}")
    return Recorded(records, notes, hashlib.sha256(data).hexdigest())


def parse_trials(lines: Iterable[str]) -> list[Trial]:
    """The trials of lines; empty ones are passed over. ``BadRecord`` names the line."""
    found: list[Trial] = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                found.append(parse_trial(len(found), line))
            except BadRecord as error:
                raise BadRecord(f"line {number}: {error}") from None
    return found


def alone(trials: Sequence[Trial]) -> tuple[list[Record], list[str]]:
    """The records of trials, and notes of those left out.

    A trial that a budget cut off says nothing of its setting under another budget, and
    a failure that had passed when the study was taken up again nothing at all.
    """
    every = without_repaired(trials)
    notes = left_out([WHY * trial.cut_off for trial in every])
    return [trial.record for trial in every if not trial.cut_off], notes
