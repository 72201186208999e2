"""The file of records that a replay is given."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from fp8tune.search.accepted import left_out
from fp8tune.search.anew import without_mended
from fp8tune.search.answer import WHOLE
from fp8tune.search.cutoff import is_cut_off
from fp8tune.search.plan import CannotPlan
from fp8tune.search.record import BadRecord, Record, parse_all
from fp8tune.search.study import PROCESS, process_of

MAX_BYTES = 1 << 28
OF_STUDY = ("trial", "stage", "budget_s", WHOLE, PROCESS)
"""What a study's trials say of the study: a replay is another one."""
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
    lines = iter(data.decode(errors="replace").split("\n"))
    try:
        records, notes = alone(parse_all(lines))
    except BadRecord as error:
        raise BadRecord(f"{path}: {error}") from None
    if notes and not records:
        raise CannotPlan(f"the records hold no trial to replay: {notes[0]}")
    return Recorded(records, notes, hashlib.sha256(data).hexdigest())


def alone(records: Iterable[Record]) -> tuple[list[Record], list[str]]:
    """Records without what they say of their study, and notes of those left out.

    A trial that a budget cut off says nothing of its setting under another budget, and
    a failure that had passed when the study was taken up again nothing at all.
    """
    every = without_mended((process_of(record), record) for record in records)
    wrong = [WHY * is_cut_off(record) for record in every]
    pairs = zip(every, wrong, strict=True)
    return [_alone(record) for record, odd in pairs if not odd], left_out(wrong)


def _alone(record: Record) -> Record:
    more = {name: said for name, said in record.more.items() if name not in OF_STUDY}
    return record._replace(more=more)
