"""Statistics of loss curves and gradient norms, as plain sequences of numbers.

The stability stage of a search and the comparison of two runs both judge by them.
``benchmarks.search.stability`` measures how often they are right.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence

FINAL_SHARE = 0.25  # share of a run, at its end, over which its loss is averaged
LOSS_NOISE = 7.0  # deviations from step to step that a change of the loss must exceed
LOST_SHARE = 0.5  # share of the learned loss that is lost again: the run diverged
CLIMBED_SHARE = 0.05  # the same if bf16 on the same seed kept it: 0.35 of 7 nats
CLIMB_WINDOW = 0.125  # of a run, over which losses are averaged to see a climb
SPIKE = 7.0  # deviations above the steps before, as in OLMo 2 (arXiv 2501.00656)
NORM_WINDOW, MIN_NORM_WINDOW = 16, 8  # steps before, and the fewest, for a norm
MIN_NORM_NOISE = 0.05  # smallest deviation assumed of gradient norms (log)
STUDENT_T = (math.inf, 12.706, 4.303, 3.182, 2.776, 2.571)
"""Student's t of a 95 % interval, by degrees of freedom."""
NORMAL = 1.96
"""Standard deviations on each side that contain 95 % of a normal distribution."""


def student_t(freedom: float) -> float:
    """Return Student's t of a 95 % interval.

    From the table up to 5 degrees of freedom (rounded down), beyond them by the
    expansion around the normal value (Cornish and Fisher, 1938).
    """
    if freedom < len(STUDENT_T):
        return STUDENT_T[max(0, int(freedom))]
    z = NORMAL
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / freedom + second / freedom**2


def norm_noise(runs: Iterable[Sequence[float]]) -> float:
    """Return the typical change of gradient norms relative to preceding ones (log)."""
    rises = [abs(rise) for norms in runs for rise in _norm_rises(norms)]
    noise = 1.4826 * statistics.median(rises) if rises else 0.0
    return max(MIN_NORM_NOISE, noise)


def spikes(grad_norms: Sequence[float], noise: float) -> list[int]:
    """Return where the gradient norm spikes; neighbouring steps are one spike."""
    high = [rise > SPIKE * noise for rise in _norm_rises(grad_norms)]
    pairs = enumerate(itertools.pairwise([False, *high]), MIN_NORM_WINDOW)
    return [place for place, (before, now) in pairs if now and not before]


def count_spikes(grad_norms: Sequence[float], noise: float) -> int:
    """Count how often the gradient norm spikes."""
    return len(spikes(grad_norms, noise))


def _norm_rises(grad_norms: Sequence[float]) -> list[float]:
    """Return each norm relative to the median of the steps before it (log)."""
    logs = [math.log(max(norm, 1e-30)) for norm in grad_norms]
    return [
        logs[i] - statistics.median(logs[max(0, i - NORM_WINDOW) : i])
        for i in range(MIN_NORM_WINDOW, len(logs))
    ]


def spikes_by_chance(fp8: int, bf16: int) -> float:
    """Return the chance of so many of all spikes in FP8 if both were alike."""
    every = fp8 + bf16
    ways = sum(math.comb(every, count) for count in range(fp8, every + 1))
    return ways / float(2**every)


def final_mean(losses: Sequence[float]) -> float:
    """Return the mean loss over the last quarter of a run."""
    return statistics.fmean(losses[-final_steps(losses) :])


def final_steps(losses: Sequence[float]) -> int:
    """Return how many steps the last quarter of a run has."""
    return max(1, round(FINAL_SHARE * len(losses)))


def diverged(losses: Sequence[float]) -> bool:
    """Return whether a run ended clearly worse than it once was.

    Losses are averaged over windows as wide as the final one. A run diverged if it lost
    half of its best progress by the end. It also diverged if its loss rose above that
    of the untrained model and ended below it by less than this rise. A rise within the
    noise does not count.
    """
    width = final_steps(losses)
    first, means = losses[0], moving_means(losses, width)
    best, last = min(means), means[-1]
    noise = LOSS_NOISE * step_noise(losses)
    rise = max(means) - first
    if rise > noise and last > first - rise:
        return True
    return last - best > max(LOST_SHARE * (first - best), noise / math.sqrt(width))


def fell_behind(fp8: Sequence[float], bf16: Sequence[float]) -> bool:
    """Return whether FP8 climbs while bf16 does not, or learned less than half."""
    if climbs(fp8, bf16):
        return True
    fp8_gain, bf16_gain = (run[0] - final_mean(run) for run in (fp8, bf16))
    bf16_learns = bf16_gain > LOSS_NOISE * step_noise(bf16)
    return bf16_learns and fp8_gain < LOST_SHARE * bf16_gain


def climbs(fp8: Sequence[float], bf16: Sequence[float]) -> bool:
    """Return whether FP8 ends above its best while bf16 on the same data does not."""
    width = max(1, round(CLIMB_WINDOW * len(fp8)))
    gaps = [a - b for a, b in zip(fp8, bf16, strict=False)]
    losses, gap_means = moving_means(fp8, width), moving_means(gaps, width)
    best = losses.index(min(losses))
    rise = min(means[-1] - means[best] for means in (losses, gap_means))
    deviation = max(step_noise(gaps), *(resolution(run) / 2 for run in (fp8, bf16)))
    noise = LOSS_NOISE * deviation * math.sqrt(2 / width)
    return rise > max(CLIMBED_SHARE * (fp8[0] - losses[best]), noise)


def moving_means(values: Sequence[float], width: int) -> list[float]:
    """Return the mean of each window of so many neighbouring values."""
    starts = range(len(values) - width + 1)
    return [statistics.fmean(values[i : i + width]) for i in starts]


def step_noise(values: Sequence[float]) -> float:
    """Return the deviation of steps from a smooth line, by their second differences.

    It is at least half of what the values are rounded to: a trainer may compute its
    loss in bf16, 5.53 and then 5.56, so that most steps do not differ at all.
    """
    bends = [
        abs(a - 2 * b + c)
        for a, b, c in zip(values, values[1:], values[2:], strict=False)
    ]
    found = 1.4826 * statistics.median(bends) / math.sqrt(6) if bends else 0.0
    return max(found, resolution(values) / 2)


def resolution(values: Sequence[float]) -> float:
    """Return the smallest difference of two values that differ; 0 if none do."""
    ordered = sorted(set(filter(math.isfinite, values)))
    return min((b - a for a, b in itertools.pairwise(ordered)), default=0.0)
