"""The file of trials that a replay takes its records from."""

from __future__ import annotations

import hashlib

from fp8tune.search.record import BadRecord, Record, parse_all

MAX_BYTES = 1 << 28


def recorded(path: str) -> tuple[list[Record], str]:
    """The records of a file, and a digest of its bytes; raises ``BadRecord``."""
    if not path:
        raise BadRecord("--runner replay needs --records FILE")
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadRecord(f"{path}: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise BadRecord(f"{path}: larger than {MAX_BYTES >> 20} MiB")
    lines = iter(data.decode(errors="replace").split("\n"))
    try:
        return list(parse_all(lines)), hashlib.sha256(data).hexdigest()
    except BadRecord as error:
        raise BadRecord(f"{path}: {error}") from None
