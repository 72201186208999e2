"""How the rates of ``fp8tune/facts/steptime.py`` and ``gemm_speed.py`` are found.

Least squares over the bf16 steps of KempnerForge, the gains of FP8 under FSDP, and
single tensorwise linears, held near what physics suggests.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from benchmarks.estimates import speeds
from benchmarks.estimates.least_squares import minimise
from benchmarks.estimates.speeds import Run, gain, tokens_per_second
from fp8tune.facts.gemm_speed import corrected
from fp8tune.facts.steptime import Rates

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


def fit(left_out: Run | None = None, without: str = "") -> Rates:
    """Rates fitted to all rows, or to all but one step or one source of gains."""
    steps = [run for run in speeds.steps() if run != left_out]
    gains = [
        run for run in speeds.gains() if run.group == FITTED and run.source != without
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
    for row, table in speeds.linears():
        found = corrected(table, rates.fp8_scale, rates.fp8_power)
        yield math.log(found / row["speedup"]) / LINEAR_ERROR


def _pulls(rates: Rates) -> Iterator[float]:
    for rate, start, hold in zip(rates, START, HOLD, strict=True):
        yield math.log(rate / start) / hold
