"""Figures in the further fields of a record, which anybody may have written."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

from fp8tune.search.record import Record

MAX_SERIES = 2000
"""Longest series of a record that is shown [values]."""


def number(record: Record, name: str) -> float:
    """A further field of a record as a number; 0 where it is none."""
    return next(iter(_numbers([record.more.get(name)])), 0.0)


def series(record: Record, name: str) -> tuple[float, ...]:
    """A further field as a series of numbers; empty where it is none."""
    found = record.more.get(name)
    if not isinstance(found, list) or len(_numbers(found)) != len(found):
        return ()
    return tuple(_numbers(found[:MAX_SERIES]))


def _numbers(values: Iterable[Any]) -> list[float]:
    return [
        float(value)
        for value in values
        if isinstance(value, (int, float))
        and not isinstance(value, bool)
        and abs(value) < 1e18
    ]


def middle(values: Iterable[float]) -> float:
    """The median; 0 of nothing."""
    return statistics.median([*values] or [0.0])
