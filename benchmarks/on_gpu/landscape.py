"""Every setting of one config, run once: a landscape on which to tune the strategy.

What the file of records holds already is not run again, so that the command can be
given as often as it takes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.on_gpu import records
from fp8tune.runners.builtin.runner import Setup
from fp8tune.runners.sampling import Sampling
from fp8tune.search.plan import Plan
from fp8tune.trials.record import Record
from fp8tune.trials.runner import Runner, TrialLimits
from fp8tune.trials.space import Point

LONGEST_S = 420.0
"""A trial that takes longer is a hang."""


def settings(plan: Plan) -> list[Point]:
    """Every setting, each cell by growing batch, the given cell first."""
    space, given = plan.space, plan.baseline

    def order(point: Point) -> tuple[bool, Point, float]:
        cell = space.cell(point)
        return cell != space.cell(given), cell, space.batch(point)

    return sorted(space.points(given), key=order)


def run(
    plan: Plan, runner: Runner, path: Path, seconds: float
) -> Iterator[tuple[Point, Record]]:
    """Run what is not in the file yet until the time is spent, and append it.

    Of a cell that ran out of memory, the larger batches are written down as the same
    without being run.
    """
    end = time.monotonic() + seconds
    found = _recorded(plan, path)
    for point in settings(plan):
        if point in found:
            continue
        left = end - time.monotonic()
        record = _implied(plan, point, found)
        if record is None and left < 30:
            return
        if record is None:
            values = plan.space.values(point)
            record = runner.run(values, TrialLimits(min(LONGEST_S, left)))
            if time.monotonic() > end and not record.ok:
                return  # cut off, not measured
        found[point] = record
        records.add(path, plan.config, record)
        yield point, record


def _recorded(plan: Plan, path: Path) -> dict[Point, Record]:
    rows = records.read(path) if path.exists() else ()
    return {plan.space.point(row.record.knobs): row.record for row in rows}


def _implied(plan: Plan, point: Point, found: dict[Point, Record]) -> Record | None:
    """Out of memory, where a smaller batch of the cell was."""
    space = plan.space
    for other, record in found.items():
        same = space.cell(other) == space.cell(point)
        if same and record.outcome == "oom" and space.batch(other) < space.batch(point):
            why = "a smaller batch ran out of memory"
            return Record(space.values(point), "oom", message=why)
    return None


def setup(device: str, dp_shard: int) -> Setup:
    """Short runs: medians of 8 to 20 steps."""
    if device == "cpu":
        return Setup(device, dp_shard, sampling=Sampling(2, 3, 1))
    return Setup(device, dp_shard, sampling=Sampling(8, 20, 2))


def tell(plan: Plan, point: Point, record: Record) -> None:
    """One line on stderr."""
    values = ", ".join(
        str(value).lower() for value in plan.space.values(point).values()
    )
    said = f"{record.tokens_per_second:,.0f} tokens/s, {record.peak_gib:.1f} GiB"
    print(f"{values}: {said if record.ok else record.outcome}", file=sys.stderr)
