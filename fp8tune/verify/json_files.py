"""Read numbers from JSON lines, and from the ``trainer_state.json`` of transformers."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from typing import Any, TextIO

from fp8tune.verify.csv_files import MAX_LINE, STEPS, TIMES
from fp8tune.verify.scalars import Scalars, TooMuch

STATE = "trainer_state.json"
"""Where transformers' Trainer keeps what it has logged, beside each checkpoint."""
MAX_STATE = 64 << 20
"""Largest such file [bytes]."""


class NoRows(Exception):
    """The file has no rows of numbers."""


def read(path: str, into: Scalars) -> None:
    """Read a file; raises ``NoRows``. Lines that are no JSON object are left out."""
    with open(path, encoding="utf-8", errors="replace") as file:
        is_state = path.endswith(".json")
        rows = _state(file) if is_state else map(_parsed, _lines(file))
        try:
            for count, row in enumerate(rows):
                if isinstance(row, dict):
                    _add(row, count, into)
        except TooMuch as error:
            into.cut = str(error)
    if not into.points:
        raise NoRows("no JSON object with numbers")


def _state(file: TextIO) -> list[Any]:
    if os.fstat(file.fileno()).st_size > MAX_STATE:
        raise NoRows("too large for a trainer_state.json")
    state = _parsed(file.read())
    rows = state.get("log_history") if isinstance(state, dict) else None
    return rows if isinstance(rows, list) else []


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _lines(file: TextIO) -> Iterator[str]:
    while line := file.readline(MAX_LINE + 1):
        if len(line) <= MAX_LINE:
            yield line


def _add(row: dict[str, Any], count: int, into: Scalars) -> None:
    """Add the numbers of a row; without a step its number counts."""
    values = {
        name: float(value)
        for name, value in row.items()
        if type(value) is float or (type(value) is int and abs(value) < 2**63)
    }
    step = next((values[name] for name in STEPS if name in values), float(count))
    time = next((values[name] for name in TIMES if name in values), math.nan)
    if not math.isfinite(step):
        return
    for name, value in values.items():
        if name not in STEPS and name not in TIMES:
            into.add(name, step, value, time)
