"""Read the columns of numbers of a CSV file with a header."""

from __future__ import annotations

import contextlib
import csv
import math
from collections.abc import Iterator
from typing import TextIO

from fp8tune.verify.scalars import Scalars, TooMuch

STEPS = ("step", "_step", "global_step", "iteration", "train/global_step")
"""What the column of the steps may be called."""
TIMES = ("wall time", "_timestamp", "timestamp", "wall_time")
"""What the column of wall times [s since 1970] may be called."""
DELIMITERS = ",\t;"
MAX_LINE = 100_000
"""Longest line [characters]."""


class NoTable(Exception):
    """The file is no CSV with a header and a column of steps."""


def read(path: str, into: Scalars) -> None:
    """Read a CSV file; raises ``NoTable``.

    Exports of wandb (``run - train/loss``) and of TensorBoard (``Wall time, Step,
    Value``) are read too. Without a column of steps the rows count as steps.
    """
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        head = file.readline(MAX_LINE + 1)
        if len(head) > MAX_LINE:
            raise NoTable("the header is too long")
        delimiter = max(DELIMITERS, key=head.count)
        names = next(csv.reader([head.lstrip("\ufeff")], delimiter=delimiter), [])
        columns = [name.rpartition(" - ")[2].strip() for name in names]
        if len(columns) < 2 or any(_number(name) is not None for name in columns):
            raise NoTable("no CSV with a header")
        lower = [name.casefold() for name in columns]
        step, time = _place(lower, STEPS), _place(lower, TIMES)
        try:
            rows = csv.reader(_lines(file), delimiter=delimiter)
            for count, row in enumerate(rows):
                _add(row, columns, step, time, count, into)
        except (csv.Error, TooMuch) as error:
            into.cut = str(error)


def _lines(file: TextIO) -> Iterator[str]:
    while line := file.readline(MAX_LINE + 1):
        if len(line) > MAX_LINE:
            raise csv.Error("a line is too long")
        yield line.replace("\0", "")


def _place(names: list[str], wanted: tuple[str, ...]) -> int | None:
    return next((names.index(name) for name in wanted if name in names), None)


def _add(
    row: list[str],
    columns: list[str],
    step: int | None,
    time: int | None,
    count: int,
    into: Scalars,
) -> None:
    """Add the numbers of a row; ``step`` and ``time`` are columns."""
    values = [_number(cell) for cell in row[: len(columns)]]
    values += [None] * (len(columns) - len(values))
    at = values[step] if step is not None else count
    if at is None or not math.isfinite(at):
        return
    when = values[time] if time is not None else None
    for place, value in enumerate(values):
        if value is not None and place not in (step, time):
            into.add(columns[place], at, value, math.nan if when is None else when)


def _number(text: str) -> float | None:
    with contextlib.suppress(ValueError):
        return float(text)
    return None
