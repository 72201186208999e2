"""Read fields of protobuf messages, without their schemas.

Files are untrusted: lengths are checked against what is there, and numbers have at most
ten bytes. https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MAX_VARINT = 10
"""Most bytes of a number."""

Field = tuple[int, int, int | bytes]
"""Number and wire type of a field, and its value: bytes unless it is a varint."""


class BadMessage(Exception):
    """Bytes that are no protobuf message."""


def fields(data: bytes) -> Iterator[Field]:
    """Yield the fields of a message in their order; raises ``BadMessage``."""
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


def signed(value: int) -> int:
    """Return a varint as the signed number of 64 bits that it stands for."""
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value


def double(data: bytes) -> float:
    """Return the number in eight bytes."""
    return float(struct.unpack("<d", data)[0])


def single(data: bytes) -> float:
    """Return the number in four bytes."""
    return float(struct.unpack("<f", data)[0])
