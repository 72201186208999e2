"""Bytes to lines: packed, cut, coloured, of several ranks, and what is no log."""

import codecs
import gzip
import io
import math
from random import Random

import pytest

from fp8tune.verify import lines
from fp8tune.verify.log import read_file
from fp8tune.verify.unpack import BLOCK, Blocks
from tests.each import each

STEP = (
    "[rank 0] INFO     [step {0}] loss=9.5{0} | lr=3.00e-05 | grad_norm=1.2 | "
    "tok/s=1,000 | mfu=53.8% | mem=71.2/140GB | step_time=1.25s"
)
THREE = "\n".join(STEP.format(step) for step in (1, 2, 3)) + "\n"
TWO_MEMBERS = b"".join(gzip.compress(n.encode()) for n in (THREE[:99], THREE[99:]))
GZIP = gzip.compress(THREE.encode())


def read(data):
    return read_file(io.BufferedReader(io.BytesIO(data)))


@each(
    ("name", "data"),
    [
        ("plain", THREE.encode()),
        ("CRLF", THREE.replace("\n", "\r\n").encode()),
        ("byte order mark", codecs.BOM_UTF8 + THREE.encode()),
        ("UTF-16 of Windows", THREE.encode("utf-16")),
        ("gzip", GZIP),
        ("gzip padded with NUL", GZIP + bytes(600)),
        ("colours", THREE.replace("loss", "\x1b[38;2;180;60;0mloss\x1b[0m").encode()),
        ("srun", "".join(f" 0: {line}\n" for line in THREE.splitlines()).encode()),
        ("Latin-1", THREE.replace("INFO", "INFO \xb5s").encode("latin-1")),
    ],
    ids=lambda case: case[0],
)
def test_same_log_however_it_is_written(name, data):
    log = read(data)
    (curve,) = log.starts
    assert (log.lines, list(curve.step), curve.line, log.cut) == (3, [1, 2, 3], 1, "")
    assert log.ranks == {0}


@each("data", [GZIP[:-20], GZIP[:-8] + bytes(8)])
def test_gzip_that_ends_early_says_so(data):
    log = read(data)
    assert log.cut == "the packed data end early or are damaged"
    assert log.lines <= 3


@each(
    "data",
    [
        bytes(range(256)) * 20,
        b"\x7fELF" + bytes(3000) + b"\x80\x04\x95" * 900,
        gzip.compress(bytes(range(256)) * 20),
        b"\xfd7zXZ\x00" + Random(1).randbytes(4096),
    ],
    ids=("bytes", "ELF", "packed bytes", "xz"),
)
def test_what_is_no_log_is_refused(data):
    with pytest.raises(lines.Unreadable, match="binary data, not a log"):
        read(data)


@each(
    ("text", "expected"),
    [
        ("[rank 3] INFO     x", ("INFO     x", 3)),
        ("[default12]:x", ("x", 12)),
        ("  7: x", ("x", 7)),
        ("\x1b[31m[Rank 2]\x1b[0m x\x07", ("x", 2)),
        ("12:34:56 INFO x", ("INFO x", None)),
        ("[2026-06-29 10:00:00] [rank1]: x", ("x", 1)),
        ("\x1b[36m(WorkerDict pid=12345, ip=10.0.0.1)\x1b[0m x", ("x", None)),
        ("[1,3]<stderr>:x", ("x", 3)),
        ("[3] x", ("x", 3)),
        ("node-1: [rank0]: x", ("x", 0)),
        ("10.0.0.12: x", ("x", None)),
        ("worker-1  | x", ("x", None)),
        ("RuntimeError: x", ("RuntimeError: x", None)),
        ("fp8: hybrid", ("fp8: hybrid", None)),
        ("node1:123:456 [0] NCCL WARN x", ("node1:123:456 [0] NCCL WARN x", None)),
        ("rank: 3 of 8", ("rank: 3 of 8", None)),
    ],
)
def test_line_without_what_launchers_put_before(text, expected):
    assert lines.clean(text.encode()) == expected


@each(
    ("text", "expected"),
    [
        ("1,234.5", 1234.5),
        ("1.2e-05", 1.2e-5),
        ("'5e-05'", 5e-5),
        ("inf", math.inf),
        ("1.25s", 1.25),
        ("940ms", 0.94),
        ("2h 3m", 7380.0),
        ("", math.nan),
        ("5 apples", math.nan),
    ],
)
def test_numbers_of_logs(text, expected):
    assert lines.number(text) == pytest.approx(expected, nan_ok=True)


def test_lines_that_are_too_long_are_cut_and_counted():
    text = "x" * (5 * lines.LONGEST) + STEP.format(9) + "\n" + THREE
    (curve,) = read(text.encode()).starts
    assert (list(curve.step), curve.line) == ([1, 2, 3], 2)


def test_states_of_a_progress_bar_are_one_line():
    bar = "".join(f"\r {n}%|##   | {n}/100 [00:01<00:09]" for n in range(9999))
    log = read((bar + "\r" + STEP.format(1) + "\n" + STEP.format(2) + "\n").encode())
    (curve,) = log.starts
    assert (log.lines, curve.line, list(curve.step)) == (2, 1, [1, 2])


def test_memory_stays_bounded():
    cutter = lines.Cutter()
    for _ in range(100):
        assert len(cutter.feed(b"y" * BLOCK)) <= 2 * BLOCK
        assert len(cutter.rest()) <= lines.LONGEST
    bomb = io.BufferedReader(io.BytesIO(gzip.compress(bytes(50 << 20))))
    assert all(len(block) <= BLOCK for block in Blocks(bomb))


@each(
    ("text", "expected"),
    [
        ('{"message": "a\\nb"}', ["a", "b"]),
        ('{"text": "x\\n", "record": {"message": "y"}}', ["y"]),
        ('{"record": {"message": "y", "level": {}}}', ["y"]),
        ("[" * 9000, []),
        ('{"a":' * 9000, []),
    ],
)
def test_messages_of_json_lines(text, expected):
    assert list(lines.messages(text)) == expected
