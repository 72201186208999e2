"""Which settings need no further trial."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from fp8tune.trials.record import Record
from fp8tune.trials.space import Point, Space

Runs = Sequence[tuple[Point, Record]]
PASSING = ("throttled", "launch")
"""Outcomes that a second trial may not have."""
HOPELESS = 2
"""Trials of a cell that failed for what no batch changes, and none ran, until its other
batches are not tried."""
FILLED = 0.75
"""Share of usable memory from which it may be full: the rest may be in pieces."""


def closed(
    space: Space, runs: Runs, usable_gib: float = 0.0
) -> Callable[[Point], bool]:
    """Tells the points that need no trial.

    Those that had one, unless the failure may pass; a larger batch than one that ran
    out of memory in the same cell, or nearly did; and all of a cell that does not
    compile, or otherwise never runs. ``usable_gib`` is the GPU's memory, if known.
    """
    tried: dict[Point, list[Record]] = defaultdict(list)
    limits: dict[Point, float] = {}
    lost = _lost(space, runs)
    for point, record in runs:
        tried[point].append(record)
        batch = space.batch(point)
        if batch and (record.outcome == "oom" or _fills(record, usable_gib)):
            cell = space.cell(point)
            limits[cell] = min(limits.get(cell, math.inf), batch)

    def shut(point: Point) -> bool:
        records = tried.get(point, [])
        again = len(records) == 1 and records[0].outcome in PASSING
        if records and not again:
            return True
        cell = space.cell(point)
        return cell in lost or space.batch(point) >= limits.get(cell, math.inf)

    return shut


def _fills(record: Record, usable_gib: float) -> bool:
    """Whether a trial that ran shows that its cell's larger batches do not fit.

    An allocator that frees what it kept has reserved all that it could get: where that
    is much less than there is, something else took the rest.
    """
    reserved = max(record.reserved_gib, record.peak_gib)
    elsewhere = 0 < reserved < FILLED * usable_gib
    return bool(record.memory_shortage) and not elsewhere


def _lost(space: Space, runs: Runs) -> set[Point]:
    """The cells in which nothing runs, whatever the batch."""
    ran = {space.cell(point) for point, record in runs if record.ok}
    failures = Counter(
        space.cell(point)
        for point, record in runs
        if not record.ok and record.outcome not in ("oom", *PASSING)
    )
    found = {cell for cell, count in failures.items() if count >= HOPELESS}
    return found - ran if space.has_batches else set()
