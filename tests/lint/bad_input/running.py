"""Runs of ``fp8tune lint`` in this process, and what each of them must keep."""

import contextlib
import io
import json
import re
import sys
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings

from fp8tune.program import main

FORMATS = ("full", "concise", "json")
EXAMPLES = settings(
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
ACTS = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)


class Ended(NamedTuple):
    """How a run ended and what it wrote, decoded."""

    code: int
    out: str
    err: str


def lint(*arguments, stdin=b""):
    """Run ``fp8tune lint`` in this process."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin))
    try:
        with (
            contextlib.redirect_stdout(streams[0]),
            contextlib.redirect_stderr(streams[1]),
            pytest.raises(SystemExit) as end,
        ):
            main(["lint", *arguments])
    finally:
        sys.stdin = before
    for stream in streams:
        stream.flush()
    return Ended(end.value.code, *(s.buffer.getvalue().decode() for s in streams))


def in_order(ended, output_format="full"):
    """Hold one run to what every run must keep."""
    assert ended.code in (0, 1, 2), ended
    assert not ACTS.findall(ended.out + ended.err)
    assert "Traceback" not in ended.err
    if ended.code == 2:
        assert ended.err.startswith("fp8tune: ")
    if output_format == "json" and ended.out:
        assert json.loads(ended.out)["version"] == 1
    return ended


def lint_all(*arguments, stdin=b""):
    """Run it once in each format; the exit codes are the same."""
    ended = [
        in_order(lint("--output-format", name, *arguments, stdin=stdin), name)
        for name in FORMATS
    ]
    assert len({end.code for end in ended}) == 1
    return ended


def lint_bytes(data):
    return lint_all("-", stdin=data)
