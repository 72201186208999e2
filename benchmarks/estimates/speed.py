"""The speed model against published runs, group by group.

"Left out" is the error of a prediction whose rates were fitted without that row, and
for gains without any row of its source.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import NamedTuple

from benchmarks import machine
from benchmarks.estimates import speeds
from benchmarks.estimates.fit import FITTED
from benchmarks.estimates.fit import torchao as fit
from benchmarks.estimates.speeds import TORCHAO, Run, gain, tokens_per_second
from fp8tune.facts.gemm_speed import corrected

TARGET = 0.08
"""Largest error of a gain of a dense model under FSDP."""

NOISE = 0.01
"""Published gains smaller than this have no sign."""


class Row(NamedTuple):
    """One line of a table; ``published`` is 0 where only the sign is known."""

    group: str
    name: str
    published: float
    predicted: float
    left_out: float | None
    note: str
    source: str


class Table(NamedTuple):
    """Rows of one kind: how a value and an error are shown."""

    title: str
    rows: list[Row]
    shown: str
    error: Callable[[float, float], float]
    unit: str


def tables() -> list[Table]:
    """Gains of FP8, tokens/s, and single linears."""
    tokens = "{:,.0f}"
    return [
        Table("FP8 gain over compiled bf16", gains(), "{:.3f}", _points, "points"),
        Table("Tokens/s per GPU", _speeds(), tokens, _percent, "%"),
        Table("Tokens/s per GPU, other clusters", _others(), tokens, _percent, "%"),
        Table(
            "FP8 linears, tensorwise against bf16",
            _linears(),
            "{:.2f}",
            _points,
            "points",
        ),
    ]


def _points(published: float, predicted: float) -> float:
    return 100 * (predicted - published)


def _percent(published: float, predicted: float) -> float:
    return 100 * (predicted / published - 1)


def gains() -> list[Row]:
    """Gains of FP8; those of other groups than FSDP are never fitted to."""
    found = speeds.gains()
    without = {run.source: fit(without=run.source) for run in found}
    return [
        _row(
            run,
            gain(run, TORCHAO),
            gain(run, without[run.source]) if run.group == FITTED else None,
        )
        for run in found
    ]


def _speeds() -> list[Row]:
    """The bf16 runs that the rates are fitted to."""
    return [
        _row(run, tokens_per_second(run, TORCHAO), tokens_per_second(run, fit(run)))
        for run in speeds.steps()
    ]


def _others() -> list[Row]:
    """Runs on other clusters, which no rate was fitted to."""
    return [_row(run, tokens_per_second(run, TORCHAO), None) for run in speeds.others()]


def _row(run: Run, predicted: float, left_out: float | None) -> Row:
    name = (run.group, run.name, run.measured)
    return Row(*name, predicted, left_out, run.assumed, run.source)


def _linears() -> list[Row]:
    """Single tensorwise linears."""
    return [
        Row(
            "linear",
            f"{row['m']} x {row['k']} x {row['n']}",
            row["speedup"],
            corrected(table, TORCHAO.fp8_scale, TORCHAO.fp8_power),
            None,
            "",
            row["source"],
        )
        for row, table in speeds.linears()
    ]


def show(table: Table) -> str:
    """A table and the errors of its groups, in Markdown."""
    head = ("group", "run", "published", "predicted", "error", "left out", "assumed")
    lines = [
        (
            row.group,
            f"[{row.name}]({row.source})",
            table.shown.format(row.published) if row.published else "below 1",
            table.shown.format(row.predicted),
            _error(table, row, row.predicted),
            _error(table, row, row.left_out),
            row.note,
        )
        for row in table.rows
    ]
    summary = "\n".join(_summary(table))
    return f"### {table.title}\n\n{summary}\n\n{machine.table(lines, head)}\n"


def _error(table: Table, row: Row, predicted: float | None) -> str:
    if predicted is None:
        return ""
    if not row.published:
        return "right" if predicted < 1 else "WRONG SIGN"
    return f"{table.error(row.published, predicted):+.1f} {table.unit}"


def _summary(table: Table) -> Iterator[str]:
    for group in dict.fromkeys(row.group for row in table.rows):
        mine = [row for row in table.rows if row.group == group and row.published]
        if mine:
            errors = [table.error(row.published, row.predicted) for row in mine]
            outs = [
                table.error(row.published, row.left_out)
                for row in mine
                if row.left_out is not None
            ]
            more = f"; left out {_spread(outs, table.unit)}" if outs else ""
            yield f"- {group} ({len(mine)}): {_spread(errors, table.unit)}{more}"


def _spread(errors: list[float], unit: str) -> str:
    sizes = list(map(abs, errors))
    return f"median {statistics.median(sizes):.1f}, worst {max(sizes):.1f} {unit}"


def targets(rows: list[Row]) -> Iterator[tuple[str, str, bool]]:
    """What is promised of gains, what was found, and whether it holds."""
    signed = [row for row in rows if abs(row.published - 1) >= NOISE]
    wrong = [r.name for r in signed if (r.published > 1) != (r.predicted > 1)]
    right = f"{len(signed) - len(wrong)} of {len(signed)}"
    yield "sign of every gain of 1 % or more", _said(right, wrong), not wrong
    fitted = [row for row in rows if row.group == FITTED]
    far = [r.name for r in fitted if abs(r.predicted - r.published) > TARGET]
    near = f"{len(fitted) - len(far)} of {len(fitted)}"
    assumed = sum(bool(row.note) for row in fitted)
    near += f", where {assumed} do not give batch, AC or GPUs"
    yield "gain within 8 points, dense under FSDP", _said(near, far), not far
    yield _left_out(fitted)


def _left_out(fitted: list[Row]) -> tuple[str, str, bool]:
    """The promise of a band: it holds gains of a source that was not fitted to."""
    below, above = TORCHAO.gain_band
    errors = [r.published - r.left_out for r in fitted if r.left_out is not None]
    low, high = 100 * min(errors), 100 * max(errors)
    promise = f"the same, source left out: -{100 * below:.0f} to +{100 * above:.0f}"
    met = low >= -100 * below and high <= 100 * above
    return promise, f"{low:+.1f} to {high:+.1f}", met


def _said(found: str, missed: list[str]) -> str:
    return f"{found}; not {', '.join(missed)}" if missed else found
