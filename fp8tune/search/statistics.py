"""How fast a setting is, and how sure a few short runs make us."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fp8tune.trials.record import Record

RUN_SPREAD = 0.007
"""Relative standard deviation between fresh runs of one setting, before any repeat.

Within a run steps differ by 0.11 % (1 GPU) to 0.17 % (8 GPUs) in 53 published runs
(prime-rl benchmarks); between runs clocks and allocator dominate."""
PRIOR_RUNS = 4
"""How many degrees of freedom that figure is worth."""
SAME = 0.01
"""Relative difference up to which two settings are called the same."""
RESOLVED = 0.8
"""Half of a ratio's interval, in parts of what is the same, from which more runs are
not worth their time: a setting against itself is then called the same 19 times in 20
and more, and a gain of 2 % is found 9 times in 10 (benchmarks/search/aa.py)."""
LOOKS = 1.3
"""How much wider an interval has to be that is looked at after every run, and ends the
runs where it shows a gain: by chance one of ten looks does so more often than one look
does (Pocock, "Group sequential methods", Biometrika 64, 1977: 2.56 deviations for
1.96)."""
NORMAL = 1.96
"""Deviations that hold 95 % to both sides of a normal value."""
FAR = 3.0
"""Deviations from their middle beyond which values are not as the others are. By the
median deviation such a rule bears nearly half of the values being bad (Hampel, "The
breakdown points of the mean combined with some rejection rules", Technometrics 27,
1985)."""
OF_MEDIAN = 1.4826
"""Standard deviations of normal values in one median deviation."""
FEWEST = 6
"""Values from which those far off do not count: of fewer the odd ones may be right."""
WIDEST = 5.0
"""The most that an interval reaches to each side (log): beyond, nothing is known."""


class Usual(NamedTuple):
    """How runs of a setting differ before any repeat, and what is called the same."""

    spread: float = RUN_SPREAD
    same: float = SAME


ON_GPU = Usual()
ON_CPU = Usual(0.048, 0.05)
"""By 40 runs of the rehearsal (benchmarks/results/runs_cpu.jsonl)."""


class Speed(NamedTuple):
    """Tokens/s over all GPUs, with a 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def half(self) -> float:
        """Half of the interval, relative to the value."""
        return math.log(self.high / self.low) / 2


def spread(
    settings: Iterable[Sequence[Record]], usual: float = RUN_SPREAD, far: float = FAR
) -> float:
    """Relative standard deviation between runs, pooled over settings with repeats.

    Widened as Student's t is, so that ``NORMAL`` of it hold 95 % although it is itself
    known from few runs. Where these differ more than is usual, they alone tell, if
    they are more than one pair. What lies further off than ``far`` deviations counts as
    near as that: one bad run says little of all others.
    """
    runs = [
        [math.log(r.tokens_per_second) for r in records if r.ok] for records in settings
    ]
    return _believed(*_squares(runs, usual, far), usual)


def _squares(
    groups: Iterable[Sequence[float]], usual: float, far: float = FAR
) -> tuple[float, int]:
    """The squares of values around their group's middle, and their freedom.

    Those further off than ``far`` of the usual deviation, or of their own by the median
    one, count as near as that.
    """
    repeated = [values for values in groups if len(values) > 1]
    freedom = sum(len(values) - 1 for values in repeated)
    if not freedom:
        return 0.0, 0
    middles = [middle_of(values) for values in repeated]
    apart = [
        abs(value - middle)
        for values, middle in zip(repeated, middles, strict=True)
        for value in values
    ]
    own = OF_MEDIAN * statistics.median(apart) * math.sqrt(len(apart) / freedom)
    most = far * max(usual, own)
    return sum(min(each, most) ** 2 for each in apart), freedom


def in_line(values: Sequence[float], deviation: float) -> list[bool]:
    """Return which values count: not those far off, if there are ``FEWEST`` or more.

    Far off is more than ``FAR`` deviations from the median. The deviation is the larger
    of ``deviation`` and the median deviation of the values themselves.
    """
    middle = statistics.median(values)
    apart = [abs(value - middle) for value in values]
    most = FAR * max(deviation, OF_MEDIAN * statistics.median(apart))
    return [len(values) < FEWEST or each <= most for each in apart]


def _believed(total: float, freedom: float, usual: float) -> float:
    """A deviation by its squares and what is usual, widened."""
    prior = _widened(total + PRIOR_RUNS * usual**2, freedom + PRIOR_RUNS)
    return max(prior, _widened(total, freedom)) if freedom > 1 else prior


def _widened(total: float, freedom: float) -> float:
    """A deviation by its squares, as far above it as it may be wrong."""
    return math.sqrt(total / freedom) * student(freedom) / NORMAL


def student(freedom: float) -> float:
    """Student's t that holds 95 % to both sides, to 1 % from three degrees of freedom.

    By its expansion around the normal value (Cornish and Fisher, 1938); 3 % too small
    for two.
    """
    z = NORMAL
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def speed(records: Sequence[Record], deviation: float = RUN_SPREAD) -> Speed | None:
    """The speed of one setting from its runs, which differ by ``deviation``.

    Or by more, where they or their own steps say so. Runs far off do not count.
    """
    values = [record.tokens_per_second for record in records if record.ok]
    if not values:
        return None
    kept = in_line([math.log(value) for value in values], deviation)
    counted = list(itertools.compress(values, kept))
    differ = max(deviation, steps_spread(records), _apart(map(math.log, counted)))
    return _around(middle_of(counted), NORMAL * differ / math.sqrt(len(counted)))


def _apart(values: Iterable[float]) -> float:
    """The standard deviation of some values; 0 of one."""
    known = list(values)
    return statistics.stdev(known) if len(known) > 1 else 0.0


def steps_spread(records: Iterable[Record]) -> float:
    """Relative standard deviation of runs' median step times, as their steps tell it.

    By ``median_step_ms_95``, the interval that real trials report; 0 where no run has
    one.
    """
    widths = [
        record.relative_error
        for record in records
        if record.ok and record.relative_error
    ]
    return math.sqrt(statistics.fmean(w**2 for w in widths)) / NORMAL if widths else 0.0


def _around(value: float, half: float) -> Speed:
    """A value with its interval, as far below as above it in ratio."""
    by = math.exp(min(half, WIDEST))
    return Speed(value, value / by, value * by)


def middle_of(values: Sequence[float]) -> float:
    """The median of all pairs' means, each value with itself too (Hodges and Lehmann).

    Nearly as sure as the mean, where the median of a few runs is a fifth less so, and
    one bad run does not carry it away.
    """
    pairs = itertools.combinations_with_replacement(values, 2)
    return statistics.median((one + other) / 2 for one, other in pairs)


def ratio(one: Speed, other: Speed) -> Speed:
    """How much faster one is than another that ran apart from it."""
    return _around(one.value / other.value, math.hypot(one.half, other.half))


def wider(gain: Speed, half: float) -> Speed:
    """A ratio that may be wrong in another way too, by as much (log)."""
    return _around(gain.value, math.hypot(gain.half, half)) if half else gain


def paired(ratios: Sequence[float], deviation: float) -> Speed:
    """How much faster one setting is than another, by pairs of neighbouring runs.

    ``deviation`` is that between runs of a setting, where the pairs show no more.
    """
    logs = [math.log(each) for each in ratios]
    differ = max(deviation, _apart(logs) / math.sqrt(2))
    return _around(
        math.exp(middle_of(logs)), NORMAL * differ * math.sqrt(2 / len(logs))
    )


def paired_spread(
    settings: Iterable[Sequence[float]], usual: float = RUN_SPREAD
) -> float:
    """As ``spread``, by how the ratios of pairs differ: of settings to the same one.

    Because its runs are in all of them, ``k`` settings are worth ``4 k / (k + 3)`` that
    are independent (Satterthwaite's approximation, 1946).
    """
    pairs = [[math.log(each) / math.sqrt(2) for each in own] for own in settings]
    total, freedom = _squares(pairs, usual)
    shared = 4 / (sum(len(own) > 1 for own in pairs) + 3)
    return _believed(total * shared, freedom * shared, usual)


def settled(gain: Speed, same: float) -> bool:
    """Whether more runs would hardly change what is said of two settings.

    The gain is surely worth having, or surely not, or as well known as is worth it.
    """
    beyond = _surely(gain).low > 1 + same or gain.high < 1 + same
    return beyond or gain.half <= RESOLVED * same


def shown(gain: Speed) -> Speed:
    """A gain with the interval to show: the one that decided, where that was close.

    What just passes was likely lucky, so that it looks larger than it is; and what just
    does not would look sure.
    """
    differs = gain.low > 1 or gain.high < 1
    close = abs(math.log(gain.value)) < 2 * LOOKS * gain.half
    return _surely(gain) if differs and close else gain


def _surely(gain: Speed) -> Speed:
    """A gain with the interval of one that was looked at after every run."""
    return _around(gain.value, LOOKS * gain.half)


def verdict(gain: Speed, same: float) -> str:
    """``faster``, ``same``, ``slower``, ``inconclusive``: where its interval lies.

    ``faster`` and ``slower`` exclude no difference, also of one that was looked at
    after every run; ``same`` is a difference of at most that share, and not known to be
    anything else.
    """
    small, sure = abs(gain.value - 1) <= same, _surely(gain)
    if sure.low > 1 and not small:
        return "faster"
    if sure.high < 1 and not small:
        return "slower"
    return "same" if small else "inconclusive"


def communication_error(one: Record, other: Record) -> float:
    """Return how far predicted communication may put the ratio of two speeds off (log).

    Both use one network. If the trials tell their times on slower and faster ones, the
    worst of these for both counts, else each may be wrong by itself. 0 if all was
    measured.
    """
    steps, added = zip(*map(_step_times, (one, other)), strict=True)
    if not any(added) or not all(steps):
        return 0.0
    expected = _step_ratio(steps, added)
    mine, theirs = (_bounds(r, ms) for r, ms in zip((one, other), added, strict=True))
    alike = len(mine) == len(theirs) > 0
    apart = itertools.product((0.0, 2 * added[0]), (0.0, 2 * added[1]))
    pairs = zip(mine, theirs, strict=True) if alike else apart
    return max(abs(math.log(_step_ratio(steps, pair) / expected)) for pair in pairs)


def _step_times(record: Record) -> tuple[float, float]:
    """Return what a step took and what collectives add to it [ms]."""
    measured = statistics.median(record.step_ms) if record.step_ms else 0.0
    return measured, record.communication_ms


def _bounds(record: Record, added: float) -> list[float]:
    """Return what collectives may add as well [ms], in one order for all trials."""
    ends = record.communication_ends_ms
    return [*ends, added] if ends and all(ms >= 0 for ms in ends) else []


def _step_ratio(steps: tuple[float, ...], added: tuple[float, ...]) -> float:
    return (steps[0] + added[0]) / (steps[1] + added[1])
