"""The file of records that a replay is given."""

from __future__ import annotations

import hashlib

from fp8tune.search.plan import CannotPlan
from fp8tune.search.record import BadRecord, Record, parse_all

MAX_BYTES = 1 << 28


def recorded(path: str) -> tuple[list[Record], str]:
    """The records of a file, and its digest.

    Raises ``CannotPlan`` and ``BadRecord``.
    """
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
        records = list(parse_all(lines))
    except BadRecord as error:
        raise BadRecord(f"{path}: {error}") from None
    return records, hashlib.sha256(data).hexdigest()
