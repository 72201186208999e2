"""Read the scalars of TensorBoard event files, with the standard library alone.

A file is a sequence of records: a length of 8 bytes, its checksum, the data, and their
checksum (tensorflow/core/lib/io/record_writer.h). A record is an ``Event`` message
(tensorflow/core/util/event.proto): field 1 is the wall time, 2 the step, 5 a summary,
whose values have a tag (1) and a number (2), as torch's SummaryWriter writes scalars.
Files that are still being written end in the middle of a record. They are untrusted:
lengths are checked against what is there, and numbers have at most ten bytes
(https://protobuf.dev/programming-guides/encoding/).
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterator
from typing import BinaryIO

from fp8tune.verify.scalars import Scalars, TooMuch

MARK = "tfevents"
"""What the names of event files contain."""
MAX_RECORD = 1 << 20
"""Longest record that is read [bytes]; longer ones are images, text and graphs."""
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types of fields."""
MAX_VARINT = 10
"""Most bytes of a number."""

Field = tuple[int, int, int | bytes]
"""Number and wire type of a field, and its value: bytes unless it is a varint."""


class BadMessage(Exception):
    """Bytes that are no protobuf message."""


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
            step = _signed(value) if number == 2 else step
        elif number == 1 and kind == FIXED64:
            time = struct.unpack("<d", value)[0]
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
            scalar = struct.unpack("<f", value)[0]
    return tag, scalar


def fields(data: bytes) -> Iterator[Field]:
    """Yield the fields of a protobuf message in their order; raises ``BadMessage``."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = _varint(data, at)
            yield number, kind, value
            continue
        if kind == BYTES:
            size, at = _varint(data, at)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise BadMessage(f"wire type {kind}")
        if size > len(data) - at:
            raise BadMessage("a field is longer than its message")
        yield number, kind, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number and where it ends."""
    value = 0
    for place, byte in enumerate(data[at : at + MAX_VARINT]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise BadMessage("a number does not end")


def _signed(value: int) -> int:
    """Return a varint as the signed number of 64 bits that it stands for."""
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value
