"""Judge whether FP8's loss follows bf16's, from finished or running runs.

The loss gap is the mean loss of FP8 minus that of bf16 over the last quarter of what
both have seen. Its 95 % interval has two sources: the steps differ in their data, which
averages out over many steps (``mean_interval``), and another seed of the same run would
have ended elsewhere. The latter is known from three runs of bf16 on; with fewer a
spread is assumed. ``benchmarks/verify/gaps.py`` measures how often intervals hold the
truth, and how often each verdict is right.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from fp8tune import curves
from fp8tune.verify.alignment import Aligned, align
from fp8tune.verify.runs import Run, is_loss

TOLERANCE = 0.0025
"""Gap, relative to the loss, up to which losses count as the same: DeepSeek-V3 reports
less than 0.25 % between FP8 and bf16, "within the acceptable range of training
randomness" (arXiv 2412.19437, 3.3)."""
SEED_SPREAD = 0.01
"""Relative standard deviation between seeds that is assumed with fewer than three runs
of bf16. Recorded runs have 0.3 % and 0.6 % on the same data and 1.0 % where each has an
order of its own (benchmarks/results/seed_curves.jsonl, loss_curves.jsonl)."""
SEEDS = 3
"""Runs of bf16 from which their own spread is used."""
NOISE_LIMIT = 2.0
"""Largest interval of the steps, relative to the margin, for the verdict ``same``."""
SURE = 1.3
"""Factor on half the 95 % interval beyond which FP8 is called worse or better: 99 %
where the spread is known well. A false alarm costs more than a miss."""
BEYOND = 2.0
"""The answer gives tokens for equal loss up to this factor: the slope is read from the
second half of a run, and holds no further."""
FEWEST = 12
"""Fewest places in the last quarter for a verdict on the gap."""
MIN_ROWS = 3
"""Places up to which nothing is computed."""
POWER = 1.43
"""The gap that is seen in 4 of 5 cases, over half an interval: (1.96 + 0.84) / 1.96."""
MAX_NORMS = 100_000
"""Most logged steps of a run, at its end, whose gradient norms are compared."""
SLOPE_SHARE = 0.5
"""Share of the run, at its end, from which the slope of the loss is read."""
PROVEN_TOKENS = 200e9
"""Tokens after which FP8 was first seen to diverge (arXiv 2409.12517)."""
SPIKES_UNLIKELY = 0.005
"""Chance of FP8's spikes, if they were as likely in bf16, from which they count."""


class Verdict(StrEnum):
    """How FP8's loss compares with bf16's."""

    SAME = "same"
    WORSE = "fp8-worse"
    BETTER = "fp8-better"
    DIVERGED = "diverged"
    INCONCLUSIVE = "inconclusive"


class Interval(NamedTuple):
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Gap:
    """The loss gap at the end of what all runs have seen; losses in nats per token.

    ``fp8`` and ``bf16`` are mean losses there, ``total`` the gap with the interval that
    decides, ``steps`` with that of these very runs. ``spread`` is the standard
    deviation between seeds of bf16, and ``assumed`` whether it was not measured.
    ``fp8_range`` is the difference between the highest and the lowest mean of FP8 runs.
    ``visible`` is the smallest gap that would be seen in 4 of 5 such comparisons,
    ``margin`` the largest that counts as none.
    """

    fp8: float
    bf16: float
    total: Interval
    steps: Interval
    spread: float
    assumed: bool
    fp8_range: float
    visible: float
    places: int
    margin: float


@dataclass(frozen=True, kw_only=True)
class Equal:
    """What FP8 needs to reach the loss of bf16, relative to what bf16 needed.

    The intervals have the spread between seeds only if ``with_seeds``.
    ``speed`` is FP8's tokens/s over bf16's, None if one is not logged.
    """

    tokens: Interval
    with_seeds: bool
    time: Interval | None = None
    speed: float | None = None


@dataclass(frozen=True, kw_only=True)
class Norms:
    """Gradient norms: medians at the end, and spikes per precision."""

    fp8: float
    bf16: float
    spikes: tuple[int, int]
    chance: float


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """FP8 runs compared with bf16 runs; ``aligned`` has the FP8 runs first."""

    fp8: tuple[Run, ...]
    bf16: tuple[Run, ...]
    aligned: Aligned
    verdict: Verdict = Verdict.INCONCLUSIVE
    reason: str = ""
    gap: Gap | None = None
    equal: Equal | None = None
    norms: Norms | None = None
    diverged_at: float | None = None
    diverged_bf16: tuple[Run, ...] = ()

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs, those of FP8 first."""
        return *self.fp8, *self.bf16

    @property
    def tokens(self) -> float | None:
        """The tokens that all runs have seen, None if unknown."""
        has = self.aligned.unit == "tokens" and self.aligned.places
        return self.aligned.places[-1] if has else None


def compare(
    fp8: Sequence[Run], bf16: Sequence[Run], seed_spread: float | None = None
) -> Comparison:
    """Compare runs; ``seed_spread`` is the relative spread of seeds if it is known."""
    aligned = align([*fp8, *bf16])
    result = Comparison(fp8=tuple(fp8), bf16=tuple(bf16), aligned=aligned)
    if not len(aligned):
        return _judged_without_rows(result)
    ours, theirs = aligned.losses[: len(fp8)], aligned.losses[len(fp8) :]
    result = replace(
        result,
        norms=_norms(result),
        gap=_gap(aligned, ours, theirs, seed_spread),
    )
    if failed := _diverged_bf16(bf16, theirs):
        return replace(result, reason="bf16-diverged", diverged_bf16=failed)
    if result.gap:
        result = replace(result, equal=_equal(result, result.gap))
    middle = [statistics.fmean(row) for row in zip(*theirs, strict=True)]
    if place := _divergence(result, ours, middle):
        return replace(
            result, verdict=Verdict.DIVERGED, reason=place[0], diverged_at=place[1]
        )
    return _judged(result, seed_spread)


def _judged_without_rows(result: Comparison) -> Comparison:
    """Judge runs without a common step: FP8 may have had NaN from its first step on."""
    if any(map(_ends_in_nan, result.fp8)) and not any(map(_ends_in_nan, result.bf16)):
        first = min(map(_first_of_nan_end, filter(_ends_in_nan, result.fp8)))
        place = first * (result.aligned.tokens_per_step or 1)
        return replace(
            result, verdict=Verdict.DIVERGED, reason="nan", diverged_at=place
        )
    if failed := tuple(filter(_ends_in_nan, result.bf16)):
        return replace(result, reason="bf16-diverged", diverged_bf16=failed)
    return replace(result, reason="no-overlap")


def _judged(result: Comparison, seed_spread: float | None) -> Comparison:
    """Judge the gap of runs of which none diverged.

    They are the same only if the spread of seeds is known.
    """
    gap = result.gap
    if gap is None or gap.places < FEWEST:
        few = gap is not None or len(result.aligned) <= MIN_ROWS
        return replace(result, reason="few-steps" if few else "no-cross-entropy")
    size, noise = abs(gap.total.value), gap.steps.high - gap.steps.value
    if size > max(gap.margin, SURE * (gap.total.high - gap.total.value)):
        side = Verdict.WORSE if gap.total.value > 0 else Verdict.BETTER
        return replace(result, verdict=side, reason="gap")
    if noise > NOISE_LIMIT * gap.margin:
        return replace(result, reason="noise")
    if gap.assumed and (seed_spread is None or size > gap.margin):
        return replace(result, reason="seeds")
    if size > gap.margin:
        return replace(result, reason="more-seeds")
    return replace(result, verdict=Verdict.SAME, reason="gap")


def _gap(
    aligned: Aligned,
    ours: Sequence[Sequence[float]],
    theirs: Sequence[Sequence[float]],
    seed_spread: float | None,
) -> Gap | None:
    """Return the gap in the last quarter of the rows.

    None if there are too few, or if a loss of bf16 there is not positive: then it is
    no cross-entropy, and a share of it says nothing.
    """
    if len(aligned) <= MIN_ROWS:
        return None
    final = [n for n, at in enumerate(aligned.places) if at >= _from(aligned, 0.25)]
    ends = [[row[n] for n in final] for row in (*ours, *theirs)]
    fp8, bf16 = ends[: len(ours)], ends[len(ours) :]
    if min(map(min, bf16)) <= 0:
        return None
    middles = [statistics.fmean(row) for row in bf16]
    ends_of_fp8 = [statistics.fmean(row) for row in fp8]
    differences = [
        statistics.fmean(row[: len(ours)]) - statistics.fmean(row[len(ours) :])
        for row in zip(*ends, strict=True)
    ]
    value, loss = statistics.fmean(differences), statistics.fmean(middles)
    half = mean_interval(differences)
    known, scale = len(bf16) >= SEEDS, math.sqrt(1 / len(fp8) + 1 / len(bf16))
    if known:
        spread = statistics.stdev(middles)
        seeds = curves.student_t(len(bf16) - 1) * spread * scale
        whole = max(half, seeds)
    else:
        given = SEED_SPREAD if seed_spread is None else seed_spread
        spread = max(given * loss, statistics.stdev(middles) if len(bf16) > 1 else 0.0)
        whole = math.hypot(half, curves.NORMAL * spread * scale)
    return Gap(
        fp8=statistics.fmean(ends_of_fp8),
        bf16=loss,
        total=Interval(value, value - whole, value + whole),
        steps=Interval(value, value - half, value + half),
        spread=spread,
        assumed=not known,
        fp8_range=max(ends_of_fp8) - min(ends_of_fp8),
        visible=POWER * whole,
        places=len(final),
        margin=max(TOLERANCE * loss, spread * known),
    )


def _from(aligned: Aligned, share: float) -> float:
    """Return the place from which on the last share of a run counts."""
    first, last = aligned.places[0], aligned.places[-1]
    return last - share * (last - first)


def mean_interval(values: Sequence[float]) -> float:
    """Return half the 95 % interval of the mean of values that follow each other.

    Neighbours may be correlated: n values with correlation r of neighbours count as
    n (1 - r) / (1 + r) independent ones, as for an autoregressive process of order 1.
    The estimate of r is corrected for its bias, (1 + 3 r) / n (Kendall, 1954).
    """
    count, mean = len(values), statistics.fmean(values)
    apart = [value - mean for value in values]
    total = sum(x * x for x in apart)
    if count < 3 or not total:
        return math.inf if count < 3 else 0.0
    found = sum(a * b for a, b in itertools.pairwise(apart)) / total
    r = min(0.98, max(0.0, found + (1 + 3 * found) / count))
    independent = max(2.0, count * (1 - r) / (1 + r))
    variance = total / (count - 1) / (1 - 1 / independent)
    t = curves.student_t(max(1.0, independent - 1))
    return t * math.sqrt(variance / independent)


def _equal(result: Comparison, gap: Gap) -> Equal | None:
    """Return the tokens and the time to equal loss, None if the loss no longer falls.

    Near its end the loss of bf16 is taken as linear in the logarithm of the tokens. A
    gap g then takes exp(g / slope) times the tokens. The interval has the errors of the
    gap and of the slope. An assumed spread of seeds is left out: it would hide what
    these runs show.
    """
    aligned, theirs = result.aligned, result.aligned.losses[len(result.fp8) :]
    rows = [
        (math.log(at), statistics.fmean(row[n] for row in theirs))
        for n, at in enumerate(aligned.places)
        if at >= _from(aligned, SLOPE_SHARE) and at > 0
    ]
    if len(rows) < FEWEST:
        return None
    slope, error = _slope(rows)
    if slope + curves.NORMAL * error >= 0:
        return None
    size, measured = gap.total.value / -slope, gap.steps if gap.assumed else gap.total
    half = math.hypot(
        (measured.high - measured.value) / slope,
        curves.NORMAL * error * size / slope,
    )
    if max(abs(size), half) > math.log(BEYOND):
        return None
    tokens = Interval(*(math.exp(size + d) for d in (0, -half, half)))
    speed = speed_ratio(result.fp8, result.bf16)
    time = Interval(*(value / speed for value in tokens)) if speed else None
    return Equal(tokens=tokens, with_seeds=not gap.assumed, time=time, speed=speed)


def _slope(rows: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the slope of a line through points, and its standard error."""
    xs, ys = zip(*rows, strict=True)
    slope, start = statistics.linear_regression(xs, ys)
    rest = sum((y - start - slope * x) ** 2 for x, y in rows) / (len(rows) - 2)
    around = statistics.fmean(xs)
    return slope, math.sqrt(rest / sum((x - around) ** 2 for x in xs))


def speed_ratio(fp8: Sequence[Run], bf16: Sequence[Run]) -> float | None:
    """Return FP8's tokens/s over bf16's, None if one side does not log its speed."""
    ours, theirs = ([_speed(run) for run in runs] for runs in (fp8, bf16))
    units = {unit for unit, _ in (*ours, *theirs)}
    if len(units) != 1 or "" in units:
        return None
    medians = [statistics.median(value for _, value in side) for side in (ours, theirs)]
    return medians[0] / medians[1]


def _speed(run: Run) -> tuple[str, float]:
    """Return a run's speed and its unit, ``""`` if it is unknown."""
    if run.tokens_per_second:
        unit = "tokens/s per GPU" if run.per_gpu else "tokens/s"
        return unit, run.tokens_per_second
    if run.step_s and run.tokens_per_step:
        return "tokens/s", run.tokens_per_step / run.step_s
    return ("steps/s", 1 / run.step_s) if run.step_s else ("", math.nan)


def _norms(result: Comparison) -> Norms | None:
    """Compare gradient norms over the steps that all runs have."""
    last = min(run.curve.step[-1] for run in result.runs)
    sides = [
        [_norms_of(run, last) for run in runs] for runs in (result.fp8, result.bf16)
    ]
    if not all(row for side in sides for row in side):
        return None
    noise = curves.norm_noise(sides[1])
    counts = [sum(curves.count_spikes(row, noise) for row in side) for side in sides]
    medians = [
        statistics.median(x for row in side for x in row[-curves.final_steps(row) :])
        for side in sides
    ]
    share = len(result.fp8) / len(result.runs)
    return Norms(
        fp8=medians[0],
        bf16=medians[1],
        spikes=(counts[0], counts[1]),
        chance=_at_least(counts[0], sum(counts), share),
    )


def _at_least(count: int, total: int, share: float) -> float:
    """Return the chance of so many of ``total`` if each falls there by ``share``."""
    return sum(
        math.comb(total, n) * share**n * (1 - share) ** (total - n)
        for n in range(count, total + 1)
    )


def _norms_of(run: Run, last: float) -> list[float]:
    pairs = zip(run.curve.step, run.curve.grad_norm, strict=True)
    norms = [norm for step, norm in pairs if step <= last and math.isfinite(norm)]
    return norms[-MAX_NORMS:]


def _ends_in_nan(run: Run) -> bool:
    """Return whether the last logged loss is NaN or infinite."""
    return bool(run.curve.loss) and not is_loss(run.curve.loss[-1])


def _first_of_nan_end(run: Run) -> float:
    """Return the first step of those without a finite loss that end a run."""
    pairs = zip(run.curve.step, run.curve.loss, strict=True)
    finite = max((step for step, loss in pairs if is_loss(loss)), default=-math.inf)
    return next(step for step in run.not_finite if step > finite)


def _divergence(
    result: Comparison, ours: Sequence[Sequence[float]], middle: Sequence[float]
) -> tuple[str, float] | None:
    """Return how and from which place on FP8 diverged, None if it did not."""
    for run, losses in zip(result.fp8, ours, strict=True):
        if _ends_in_nan(run):
            return "nan", _first_of_nan_end(run) * (result.aligned.tokens_per_step or 1)
        if result.gap is None or len(losses) < FEWEST:
            continue
        if curves.diverged(losses) or curves.fell_behind(losses, middle):
            return "loss", result.aligned.places[_last_together(losses, middle)]
    return None


def _diverged_bf16(
    bf16: Sequence[Run], theirs: Sequence[Sequence[float]]
) -> tuple[Run, ...]:
    """Return the bf16 runs that diverged, by themselves or next to the others."""
    failed = []
    for number, (run, losses) in enumerate(zip(bf16, theirs, strict=True)):
        others = [row for n, row in enumerate(theirs) if n != number]
        middle = [statistics.median(row) for row in zip(*others, strict=True)]
        if _ends_in_nan(run) or (
            len(losses) >= FEWEST
            and (
                curves.diverged(losses)
                or (middle and curves.fell_behind(losses, middle))
            )
        ):
            failed.append(run)
    return tuple(failed)


def _last_together(losses: Sequence[float], middle: Sequence[float]) -> int:
    """Return the last row at which FP8's smoothed loss was within bf16's noise."""
    gaps = [a - b for a, b in zip(losses, middle, strict=True)]
    width = max(1, len(gaps) // 50)
    noise = curves.LOSS_NOISE * curves.step_noise(gaps) / math.sqrt(width)
    means = curves.moving_means(gaps, width)
    return max((n for n, mean in enumerate(means) if mean <= noise), default=0)
