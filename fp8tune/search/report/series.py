"""Series of numbers in a report."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

MAX_SERIES = 2000
"""Longest series of a record that is shown [values]."""


def middle(values: Iterable[float]) -> float:
    """The median; 0 of nothing."""
    return statistics.median([*values] or [0.0])
