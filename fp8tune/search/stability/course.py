"""One run that compares losses: how it is trained, and what came of it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from fp8tune.search.record import MAX_NUMBER, Record

STAGE = "stability"
"""The stage of such runs in a study, and the field of their records."""


class Course(NamedTuple):
    """How a run is trained: the initial weights' seed, linear warmup, length [steps].

    The data are the same in all. ``given_warmup`` is the config's own, ``free`` says
    whether the search may change that.
    """

    seed: int
    warmup_steps: int
    steps: int
    given_warmup: int
    free: bool = False

    def training(self) -> dict[str, Any]:
        """What a trial is told of it."""
        return dict(zip(self._fields[:3], self[:3], strict=True))


class Curve(NamedTuple):
    """A run that was trained: its losses and gradient norms, step by step.

    ``nan`` says that it ended in NaN or infinity; the series stop before.
    """

    precision: str
    course: Course
    losses: tuple[float, ...]
    norms: tuple[float, ...]
    nan: bool = False


def series(events: Iterable[dict[str, Any]]) -> dict[str, list[float]]:
    """Losses and gradient norms that a worker told, until one was not finite."""
    told = [(event["loss"], event["grad_norm"]) for event in events if "step" in event]
    sound = list(itertools.takewhile(lambda pair: all(map(math.isfinite, pair)), told))
    return {"losses": [a for a, _ in sound], "grad_norms": [b for _, b in sound]}


def course(record: Record) -> Course | None:
    """How a record's run was trained; ``None`` where it says nothing of it."""
    told: Any = record.more.get(STAGE)
    try:
        found = Course(**told)
    except TypeError:
        return None
    *counts, free = found
    whole = all(type(n) is int and 0 <= n < MAX_NUMBER for n in counts)
    return found if whole and found.steps > 0 and isinstance(free, bool) else None


def curve(record: Record, precision: str) -> Curve | None:
    """What came of a record's run; ``None`` where it has no whole series.

    A throttled GPU is slow and computes the same.
    """
    how = course(record)
    if how is None or record.outcome not in ("ok", "throttled", "nan"):
        return None
    losses, norms = (_series(record, name) for name in ("losses", "grad_norms"))
    nan = record.outcome == "nan"
    short = min(len(losses), len(norms)) < how.steps
    return None if short and not nan else Curve(precision, how, losses, norms, nan)


def _series(record: Record, name: str) -> tuple[float, ...]:
    """Numbers up to the first that is none."""
    told: Any = record.more.get(name)
    values: list[float] = []
    for value in told if isinstance(told, list) else []:
        if type(value) not in (int, float) or not abs(value) < MAX_NUMBER:
            break
        values.append(float(value))
    return tuple(values)
