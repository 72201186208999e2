"""Write event files, logs and CSV files of runs."""

import io
import struct
from collections.abc import Iterable, Sequence

from fp8tune.verify.cause import texts
from fp8tune.verify.event_files import masked_crc
from fp8tune.verify.evidence import Sign
from fp8tune.verify.log import read_file


def signs_of(text: str) -> list[Sign]:
    """The signs of causes in the text of a log."""
    return read_file(io.BufferedReader(io.BytesIO(text.encode())), causes=texts()).signs


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def bytes_field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def record(data: bytes) -> bytes:
    size = struct.pack("<Q", len(data))
    return (
        size
        + masked_crc(size).to_bytes(4, "little")
        + data
        + masked_crc(data).to_bytes(4, "little")
    )


def event(step: int, time: float, **scalars: float) -> bytes:
    """A record with simple values; ``__`` in a tag stands for a slash."""
    summary = b"".join(
        bytes_field(
            1,
            bytes_field(1, tag.replace("__", "/").encode())
            + varint(2 << 3 | 5)
            + struct.pack("<f", value),
        )
        for tag, value in scalars.items()
    )
    time_field = varint(1 << 3 | 1) + struct.pack("<d", time)
    return record(time_field + varint(2 << 3) + varint(step) + bytes_field(5, summary))


def log(steps: Iterable[tuple[int, float]], speed: int = 65536) -> str:
    """A log of KempnerForge; a step has 65,536 tokens."""
    return "".join(
        f"[rank 0] INFO     [step {step}] loss={loss:.4f} | lr=3.00e-05 | "
        f"grad_norm=1.000 | tok/s={speed:,} | mfu=50.0% | mem=71.2/140GB | "
        f"step_time={65536 / speed:.2f}s\n"
        for step, loss in steps
    )


def table(losses: Sequence[float], norms: Sequence[float] = ()) -> str:
    """A CSV file; a step has 1,024 tokens."""
    norms = norms or [1.0] * len(losses)
    rows = zip(losses, norms, strict=True)
    return "step,tokens,loss,grad_norm\n" + "".join(
        f"{n},{1024 * n},{loss},{norm}\n" for n, (loss, norm) in enumerate(rows, 1)
    )
