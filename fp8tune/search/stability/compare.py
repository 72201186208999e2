"""FP8 against bf16 on the same seeds and data, by how bf16 seeds differ.

FP8's loss at the end of a run, less that of bf16 on the same seed, is taken over all
seeds: what both owe to the seed falls out. FP8 is inside where that is no more than
the deviation between bf16 seeds. It is outside where the interval of Student's t is
above zero and the mean above what that deviation, known from few seeds, may be; else
inconclusive. benchmarks/search/seeds.py counts how often each is said, and of what.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fp8tune.search.stability.curve import Curve
from fp8tune.search.stability.divergence import diverged, end, is_lost

INSIDE, OUTSIDE, INCONCLUSIVE, DIVERGED = (
    "inside",
    "outside",
    "inconclusive",
    "diverged",
)
SEEDS, MOST_SEEDS = 3, 6
"""Seeds of both precisions, and the most while the verdict is inconclusive."""
LIKELY = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571}
"""Student's t that is exceeded once in 40 times, by degrees of freedom."""
WIDEST = {2: 3.081, 3: 2.266, 4: 1.939, 5: 1.762}
"""How many times a deviation that was found the true one is at most, 9 times in 10, by
degrees of freedom: the root of these over the lowest tenth of chi-square."""
SPIKE = 7.0
"""Deviations above the steps before that make a spike of the gradient norm, as OLMo 2
counts them (arXiv 2501.00656)."""
BEFORE, LEAST_BEFORE = 16, 8
"""Steps before, that a norm is held against, and how many there have to be."""
QUIET = 0.05
"""The least deviation of a gradient norm from those before that is believed (log)."""
CHANCE, NO_CHANCE = 0.03, 0.005
"""How likely FP8's spikes may be, if a spike were as likely in bf16, before the verdict
is inconclusive, and before FP8 is outside."""
CERTAIN = 2
"""Diverged runs of FP8, more than of bf16, from which FP8 is said to diverge. One that
ends in NaN is enough where no run of bf16 diverges."""


class Compared(NamedTuple):
    """FP8 beside bf16 at one warmup.

    ``gap`` is FP8's loss above that of bf16 on the same seed, the mean over ``seeds``,
    ``interval`` that of 95 %, ``spread`` the deviation between bf16 seeds, all
    relative to bf16's loss. Spikes and diverged runs are counted of FP8 and of bf16.
    """

    warmup_steps: int
    verdict: str
    seeds: int
    steps: int
    gap: float = 0.0
    interval: tuple[float, float] | None = None
    spread: float = 0.0
    spikes: tuple[int, int] = (0, 0)
    diverged: tuple[int, int] = (0, 0)


Pair = tuple[Curve, Curve]
"""FP8 and bf16 on the same seed."""


def compare(pairs: Sequence[Pair], seeds: Sequence[Curve], least: int) -> Compared:
    """FP8 beside bf16 at one warmup; there must be a pair.

    ``seeds`` are the bf16 runs from which the spread is known, ``least`` how many pairs
    a verdict needs.
    """
    how = pairs[0][0].how
    found = Compared(how.warmup_steps, INCONCLUSIVE, len(pairs), how.steps)
    fp8, bf16 = [one for one, _ in pairs], [other for _, other in pairs]
    lost = sum(itertools.starmap(is_lost, pairs)), sum(map(diverged, bf16))
    found = found._replace(diverged=lost)
    calm = not lost[1] and not any(map(diverged, seeds))
    if lost[0] - lost[1] >= CERTAIN or (calm and any(run.nan for run in fp8)):
        return found._replace(verdict=DIVERGED)
    if lost[0] or not calm:
        return found
    return _learned(found, pairs, seeds, least)


def _learned(
    found: Compared, pairs: Sequence[Pair], seeds: Sequence[Curve], least: int
) -> Compared:
    """The same where nothing diverged."""
    fp8, bf16 = [one for one, _ in pairs], [other for _, other in pairs]
    noise = deviation(seeds or bf16)
    ours, theirs = (sum(spikes(r.norms, noise) for r in runs) for runs in (fp8, bf16))
    found = found._replace(spikes=(ours, theirs))
    middle = statistics.fmean(map(end, bf16))
    if middle <= 0:
        return found  # no loss of a language model
    gaps = [(end(one) - end(other)) / middle for one, other in pairs]
    found = _with_gap(found, gaps)
    if len(seeds) < SEEDS:
        return found
    found = found._replace(spread=statistics.stdev(map(end, seeds)) / middle)
    if len(pairs) < least:
        return found
    said = _of_gap(found, len(seeds)), _of_spikes(found)
    return found._replace(verdict=max(said, key=ORDER.index))


ORDER = (INSIDE, INCONCLUSIVE, OUTSIDE)


def _with_gap(found: Compared, gaps: Sequence[float]) -> Compared:
    """The mean of what FP8 is worse by, seed by seed, and its interval."""
    gap, freedom = statistics.fmean(gaps), len(gaps) - 1
    if not freedom:
        return found._replace(gap=gap)
    off = LIKELY[min(freedom, max(LIKELY))] * statistics.stdev(gaps)
    off /= math.sqrt(len(gaps))
    return found._replace(gap=gap, interval=(gap - off, gap + off))


def _of_gap(found: Compared, seeds: int) -> str:
    """What the loss says: only a higher one is a fault."""
    if found.gap <= found.spread:
        return INSIDE
    widest = WIDEST[min(seeds - 1, max(WIDEST))] * found.spread
    surely = found.interval is not None and found.interval[0] > 0
    return OUTSIDE if surely and found.gap > widest else INCONCLUSIVE


def _of_spikes(found: Compared) -> str:
    fp8, bf16 = found.spikes
    chance = at_least(fp8, fp8 + bf16)
    if chance > CHANCE:
        return INSIDE
    return OUTSIDE if chance <= NO_CHANCE else INCONCLUSIVE


def at_least(heads: int, throws: int) -> float:
    """The chance of so many heads or more in throws of a fair coin."""
    ways = sum(math.comb(throws, k) for k in range(heads, throws + 1))
    return ways / float(2**throws)


def deviation(curves: Iterable[Curve]) -> float:
    """How far gradient norms are from those before them (log), by their median."""
    rises = [abs(rise) for curve in curves for rise in _rises(curve.norms)]
    return max(QUIET, 1.4826 * statistics.median(rises)) if rises else QUIET


def spikes(norms: Sequence[float], noise: float) -> int:
    """How often the gradient norm rose far above the steps before; a row is one."""
    high = [rise > SPIKE * noise for rise in _rises(norms)]
    return sum(now and not before for before, now in itertools.pairwise([False, *high]))


def _rises(norms: Sequence[float]) -> list[float]:
    """Each norm beside the median of those before it (log), where there are enough."""
    logs = [math.log(max(norm, 1e-30)) for norm in norms]
    return [
        logs[i] - statistics.median(logs[max(0, i - BEFORE) : i])
        for i in range(LEAST_BEFORE, len(logs))
    ]
