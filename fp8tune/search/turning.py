"""Whether what is predicted decides what is said of two settings."""

from __future__ import annotations

import math

from fp8tune.search.runs import Runs, gap, measured_gap, open_between, usual
from fp8tune.search.statistics import verdict
from fp8tune.trials.space import Point


def unmeasured(runs: Runs, one: Point | None, other: Point | None) -> float:
    """What predicted communication leaves open, relative, where the verdict turns."""
    found, known = measured_gap(runs, one, other), gap(runs, one, other)
    same = usual(runs).same
    if not found or not known or verdict(found, same) == verdict(known, same):
        return 0.0
    return math.expm1(open_between(runs, one, other))
