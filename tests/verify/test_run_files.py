"""Event files and CSV, well-formed and not."""

import math
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fp8tune.verify import event_files, tables
from fp8tune.verify.scalars import Scalars
from tests.each import each
from tests.verify.files import event, record

REAL = Path(__file__).parent.parent / "data" / "runs" / "torch.tfevents"
"""Written by torch's SummaryWriter."""


def read(kind, path, data):
    path.write_bytes(data)
    scalars = Scalars()
    kind(str(path), scalars)
    return scalars


def listed(scalars):
    return {
        tag: list(zip(points.step, points.value, strict=True))
        for tag, points in scalars.points.items()
    }


def test_what_torch_wrote():
    scalars = Scalars()
    event_files.read(str(REAL), scalars)
    points = listed(scalars)["train/loss"]
    assert points[:39] == [(n, 5 - n / 16) for n in range(1, 40)]
    assert points[39][0] == 40
    assert math.isnan(points[39][1])
    assert points[40:] == [(41, 1.0)]
    assert scalars.cut == ""


GOOD = event(1, 10.0, loss=2.5, norm=1.0) + event(2, 11.0, loss=2.0)


@each(
    ("data", "points", "cut"),
    [
        (GOOD, {"loss": [(1, 2.5), (2, 2.0)], "norm": [(1, 1.0)]}, ""),
        (GOOD + b"\0" * 5, {"loss": [(1, 2.5), (2, 2.0)], "norm": [(1, 1.0)]}, ""),
        (event(-1, 0.0, loss=1.0), {"loss": [(-1, 1.0)]}, ""),
        (record(b"\x0f"), {}, "a: wire type 7"),
        (record(b"\x2a\x7f"), {}, "a: a field is longer than its message"),
        (event(1, 0.0, loss=1.0)[:-1] + b"x", {}, "a: bad checksum at byte 12"),
        (record(bytes(2**20 + 1)) + GOOD[:0], {}, ""),
    ],
)
def test_event_files(tmp_path, data, points, cut):
    scalars = read(event_files.read, tmp_path / "a", data)
    assert (listed(scalars), scalars.cut) == (points, cut)


def test_a_length_beyond_the_file_ends_it(tmp_path):
    size = struct.pack("<Q", 2**60)
    head = size + event_files.masked_crc(size).to_bytes(4, "little")
    scalars = read(event_files.read, tmp_path / "a", GOOD + head)
    assert list(scalars.points["loss"].value) == [2.5, 2.0]


@each(
    ("text", "points"),
    [
        ("step,loss\n1,2.5\n2,nan?\n3,2\n", {"loss": [(1, 2.5), (3, 2)]}),
        ("Wall time,Step,Value\n9,1,2.5\n", {"Value": [(1, 2.5)]}),
        ("\ufeffstep\tloss\n1\t2.5\n2\n", {"loss": [(1, 2.5)]}),
    ],
)
def test_tables(tmp_path, text, points):
    assert listed(read(tables.read_csv, tmp_path / "a.csv", text.encode())) == points


@each("text", ["", "1,2\n3,4\n", "loss\n1\n", "x" * 200_000])
def test_no_tables(tmp_path, text):
    with pytest.raises(tables.NoRows):
        read(tables.read_csv, tmp_path / "a.csv", text.encode())


def test_a_line_that_is_too_long_ends_a_table(tmp_path):
    text = f"step,loss\n1,2.5\n2,{'9' * 200_000}\n3,1\n"
    scalars = read(tables.read_csv, tmp_path / "a.csv", text.encode())
    assert (listed(scalars), scalars.cut) == (
        {"loss": [(1, 2.5)]},
        "a line is too long",
    )


@pytest.mark.parametrize("kind", [event_files.read, tables.read_csv, tables.read_json])
def test_any_bytes_are_survived(tmp_path, kind):
    @given(st.binary(max_size=300), st.integers(0, 200))
    def check(data, at):
        good = GOOD if kind is event_files.read else b"step,loss\n1,2\n"
        for mixed in (data, good + data, good[:at] + data + good[at:]):
            try:
                read(kind, tmp_path / "a", mixed)
            except tables.NoRows:
                continue

    check()
