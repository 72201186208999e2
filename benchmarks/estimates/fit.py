"""How the rates of ``fp8tune/facts/engines.toml`` are found.

Least squares over published steps and gains, held near what physics suggests. torchao:
the bf16 steps of KempnerForge, the gains of FP8 under FSDP, and single tensorwise
linears. Transformer Engine: the pairs of ``pairs.csv``, each model and release with the
same weight; first dense models, then what experts add.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from benchmarks.estimates import speeds
from benchmarks.estimates.least_squares import minimise
from benchmarks.estimates.pairs import Pair, pairs
from benchmarks.estimates.speeds import Run, gain, tokens_per_second
from fp8tune.facts.gemm_speed import corrected
from fp8tune.facts.steptime import Engine, engines

FITTED = "FSDP"
"""The group of gains that torchao's rates are fitted to, with the steps and linears."""

Prior = dict[str, tuple[float, float]]
"""By rate: what physics suggests, and the relative deviation that counts like one
standard error."""

TORCHAO: Prior = {
    "matmul": (0.88, 0.2),
    "attention": (0.5, 0.15),
    "elementwise": (1.0, 0.4),
    "eager": (4.0, 0.2),
    "sharded": (1.06, 0.03),
    "pipelined": (1.1, 0.1),
    "contention": (1.0, 0.3),
    "exposed": (0.6, 0.4),
    "network": (50.0, 0.3),
    "tensor": (60.0, 0.5),
    "fp8_scale": (1.3, 0.15),
    "fp8_power": (0.6, 0.15),
}
MEGATRON: Prior = {
    "matmul": (0.85, 0.1),
    "attention": (0.65, 0.2),
    "tensor": (200.0, 0.7),
    "fp8_matmul": (1.0, 0.1),
}
EXPERTS: Prior = {
    "dispatch": (25.0, 0.7),
    "permute": (50.0, 1.0),
    "permute_fp8": (50.0, 1.0),
}
EAGER: Prior = {
    "attention": (0.35, 0.5),
    "elementwise": (1.5, 0.5),
    "fp8_matmul": (1.0, 0.1),
}
STEP_ERROR, GAIN_ERROR, LINEAR_ERROR = 0.04, 0.03, 0.08
"""Relative errors that count like one standard error."""


def torchao(left_out: Run | None = None, without: str = "", model: str = "") -> Engine:
    """Rates fitted to all rows, or to all but one step, source or model of gains."""
    steps = [run for run in speeds.steps() if run != left_out]
    gains = [
        run
        for run in speeds.gains()
        if run.group == FITTED and run.source != without and run.model != model
    ]

    def misses(rates: Engine) -> Iterator[float]:
        for run in steps:
            yield math.log(tokens_per_second(run, rates) / run.measured) / STEP_ERROR
        for run in gains:
            yield math.log(gain(run, rates) / run.measured) / GAIN_ERROR
        for row, table in speeds.linears():
            speedup = corrected(table, rates.fp8_scale, rates.fp8_power)
            yield math.log(speedup / row["speedup"]) / LINEAR_ERROR

    return _fitted(engines()["torchao"], TORCHAO, misses)


def transformer_engine(without: str = "") -> dict[str, Engine]:
    """The rates of each of its engines, fitted without a model."""
    rows = [pair for pair in pairs() if pair.family != without]
    kinds = (("te-megatron", False), ("te-megatron", True), ("te", False))
    dense, experts, eager = (
        [p for p in rows if (p.engine, p.experts) == kind] for kind in kinds
    )
    megatron = _fitted(engines()["te-megatron"], MEGATRON, _of_pairs(dense))
    if experts:
        megatron = _fitted(megatron, EXPERTS, _of_pairs(experts))
    alone = engines()["te"]._replace(matmul=megatron.matmul)
    return {
        "te-megatron": megatron,
        "te": _fitted(alone, EAGER, _of_pairs(eager)),
    }


def _of_pairs(rows: list[Pair]) -> Callable[[Engine], Iterator[float]]:
    """Return what yields the misses of pairs, those of one model and release as one."""
    of = [(pair, (pair.model, pair.kind, pair.release)) for pair in rows]
    counts = Counter(setting for _, setting in of)

    def misses(engine: Engine) -> Iterator[float]:
        for pair, setting in of:
            weight = counts[setting] ** -0.5
            one, other = pair.predicted(engine)
            yield weight * math.log(one / pair.bf16_seconds) / STEP_ERROR
            yield weight * math.log(one / other / pair.gain) / GAIN_ERROR

    return misses


def _fitted(
    engine: Engine, prior: Prior, misses: Callable[[Engine], Iterable[float]]
) -> Engine:
    """Return the engine with the rates of a prior fitted."""

    def rates(logs: list[float]) -> Engine:
        starts = ((name, start) for name, (start, _) in prior.items())
        pairs = zip(starts, logs, strict=True)
        fitted: dict[str, Any] = {n: x * math.exp(log) for (n, x), log in pairs}
        return engine._replace(**fitted)

    def residuals(logs: list[float]) -> list[float]:
        holds = (hold for _, hold in prior.values())
        pulls = (log / hold for log, hold in zip(logs, holds, strict=True))
        return [*misses(rates(logs)), *pulls]

    return rates(minimise(residuals, [0.0] * len(prior)))
