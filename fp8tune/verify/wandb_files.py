"""Read the history of wandb's offline files, with the standard library alone.

``run-ID.wandb`` begins with seven bytes and continues in blocks of 32 KiB, as
LevelDB's log does: parts of records with a checksum, a length and a type. A record is
wandb's ``Record`` message (wandb/proto/wandb_internal.proto): field 2 is a row of the
history, which has items (1: key 1 or nested key 2, JSON value 16) and a step (2).
"""

from __future__ import annotations

import json
import math
import os
import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from fp8tune.verify.scalars import Scalars, TooMuch
from fp8tune.verify.wire import BYTES, VARINT, BadMessage, fields, signed

HEAD = b":W&B"
"""How a file begins; a number of two bytes and a version follow."""
HEAD_SIZE, BLOCK, PART_HEAD = 7, 32768, 7
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
MAX_RECORD = 1 << 20
"""Longest record that is read [bytes]; longer ones are no rows of numbers."""
MAX_JSON = 40
"""Longest value of the history that can be a number [bytes]."""
STEP_KEYS = ("step", "global_step", "train/global_step", "trainer/global_step")
"""Items of the history that have the trainer's own step; wandb's is 1 per call."""


def is_wandb_file(path: str) -> bool:
    """Return whether a file begins as wandb's offline files do."""
    with open(path, "rb") as file:
        return file.read(len(HEAD)) == HEAD


def read(path: str, into: Scalars) -> None:
    """Read an offline file; ``into.cut`` says why it was not read to its end."""
    with open(path, "rb") as file:
        try:
            file.seek(HEAD_SIZE)
            for record in _records(file):
                for number, kind, value in fields(record):
                    if number == 2 and kind == BYTES and isinstance(value, bytes):
                        _add(value, into)
        except (BadMessage, TooMuch) as error:
            into.cut = f"{os.path.basename(path)}: {error}"


def _records(file: BinaryIO) -> Iterator[bytes]:
    """Yield the records, joined from their parts."""
    parts: list[bytes] = []
    size = 0
    for kind, data in _parts(file):
        if kind in (FULL, FIRST):
            parts, size = [], 0
        size += len(data)
        if size <= MAX_RECORD:
            parts.append(data)
        if kind in (FULL, LAST):
            if size <= MAX_RECORD:
                yield b"".join(parts)
            parts, size = [], 0


def _parts(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the type and the bytes of each part; no part crosses a block's end."""
    while True:
        left = BLOCK - file.tell() % BLOCK
        if left < PART_HEAD:
            file.seek(left, os.SEEK_CUR)
        at = file.tell()
        head = file.read(PART_HEAD)
        if len(head) < PART_HEAD:
            return
        crc, length, kind = struct.unpack("<IHB", head)
        data = file.read(length)
        if len(data) < length:
            return  # still being written
        if kind not in (FULL, FIRST, MIDDLE, LAST):
            raise BadMessage(f"no record at byte {at:,}")
        if zlib.crc32(data, zlib.crc32(bytes([kind]))) != crc:
            raise BadMessage(f"bad checksum at byte {at:,}")
        yield kind, data


def _add(row: bytes, into: Scalars) -> None:
    """Add the numbers of one row of the history."""
    step, values = math.nan, {}
    for number, kind, data in fields(row):
        if kind != BYTES or not isinstance(data, bytes):
            continue
        if number == 2:
            counted = (v for n, k, v in fields(data) if (n, k) == (1, VARINT))
            step = float(signed(int(next(counted, 0))))
        elif number == 1:
            key, value = _item(data)
            if value is not None:
                values[key] = value
    if math.isnan(step):
        step = values.get("_step", math.nan)
    own = next((values[key] for key in STEP_KEYS if key in values), step)
    for key, value in values.items():
        if not key.startswith("_"):
            into.add(key, own, value, values.get("_timestamp", math.nan))


def _item(data: bytes) -> tuple[str, float | None]:
    """Return the key of an item of the history, and its value if it is a number."""
    keys: list[str] = []
    value = None
    for number, _, part in fields(data):
        if not isinstance(part, bytes):
            continue
        if number in (1, 2):
            keys.append(part.decode("utf-8", "replace"))
        elif number == 16 and len(part) <= MAX_JSON:
            value = _json_number(part)
    return ".".join(filter(None, keys)), value


def _json_number(text: bytes) -> float | None:
    """Return a JSON value that is a number; wandb writes NaN as JSON or as a string."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if value in ("NaN", "Infinity", "-Infinity"):
        return math.nan
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None
