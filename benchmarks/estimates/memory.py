"""The memory model against published runs, group by group.

Beside the error of a prediction stands what is left of it after calibration: by all
other runs of the group, and by the worst choice of a single one.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks import machine
from benchmarks.estimates.peaks import Point
from fp8tune.facts.memory.verdict import BANDS, CALIBRATED, TOO_MUCH, band
from fp8tune.facts.off import Measured, limited, parts

TARGETS = {
    "FSDP and TP": 0.02,
    "pipeline, first stage": 0.06,
    "VLM": 0.06,
}
"""Largest error of each run of KempnerForge, by group."""

OTHERS_MEDIAN, OTHERS_LEFT_OUT = 0.10, 0.02
"""Of trainers without an adapter: median error, and worst after calibration."""


class Row(NamedTuple):
    """One run of the report; errors are relative, None where there is none.

    ``left_out`` is after calibration by the other runs of the group, ``one_run`` by
    the worst single one of them.
    """

    point: Point
    predicted: float
    fit: str
    error: float | None
    left_out: float | None
    one_run: float | None


def rows(found: list[Point]) -> list[Row]:
    """Every run with its estimate."""
    return [_row(point, found) for point in found]


def _row(point: Point, found: list[Point]) -> Row:
    others = [
        Measured("", other.predicted, other.measured, other.exact)
        for other in found
        if other is not point and other.measured
        if (other.group, _family(other)) == (point.group, _family(point))
    ]
    if not point.measured:
        return Row(point, point.predicted, _fit(point), None, None, None)
    alone = [_left([other], point) for other in others]
    return Row(
        point,
        point.predicted,
        _fit(point),
        _left([], point),
        _left(others, point) if others else None,
        max(alone, key=abs) if alone else None,
    )


def _left(others: list[Measured], point: Point) -> float:
    """The error of a point once runs have corrected it."""
    by, _ = limited(parts(others), others, point.predicted, point.exact)
    return by * point.predicted / point.measured - 1


def _family(point: Point) -> str:
    return str(point.job["estimate_family"]) if "gpu" in point.job else ""


def _fit(point: Point) -> str:
    """The verdict, if the run's GPU is known and its peak is covered."""
    known = "gpu" in point.job and point.job["pp"] == 1
    return str(point.job["memory.fit"]) if known else ""


def show(found: list[Row]) -> str:
    """All runs as a Markdown table [GiB]."""
    after = ("left out", "one run")
    head = ("group", "run", "measured", "predicted", "at", "error", *after, "fit", "")
    lines = [
        (
            row.point.group,
            f"[{row.point.name}]({row.point.source})",
            f"{row.point.measured:g}" if row.point.measured else "out of memory",
            f"{row.predicted:.1f}",
            str(row.point.job["memory.peak_at"]),
            percent(row.error),
            percent(row.left_out),
            percent(row.one_run),
            row.fit.replace("-", " "),
            row.point.note,
        )
        for row in found
    ]
    return machine.table(lines, head)


def summary(found: list[Row]) -> str:
    """Median and worst error of each group, before and after calibration."""
    lines = []
    for group in dict.fromkeys(row.point.group for row in found):
        mine = [row for row in found if row.point.group == group and row.point.measured]
        lines.append(
            (
                group,
                str(len(mine)),
                percent(statistics.median(abs(row.error or 0.0) for row in mine)),
                percent(_worst([row.error for row in mine])),
                percent(_worst([row.left_out for row in mine])),
                percent(_worst([row.one_run for row in mine])),
            )
        )
    head = ("group", "runs", "median", "worst", "worst left out", "worst by one run")
    return machine.table(lines, head)


def _worst(errors: list[float | None]) -> float | None:
    return max((error for error in errors if error is not None), key=abs, default=None)


def bands(found: list[Row]) -> str:
    """The band of each kind and family, and how far its runs lie from the estimate.

    And what it narrows to after one measured run in bf16, and after more.
    """
    families = {_family(row.point) for row in found if row.fit}
    after = ("after one run", "after more")
    head = ("family", "band", "runs", "lowest", "highest", *after)
    lines = []
    for family in (*BANDS, *sorted(families - set(BANDS))):
        errors = [
            row.point.measured / row.predicted - 1
            for row in found
            if row.fit or row.point.group.startswith("pipeline")
            if row.point.measured and row.point.group != "small"
            if _family(row.point) == family
        ]
        low, high = (min(errors), max(errors)) if errors else (None, None)
        below, above = band(family)
        width = f"-{100 * below:g} % to +{100 * above:g} %"
        ends = percent(low), percent(high)
        lines.append((family, width, str(len(errors)), *ends, *_after(family)))
    return machine.table(lines, head)


def _after(family: str) -> Iterator[str]:
    for left in CALIBRATED.get(f"{family}, bf16", CALIBRATED[""]):
        below, above = (100 * min(left, side) for side in band(family))
        yield f"{below:g} %" if below == above else f"-{below:g} % to +{above:g} %"


def targets(found: list[Row]) -> Iterator[tuple[str, str, bool]]:
    """What is promised of memory, what was found, and whether it holds."""
    for group, limit in TARGETS.items():
        mine = [row.error for row in found if row.point.group == group]
        worst = _worst(mine)
        met = worst is not None and abs(worst) <= limit
        said = f"worst {percent(worst)} of {len(mine)}"
        yield f"{group}: every error within {100 * limit:.0f} %", said, met
    wrong = [
        row.point.name
        for row in found
        if row.fit and (row.fit in TOO_MUCH) == bool(row.point.measured)
    ]
    judged = sum(bool(row.fit) for row in found)
    told = f"{judged - len(wrong)} of {judged}" + "".join(f"; not {n}" for n in wrong)
    promise = "runs of KempnerForge that worked may fit, those that ran out do not"
    yield promise, told, not wrong
    others = [row for row in found if "gpu" not in row.point.job]
    median = statistics.median(
        abs(row.error) for row in others if row.error is not None
    )
    promise = "other trainers, uncalibrated: median error at most 10 %"
    yield promise, percent(median), median <= OTHERS_MEDIAN
    for promise, calibrated in (
        ("the other runs of the group", [(row, row.left_out) for row in others]),
        ("any one run of the group", [(row, row.one_run) for row in others]),
    ):
        yield _calibrated(promise, calibrated)


def _calibrated(
    by: str, errors: list[tuple[Row, float | None]]
) -> tuple[str, str, bool]:
    """What is left after calibration by others: median, worst, and who misses."""
    known = [(row, error) for row, error in errors if error is not None]
    sizes = [abs(error) for _, error in known]
    far = [
        f"{row.point.name} {100 * error:+.2f} %"
        for row, error in known
        if abs(error) > OTHERS_LEFT_OUT
    ]
    said = f"median {percent(statistics.median(sizes))}, worst {percent(max(sizes))}"
    said += f"; not {', '.join(far)}" if far else ""
    return f"other trainers, calibrated by {by}: at most 2 %", said, not far


def percent(value: float | None) -> str:
    """A relative error in percent."""
    return "" if value is None else f"{100 * value:+.1f} %"
