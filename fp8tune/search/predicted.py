"""What predicted communication leaves open of the difference between two settings."""

from __future__ import annotations

import math
import statistics

from fp8tune.search.record import Record, positive


def left_open(one: Record, other: Record) -> float:
    """By how much the ratio of two records' tokens/s may be wrong (log).

    The collectives of both go over one network, so that the times predicted for them
    are wrong by one factor: what takes both the same share of a step leaves nothing
    open. 0 where all was measured.
    """
    shares = _share(one), _share(other)
    known = [_error(r) for r in (one, other) if _share(r)]
    wrong = min(known, default=0.0)
    moved = ([1 + sign * wrong * share for share in shares] for sign in (1, -1))
    return max(abs(math.log(mine / theirs)) for mine, theirs in moved)


def _share(record: Record) -> float:
    """Of a step: the time of the collectives."""
    added, times = record.more.get("communication_ms"), record.step_ms
    measured = statistics.median(times) if times else 0.0
    return added / (measured + added) if positive(added) and measured else 0.0


def _error(record: Record) -> float:
    """Relative error of that time: it is wrong by itself at most."""
    told = record.more.get("communication_error")
    return min(1.0, told) if positive(told) else 1.0
