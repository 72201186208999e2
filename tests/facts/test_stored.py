"""The file of measured runs: what is kept, repaired and refused."""

import json
import os

import pytest

from fp8tune import __version__
from fp8tune.facts import stored
from fp8tune.facts.runs import MEMORY, BadCalibration, Run
from tests.each import each


def test_a_fifo_is_no_calibration(tmp_path):
    os.mkfifo(tmp_path / "c.jsonl")
    for attempt in (stored.read, lambda path: stored.add(path, [RUN])):
        with pytest.raises(BadCalibration, match="not a regular file"):
            attempt(str(tmp_path / "c.jsonl"))


def test_a_torn_last_line_is_left_out_and_written_over(tmp_path):
    path = tmp_path / "c.jsonl"
    stored.add(str(path), [RUN])
    whole = path.read_text()
    path.write_text(whole + '{"gpu": "h2')
    assert stored.read(str(path)) == [RUN]
    other = RUN._replace(measured=12.0)
    stored.add(str(path), [other])
    assert stored.read(str(path)) == [RUN, other]


@pytest.mark.parametrize("line", ["{}", "7", '{"gpu": "h200"}'])
def test_a_last_line_that_is_no_run_is_said(tmp_path, line):
    path = tmp_path / "c.jsonl"
    path.write_text(line)
    with pytest.raises(BadCalibration, match=r"c\.jsonl:1: not a measured"):
        stored.read(str(path))


RUN = Run("h200", MEMORY, "dense", 10.0, 11.0, {"fp8tune": __version__})


def test_runs_are_appended_once(tmp_path):
    path = tmp_path / "new" / "calibration.jsonl"
    assert stored.read(str(path)) == []
    other = RUN._replace(measured=12.0)
    stored.add(str(path), [RUN])
    first = path.read_text()
    stored.add(str(path), [RUN, other])
    assert path.read_text().startswith(first)
    assert stored.read(str(path)) == [RUN, other]


GOOD = RUN._asdict()


@each(
    "line",
    [
        "",
        "[]",
        "{",
        "[" * 100_000,
        json.dumps({**GOOD, "more": 1}),
        json.dumps({**GOOD, "gpu": 1}),
        json.dumps({**GOOD, "quantity": "heat"}),
        json.dumps({**GOOD, "versions": ["torch"]}),
        *(
            json.dumps({**GOOD, "measured": value})
            for value in (0, -1, "1", None, True, float("nan"), float("inf"), [])
        ),
        json.dumps({**GOOD, "measured": 1e300}),
        json.dumps({**GOOD, "measured": 3.0}),
        json.dumps({**GOOD, "predicted": 1e-300}),
    ],
)
def test_other_lines_are_refused(tmp_path, line):
    path = tmp_path / "c.jsonl"
    path.write_text(f"{json.dumps(GOOD)}\n{line}\n")
    with pytest.raises(BadCalibration, match=r"c\.jsonl:2: not a measured run"):
        stored.read(str(path))


def test_large_files_are_refused(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_bytes(b"x" * (stored.MAX_BYTES + 1))
    with pytest.raises(BadCalibration, match="larger than 1 MiB"):
        stored.read(str(path))
