"""The speed model against published runs, and how its rates are fitted.

Prints, group by group, predicted against published: single FP8 linears, bf16 tokens/s
per GPU, and the gain of FP8 over compiled bf16. "Left out" is the error of a
prediction whose rates were fitted without that row, and for gains without any row of
its source. ``--fit`` prints fitted rates for ``fp8tune/facts/steptime.py`` and
``gemm_speed.py``. Exit code 1 if a target is missed: the sign of every gain of 1 % and
more, and 8 points of percentage for dense models under FSDP.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks import machine, published_speed
from benchmarks.least_squares import minimise
from benchmarks.published_speed import Run, gain, tokens_per_second
from fp8tune.facts.gemm_speed import corrected
from fp8tune.facts.steptime import Rates

TARGET = 0.08
NOISE = 0.01
"""Published gains smaller than this have no sign."""

FITTED = "FSDP"
"""The group of gains that the rates are fitted to, with the bf16 steps and linears."""

START = Rates(
    matmul=0.88,
    attention=0.5,
    elementwise=1.0,
    eager=4.0,
    sharded=1.06,
    pipelined=1.1,
    contention=1.0,
    exposed=0.6,
    network=50.0,
    tensor=60.0,
    fp8_scale=1.3,
    fp8_power=0.6,
)
"""What physics suggests: where a fit starts and what holds it."""

HOLD = Rates(0.2, 0.15, 0.4, 0.2, 0.03, 0.1, 0.3, 0.4, 0.3, 0.5, 0.15, 0.15)
"""Relative deviation from ``START`` that counts like one standard error."""

STEP_ERROR, GAIN_ERROR, LINEAR_ERROR = 0.04, 0.03, 0.08
"""Relative errors that count like one standard error."""


class Row(NamedTuple):
    """One line of the report."""

    group: str
    name: str
    published: float
    predicted: float
    left_out: float | None
    note: str


def main(arguments: list[str] | None = None) -> int:
    """Print the tables; say whether the targets are met."""
    parser = argparse.ArgumentParser(prog="estimates_speed", description=__doc__)
    parser.add_argument("--fit", action="store_true", help="print fitted rates")
    parser.add_argument("--quick", action="store_true", help="without leave-one-out")
    options = parser.parse_args(arguments)
    if options.fit:
        for name, value in fit()._asdict().items():
            print(f"{name} = {value:.4g}")
        return 0
    rates = Rates()
    date = machine.describe()["date"]
    print(f"# The speed model against published runs, {date}\n")
    single = linear_rows(rates)
    print(_table("FP8 linears, tensorwise against bf16", single, points=True))
    print(_table("bf16 tokens/s per GPU", speed_rows(rates, options.quick)))
    print(_table("bf16 tokens/s per GPU, other clusters", other_rows(rates)))
    found = gain_rows(rates, options.quick)
    print(_table("FP8 gain over compiled bf16", found, points=True))
    print("Not predicted:")
    for row in published_speed.DATA["uncovered"]:
        print(f"- {row['what']}: {row['why']}")
    return _verdict(found)


def linear_rows(rates: Rates) -> list[Row]:
    """Single tensorwise linears."""
    return [
        Row(
            "linear",
            shape,
            published,
            corrected(table, rates.fp8_scale, rates.fp8_power),
            None,
            "",
        )
        for table, published, shape in published_speed.linears()
    ]


def speed_rows(rates: Rates, quick: bool) -> list[Row]:
    """The bf16 runs that the rates are fitted to."""
    return [
        Row(
            run.group,
            run.name,
            run.measured,
            tokens_per_second(run, rates),
            None if quick else tokens_per_second(run, fit(run)),
            "",
        )
        for run in published_speed.steps()
    ]


def other_rows(rates: Rates) -> list[Row]:
    """bf16 runs on other clusters, which no rate was fitted to."""
    return [
        Row(
            run.group,
            run.name,
            run.measured,
            tokens_per_second(run, rates),
            None,
            run.assumed,
        )
        for run in published_speed.bf16_speeds()
    ]


def gain_rows(rates: Rates, quick: bool) -> list[Row]:
    """Gains of FP8; those of other groups than FSDP are never fitted to."""
    sources = {run.source for run in published_speed.gains() if run.group == FITTED}
    without = {} if quick else {source: fit(without=source) for source in sources}
    return [
        Row(
            run.group,
            run.name,
            run.measured,
            gain(run, rates),
            gain(run, without[run.source]) if run.group == FITTED and without else None,
            run.assumed,
        )
        for run in published_speed.gains()
    ]


def fit(left_out: Run | None = None, without: str = "") -> Rates:
    """Rates fitted to all rows, or to all but one step or one source of gains."""
    steps = [run for run in published_speed.steps() if run != left_out]
    gains = [
        run
        for run in published_speed.gains()
        if run.group == FITTED and run.source != without
    ]

    def residuals(logs: list[float]) -> list[float]:
        rates = _rates(logs)
        return [*_misses(steps, gains, rates), *_pulls(rates)]

    return _rates(minimise(residuals, [0.0] * len(START)))


def _rates(logs: list[float]) -> Rates:
    pairs = zip(START, logs, strict=True)
    return Rates(*(start * math.exp(log) for start, log in pairs))


def _misses(steps: list[Run], gains: list[Run], rates: Rates) -> Iterator[float]:
    for run in steps:
        yield math.log(tokens_per_second(run, rates) / run.measured) / STEP_ERROR
    for run in gains:
        yield math.log(gain(run, rates) / run.measured) / GAIN_ERROR
    for table, published, _ in published_speed.linears():
        found = corrected(table, rates.fp8_scale, rates.fp8_power)
        yield math.log(found / published) / LINEAR_ERROR


def _pulls(rates: Rates) -> Iterator[float]:
    for rate, start, hold in zip(rates, START, HOLD, strict=True):
        yield math.log(rate / start) / hold


def _table(title: str, rows: list[Row], *, points: bool = False) -> str:
    head = ("group", "run", "published", "predicted", "error", "left out", "assumed")
    lines = [
        (
            row.group,
            row.name,
            _shown(row.published, points),
            _shown(row.predicted, points),
            _error(row, row.predicted, points),
            "" if row.left_out is None else _error(row, row.left_out, points),
            row.note,
        )
        for row in rows
    ]
    summary = "\n".join(_summaries(rows, points))
    return f"## {title}\n\n{machine.table(lines, head)}\n\n{summary}\n"


def _shown(value: float, points: bool) -> str:
    if not value:
        return "below 1"
    return f"{value:.3f}" if points else f"{value:,.0f}"


def _error(row: Row, predicted: float, points: bool) -> str:
    if not row.published:
        return "right" if predicted < 1 else "WRONG SIGN"
    scale = row.published if points else 1.0
    unit = "points" if points else "%"
    return f"{100 * (predicted / row.published - 1) * scale:+.1f} {unit}"


def _summaries(rows: list[Row], points: bool) -> Iterator[str]:
    for group in dict.fromkeys(row.group for row in rows):
        mine = [row for row in rows if row.group == group and row.published]
        errors = [_size(row, row.predicted, points) for row in mine]
        outs = [_size(r, r.left_out, points) for r in mine if r.left_out is not None]
        if errors:
            yield f"- {group}: {_spread(errors)}" + (
                f"; left out: {_spread(outs)}" if outs else ""
            )


def _size(row: Row, predicted: float, points: bool) -> float:
    scale = row.published if points else 1.0
    return 100 * abs(predicted / row.published - 1) * scale


def _spread(errors: list[float]) -> str:
    return f"median {statistics.median(errors):.1f}, worst {max(errors):.1f}"


def _verdict(rows: list[Row]) -> int:
    """Whether all signs are right and FSDP rows within 8 points."""
    signed = [row for row in rows if abs(row.published - 1) >= NOISE]
    signs = [r for r in signed if (r.published > 1) != (r.predicted > 1)]
    sizes = [
        row
        for row in rows
        if row.group == FITTED and abs(row.predicted - row.published) > TARGET
    ]
    right = len(signed) - len(signs)
    print(f"\nsign right on {right} of {len(signed)} rows that gain or lose 1 %")
    fitted = sum(row.group == FITTED for row in rows)
    print(f"within 8 points on {fitted - len(sizes)} of {fitted} FSDP rows")
    for row in (*signs, *sizes):
        print(f"  missed: {row.name}: {row.published} against {row.predicted:.3f}")
    return int(bool(signs or sizes))


if __name__ == "__main__":
    sys.exit(main())
