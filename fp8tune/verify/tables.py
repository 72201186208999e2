"""Read rows of named numbers: CSV, JSON lines, ``trainer_state.json``."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from fp8tune.verify.scalars import Scalars, TooMuch

STEPS = ("step", "_step", "global_step", "iteration", "train/global_step")
"""What the steps may be called."""
TIMES = ("wall time", "_timestamp", "timestamp", "wall_time")
"""What wall times [s since 1970] may be called."""
DELIMITERS = ",\t;"
MAX_LINE = 100_000
"""Longest line [characters]."""
STATE = "trainer_state.json"
"""Where transformers' Trainer keeps what it has logged, beside each checkpoint."""
MAX_STATE = 64 << 20
"""Largest such file [bytes]."""


class NoRows(Exception):
    """The file has no rows of numbers; the message says why."""


def read_csv(path: str, into: Scalars) -> None:
    """Read a CSV file; raises ``NoRows``.

    Exports of wandb (``run - train/loss``) and of TensorBoard (``Wall time, Step,
    Value``) are read too. Without a column of steps the rows count as steps.
    """
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        head = file.readline(MAX_LINE + 1)
        if len(head) > MAX_LINE:
            raise NoRows("the header is too long")
        delimiter = max(DELIMITERS, key=head.count)
        names = next(csv.reader([head.lstrip("\ufeff")], delimiter=delimiter), [])
        columns = [name.rpartition(" - ")[2].strip() for name in names]
        if len(columns) < 2 or any(_number(name) is not None for name in columns):
            raise NoRows("no CSV with a header")
        has_steps = any(name.casefold() in STEPS for name in columns)
        try:
            rows = csv.reader(_whole_lines(file), delimiter=delimiter)
            for count, cells in enumerate(rows):
                pairs = zip(columns, map(_number, cells), strict=False)
                row = {name: value for name, value in pairs if value is not None}
                _add(row, math.nan if has_steps else count, into)
        except (csv.Error, TooMuch) as error:
            into.cut = str(error)


def read_json(path: str, into: Scalars) -> None:
    """Read a file; raises ``NoRows``. Lines that are no JSON object are left out."""
    with open(path, encoding="utf-8", errors="replace") as file:
        is_state = path.endswith(".json")
        rows = _state(file) if is_state else map(_parsed, _lines(file))
        try:
            for count, row in enumerate(rows):
                if isinstance(row, dict):
                    _add(_numbers(row), count, into)
        except TooMuch as error:
            into.cut = str(error)
    if not into.points:
        raise NoRows("no JSON object with numbers")


def _lines(file: TextIO) -> Iterator[str]:
    """Yield lines, in parts if they are too long."""
    return iter(lambda: file.readline(MAX_LINE + 1), "")


def _whole_lines(file: TextIO) -> Iterator[str]:
    for line in _lines(file):
        if len(line) > MAX_LINE:
            raise csv.Error("a line is too long")
        yield line.replace("\0", "")


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


def _numbers(row: dict[str, Any]) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in row.items()
        if type(value) is float or (type(value) is int and abs(value) < 2**63)
    }


def _number(text: str) -> float | None:
    with contextlib.suppress(ValueError):
        return float(text)
    return None


def _add(row: Mapping[str, float], count: float, into: Scalars) -> None:
    """Add the numbers of a row; one without a step has ``count``, NaN for none."""
    lower = {name.casefold(): value for name, value in row.items()}
    step = next((lower[name] for name in STEPS if name in lower), count)
    time = next((lower[name] for name in TIMES if name in lower), math.nan)
    if not math.isfinite(step):
        return
    for name, value in row.items():
        if name.casefold() not in (*STEPS, *TIMES):
            into.add(name, step, value, time)
