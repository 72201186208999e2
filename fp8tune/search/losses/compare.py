"""Compare FP8's loss curves with those of bf16 on the same seeds and data.

The loss gap is FP8's final loss minus bf16's on the same seed, averaged over the seeds:
the effect of the seed cancels. FP8 is inside the spread if the gap is at most the
standard deviation between bf16 seeds. It is outside if the gap is significantly above
zero (95 % interval of Student's t) and above the upper limit of that standard
deviation, which is known from few seeds. Everything in between is inconclusive.
``benchmarks.search.stability.py`` measures how often each verdict is right.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from fp8tune import curves
from fp8tune.trials.record import LossRun, Record

SEEDS, MAX_SEEDS = 3, 6  # seeds of each precision; the most while inconclusive
MAX_DEVIATION = {2: 3.081, 3: 2.266, 4: 1.939, 5: 1.762}
"""How many times the measured deviation the true one is at most, in 9 of 10 cases, by
degrees of freedom: the root of these over the lowest tenth of chi-square."""
SPIKES_UNLIKELY, SPIKES_IMPOSSIBLE = 0.03, 0.005
"""Probability of FP8's spikes, if a spike were as likely in bf16, at or below which the
verdict is inconclusive, and at or below which it is outside."""
DIVERGED_RUNS = 2
"""Diverged runs of FP8, beyond those of bf16, from which the verdict is diverged. One
that ends in NaN is enough where no run of bf16 diverges."""


class LossVerdict(StrEnum):
    """How FP8's losses compare with those of bf16, from good to bad."""

    INSIDE = "inside"
    INCONCLUSIVE = "inconclusive"
    OUTSIDE = "outside"
    DIVERGED = "diverged"


class LossCurve(NamedTuple):
    """The losses and gradient norms of one training run, step by step.

    ``nan``: the run ended in NaN or infinity; the series stop before that.
    """

    precision: str
    loss_run: LossRun
    losses: tuple[float, ...]
    grad_norms: tuple[float, ...]
    nan: bool = False


CurvePair = tuple[LossCurve, LossCurve]
"""FP8 and bf16 on the same seed."""


class Comparison(NamedTuple):
    """FP8 compared with bf16 at one warmup.

    ``gap`` is the difference of FP8's loss and bf16's on the same seed, averaged over
    ``seeds``; ``interval`` is its 95 % interval, ``spread`` the standard deviation
    between bf16 seeds. All three are relative to bf16's loss. ``spikes`` and
    ``diverged`` count gradient spikes and diverged runs, in FP8 and in bf16; spikes are
    ``None`` where a run has no gradient norms.
    """

    warmup_steps: int
    verdict: LossVerdict
    seeds: int
    steps: int
    gap: float = 0.0
    interval: tuple[float, float] | None = None
    spread: float = 0.0
    spikes: tuple[int, int] | None = (0, 0)
    diverged: tuple[int, int] = (0, 0)


def loss_curve(record: Record, precision: str) -> LossCurve | None:
    """Return the curve of a record's run; ``None`` if it is not complete."""
    run = record.loss_run
    if run is None or not record.meaning.has_losses:
        return None
    nan = record.outcome == "nan"
    if not nan and len(record.losses) < run.steps:
        return None
    norms = record.grad_norms if len(record.grad_norms) == len(record.losses) else ()
    return LossCurve(precision, run, record.losses, norms, nan)


def compare(
    pairs: Sequence[CurvePair],
    bf16_seeds: Sequence[LossCurve] = (),
    min_pairs: int = SEEDS,
) -> Comparison:
    """Compare FP8 with bf16 at one warmup.

    There must be at least one pair. The spread between seeds comes from ``bf16_seeds``,
    by default from the pairs. With fewer than ``min_pairs`` only divergence gives a
    verdict.
    """
    run = pairs[0][0].loss_run
    fp8, bf16 = zip(*pairs, strict=True)
    seeds = bf16_seeds or bf16
    lost = sum(itertools.starmap(fp8_diverged, pairs)), sum(map(diverged, bf16))
    result = Comparison(
        run.warmup_steps, LossVerdict.INCONCLUSIVE, len(pairs), run.steps, diverged=lost
    )
    bf16_is_stable = not any(map(diverged, (*bf16, *seeds)))
    nan = bf16_is_stable and any(curve.nan for curve in fp8)
    if nan or lost[0] - lost[1] >= DIVERGED_RUNS:
        return result._replace(verdict=LossVerdict.DIVERGED)
    if lost[0] or not bf16_is_stable:
        return result
    return _compare_losses(result, pairs, seeds, min_pairs)


def _compare_losses(
    result: Comparison,
    pairs: Sequence[CurvePair],
    bf16_seeds: Sequence[LossCurve],
    min_pairs: int,
) -> Comparison:
    """Return gap, spread, spikes and verdict of runs of which none diverged."""
    noise = norm_noise(bf16_seeds)
    fp8_spikes, bf16_spikes = (
        sum(curves.count_spikes(curve.grad_norms, noise) for curve in runs)
        for runs in zip(*pairs, strict=True)
    )
    has_norms = all(curve.grad_norms for pair in pairs for curve in pair)
    result = result._replace(spikes=(fp8_spikes, bf16_spikes) if has_norms else None)
    mean_loss = statistics.fmean(final_loss(bf16) for _, bf16 in pairs)
    if mean_loss <= 0:
        return result  # not the loss of a language model
    gaps = [(final_loss(fp8) - final_loss(bf16)) / mean_loss for fp8, bf16 in pairs]
    gap = statistics.fmean(gaps)
    result = result._replace(gap=gap, interval=_interval(gap, gaps))
    if len(bf16_seeds) < SEEDS:
        return result
    spread = statistics.stdev(map(final_loss, bf16_seeds)) / mean_loss
    result = result._replace(spread=spread)
    if len(pairs) < min_pairs:
        return result
    spikes = _spike_verdict(fp8_spikes, bf16_spikes)
    verdicts = _gap_verdict(result, len(bf16_seeds)), spikes
    return result._replace(verdict=max(verdicts, key=list(LossVerdict).index))


def _interval(mean: float, values: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % interval of a mean; ``None`` for a single value."""
    freedom = len(values) - 1
    if not freedom:
        return None
    half = curves.student_t(freedom) * statistics.stdev(values) / math.sqrt(len(values))
    return mean - half, mean + half


def _gap_verdict(result: Comparison, seeds: int) -> LossVerdict:
    """Judge the loss gap: only a higher loss of FP8 counts against it."""
    if result.gap <= result.spread:
        return LossVerdict.INSIDE
    max_spread = MAX_DEVIATION[min(seeds - 1, max(MAX_DEVIATION))] * result.spread
    above_zero = result.interval is not None and result.interval[0] > 0
    outside = above_zero and result.gap > max_spread
    return LossVerdict.OUTSIDE if outside else LossVerdict.INCONCLUSIVE


def _spike_verdict(fp8: int, bf16: int) -> LossVerdict:
    """Judge gradient spikes by the probability of so many in FP8 if both were alike."""
    chance = curves.spikes_by_chance(fp8, bf16)
    if chance > SPIKES_UNLIKELY:
        return LossVerdict.INSIDE
    return (
        LossVerdict.OUTSIDE if chance <= SPIKES_IMPOSSIBLE else LossVerdict.INCONCLUSIVE
    )


def norm_noise(runs: Iterable[LossCurve]) -> float:
    """Return the typical change of gradient norms relative to preceding ones (log)."""
    return curves.norm_noise(run.grad_norms for run in runs)


def final_loss(curve: LossCurve) -> float:
    """Return the mean loss over the last quarter of a run."""
    return curves.final_mean(curve.losses)


def fp8_diverged(fp8: LossCurve, bf16: LossCurve) -> bool:
    """Return whether FP8 diverged, climbs, or learned less than half of bf16's gain."""
    if diverged(fp8) or diverged(bf16):
        return diverged(fp8)
    return curves.fell_behind(fp8.losses, bf16.losses)


def diverged(curve: LossCurve) -> bool:
    """Return whether a run ended in NaN, or clearly worse than it once was."""
    return curve.nan or curves.diverged(curve.losses)
