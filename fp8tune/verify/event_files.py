"""Read the scalars of TensorBoard event files, with the standard library alone.

A file is a sequence of records: a length of 8 bytes, its checksum, the data, and their
checksum (tensorflow/core/lib/io/record_writer.h). A record is an ``Event`` message
(tensorflow/core/util/event.proto): field 1 is the wall time, 2 the step, 5 a summary,
whose values have a tag (1), and a number (2) or a tensor (8). Files that are still
being written end in the middle of a record.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterator
from typing import BinaryIO

from fp8tune.verify.scalars import Scalars, TooMuch
from fp8tune.verify.wire import (
    BYTES,
    FIXED32,
    FIXED64,
    VARINT,
    BadMessage,
    double,
    fields,
    signed,
    single,
)

MARK = "tfevents"
"""What the names of event files contain."""
MAX_RECORD = 1 << 20
"""Longest record that is read [bytes]; longer ones are images, text and graphs."""
FLOAT, DOUBLE = 1, 2
"""Types of a tensor that can be a scalar (tensorflow/core/framework/types.proto)."""


def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


_CRC = _table()


def masked_crc(data: bytes) -> int:
    """Return the CRC-32C of some bytes, rotated and shifted as the files store it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def read(path: str, into: Scalars) -> None:
    """Read an event file; ``into.cut`` says why it was not read to its end."""
    with open(path, "rb") as file:
        try:
            for record in _records(file):
                _add(record, into)
        except (BadMessage, TooMuch) as error:
            into.cut = f"{os.path.basename(path)}: {error}"


def _records(file: BinaryIO) -> Iterator[bytes]:
    """Yield the data of each record that is short enough to be of scalars."""
    size = os.fstat(file.fileno()).st_size
    while head := file.read(12):
        if len(head) < 12:
            return  # still being written
        if masked_crc(head[:8]) != _number(head[8:]):
            raise BadMessage(f"bad checksum at byte {file.tell() - 12:,}")
        length = int(struct.unpack("<Q", head[:8])[0])
        if length > size - file.tell() - 4:
            return  # still being written
        if length > MAX_RECORD:
            file.seek(length + 4, os.SEEK_CUR)
            continue
        data = file.read(length)
        if masked_crc(data) != _number(file.read(4)):
            raise BadMessage(f"bad checksum at byte {file.tell() - length - 4:,}")
        yield data


def _number(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _add(record: bytes, into: Scalars) -> None:
    """Add the scalars of one event."""
    step, time, summaries = 0, math.nan, []
    for number, kind, value in fields(record):
        if isinstance(value, int):
            step = signed(value) if number == 2 and kind == VARINT else step
        elif number == 1 and kind == FIXED64:
            time = double(value)
        elif number == 5 and kind == BYTES:
            summaries.append(value)
    for summary in summaries:
        for number, kind, value in fields(summary):
            if number == 1 and kind == BYTES and isinstance(value, bytes):
                tag, scalar = _value(value)
                if scalar is not None:
                    into.add(tag, step, scalar, time)


def _value(data: bytes) -> tuple[str, float | None]:
    """Return the tag of a summary's value, and its number if it is one."""
    tag, scalar = "", None
    for number, kind, value in fields(data):
        if isinstance(value, int):
            continue
        if number == 1 and kind == BYTES:
            tag = value.decode("utf-8", "replace")
        elif number == 2 and kind == FIXED32:
            scalar = single(value)
        elif number == 8 and kind == BYTES:
            scalar = _tensor(value)
    return tag, scalar


def _tensor(data: bytes) -> float | None:
    """Return the number in a tensor of one element, in any of its three encodings."""
    dtype, found = 0, None
    for number, kind, value in fields(data):
        if isinstance(value, int):
            dtype = value if number == 1 else dtype
        elif number == 4 and len(value) == (8 if dtype == DOUBLE else 4):
            found = value
        elif number == 5 and len(value) == 4:  # packed or not
            found = value if dtype == FLOAT else found
        elif number == 6 and len(value) == 8 and kind != VARINT:
            found = value if dtype == DOUBLE else found
    if found is None or dtype not in (FLOAT, DOUBLE):
        return None
    return double(found) if dtype == DOUBLE else single(found)
