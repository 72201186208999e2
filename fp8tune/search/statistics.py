"""Statistics of a few short runs: speeds, noise, gains and verdicts."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fp8tune.trials.record import Record

RUN_SPREAD = 0.0023
"""Relative standard deviation between fresh runs of one setting, before any repeat.

Within a run steps differ by 0.11 % (1 GPU) to 0.17 % (8 GPUs) in 53 published runs
(prime-rl benchmarks); between runs clocks and allocator dominate. On one quiet machine
runs differed by 0.08 to 0.23 % (42 runs on 8 H100s, modded-nanogpt f411b3d3); this is
the largest of those. Louder machines show it in their repeats, see
benchmarks/search/aa.py."""
PRIOR_RUNS = 4
"""How many degrees of freedom that figure is worth."""
SAME = 0.01
"""Relative difference up to which two settings are called the same."""
RESOLVED = 0.8
"""Half of a ratio's interval, relative to ``same``, below which more runs are not worth
their time. A setting compared with itself is then called the same at least 19 times in
20, and a gain of 2 % is found 9 times in 10 (benchmarks/search/aa.py)."""
LOOKS = 1.3
"""Factor for intervals that are checked after every run and stop the runs when they
show a gain: one of ten checks shows a gain by chance more often than a single check
(Pocock, "Group sequential methods", Biometrika 64, 1977: 2.56 deviations for 1.96)."""
NORMAL = 1.96
"""Standard deviations on each side that contain 95 % of a normal distribution."""
FAR = 3.0
"""Standard deviations from the median beyond which a value is an outlier. With the
median absolute deviation such a rule tolerates nearly half of the values being bad
(Hampel, "The breakdown points of the mean combined with some rejection rules",
Technometrics 27, 1985)."""
OF_MEDIAN = 1.4826
"""Standard deviation of normal values over their median absolute deviation."""
FEWEST = 6
"""Fewest values from which outliers are dropped: of fewer, the outlier may be right."""
WIDEST = 5.0
"""Largest half-width of an interval (log); beyond it nothing is known."""


class Noise(NamedTuple):
    """The prior for the noise between runs, and the difference that counts as none."""

    spread: float = RUN_SPREAD
    same: float = SAME


ON_GPU = Noise()
ON_CPU = Noise(0.048, 0.05)
"""By 40 runs of the rehearsal (benchmarks/results/runs_cpu.jsonl)."""


class Speed(NamedTuple):
    """Tokens/s over all GPUs, with a 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def half(self) -> float:
        """Half the width of the interval (log)."""
        return math.log(self.high / self.low) / 2


def spread(
    settings: Iterable[Sequence[Record]], prior: float = RUN_SPREAD, far: float = FAR
) -> float:
    """Return the relative standard deviation between runs, pooled over settings.

    It is widened like Student's t, so that ``NORMAL`` of it contain 95 % although it is
    estimated from few runs. The prior is ignored if more than one pair of runs shows
    more noise. Values beyond ``far`` deviations are clipped to that, so that one bad
    run has little effect.
    """
    runs = [
        [math.log(r.tokens_per_second) for r in records if r.ok] for records in settings
    ]
    return _with_prior(*_squares(runs, prior, far), prior)


def _squares(
    groups: Iterable[Sequence[float]], prior: float, far: float = FAR
) -> tuple[float, int]:
    """Return the sum of squares around each group's middle, and its degrees of freedom.

    Values further off than ``far`` standard deviations, by the prior or by the median
    absolute deviation, are clipped.
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
    most = far * max(prior, own)
    return sum(min(each, most) ** 2 for each in apart), freedom


def in_line(values: Sequence[float], deviation: float) -> list[bool]:
    """Return which values count: no outliers, if there are ``FEWEST`` values or more.

    An outlier is more than ``FAR`` deviations from the median. The deviation is the
    larger of ``deviation`` and the values' own, by their median absolute deviation.
    """
    middle = statistics.median(values)
    apart = [abs(value - middle) for value in values]
    most = FAR * max(deviation, OF_MEDIAN * statistics.median(apart))
    return [len(values) < FEWEST or each <= most for each in apart]


def _with_prior(total: float, freedom: float, prior: float) -> float:
    """Return a standard deviation from sum of squares and prior, widened."""
    believed = _widened(total + PRIOR_RUNS * prior**2, freedom + PRIOR_RUNS)
    return max(believed, _widened(total, freedom)) if freedom > 1 else believed


def _widened(total: float, freedom: float) -> float:
    """Return a standard deviation, widened for its few degrees of freedom."""
    return math.sqrt(total / freedom) * student(freedom) / NORMAL


def student(freedom: float) -> float:
    """Return Student's t for a 95 % interval, within 1 % from 3 degrees of freedom.

    Computed by its expansion around the normal value (Cornish and Fisher, 1938); 3 %
    too small for two degrees.
    """
    z = NORMAL
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def speed(records: Sequence[Record], deviation: float = RUN_SPREAD) -> Speed | None:
    """Return the speed of one setting from its runs, whose noise is ``deviation``.

    The noise is larger if the runs or their steps differ more. Outliers do not count.
    """
    values = [record.tokens_per_second for record in records if record.ok]
    if not values:
        return None
    kept = in_line([math.log(value) for value in values], deviation)
    counted = list(itertools.compress(values, kept))
    differ = max(deviation, steps_spread(records), _apart(map(math.log, counted)))
    return _around(middle_speed(counted), NORMAL * differ / math.sqrt(len(counted)))


def _apart(values: Iterable[float]) -> float:
    """Return the standard deviation of some values; 0 for a single one."""
    known = list(values)
    return statistics.stdev(known) if len(known) > 1 else 0.0


def steps_spread(records: Iterable[Record]) -> float:
    """Return the noise of runs (relative) that their own step times show.

    It is read from ``median_step_ms_95``, the interval that real trials report; 0 if no
    run has one.
    """
    widths = [
        record.relative_error
        for record in records
        if record.ok and record.relative_error
    ]
    return math.sqrt(statistics.fmean(w**2 for w in widths)) / NORMAL if widths else 0.0


def _around(value: float, half: float) -> Speed:
    """Return a value with an interval that is symmetric in ratio."""
    by = math.exp(min(half, WIDEST))
    return Speed(value, value / by, value * by)


def middle_of(values: Sequence[float]) -> float:
    """Return the Hodges-Lehmann estimate: the median of the means of all pairs.

    Each value also pairs with itself. It is nearly as precise as the mean (the median
    of a few runs is a fifth less precise), and one bad run hardly moves it.
    """
    pairs = itertools.combinations_with_replacement(values, 2)
    return statistics.median((one + other) / 2 for one, other in pairs)


def middle_speed(values: Sequence[float]) -> float:
    """Return the middle of some speeds, as ``middle_of`` with geometric means.

    So the speeds of two settings have the ratio that ``paired`` finds.
    """
    pairs = itertools.combinations_with_replacement(values, 2)
    return statistics.median(math.sqrt(one * other) for one, other in pairs)


def ratio(one: Speed, other: Speed) -> Speed:
    """Return the ratio of two speeds that were measured independently."""
    return _around(one.value / other.value, math.hypot(one.half, other.half))


def wider(gain: Speed, half: float) -> Speed:
    """Widen a ratio's interval by another independent error (log)."""
    return _around(gain.value, math.hypot(gain.half, half)) if half else gain


def paired(ratios: Sequence[float], deviation: float) -> Speed:
    """Return the ratio of two settings from the ratios of neighbouring runs.

    ``deviation`` is the noise between runs of a setting; the pairs may show more.
    """
    logs = [math.log(each) for each in ratios]
    differ = max(deviation, _apart(logs) / math.sqrt(2))
    return _around(
        math.exp(middle_of(logs)), NORMAL * differ * math.sqrt(2 / len(logs))
    )


def paired_spread(
    settings: Iterable[Sequence[float]], prior: float = RUN_SPREAD
) -> float:
    """Return the noise of runs from ratios of several settings to one common setting.

    As in ``spread``. The common setting's runs are in all ratios, so ``k`` settings
    count as ``4 k / (k + 3)`` independent ones (Satterthwaite's approximation, 1946).
    """
    pairs = [[math.log(each) / math.sqrt(2) for each in own] for own in settings]
    total, freedom = _squares(pairs, prior)
    shared = 4 / (sum(len(own) > 1 for own in pairs) + 3)
    return _with_prior(total * shared, freedom * shared, prior)


def settled(gain: Speed, same: float) -> bool:
    """Return whether more runs would hardly change the comparison of two settings.

    The gain is clearly above ``same``, or clearly not, or known precisely enough.
    """
    beyond = _surely(gain).low > 1 + same or gain.high < 1 + same
    return beyond or gain.half <= RESOLVED * same


def shown(gain: Speed) -> Speed:
    """Return a gain with the interval to show: the one that decided, if that was close.

    A gain that barely passes is probably overestimated, and one that barely fails would
    look certain with the narrower interval.
    """
    differs = gain.low > 1 or gain.high < 1
    close = abs(math.log(gain.value)) < 2 * LOOKS * gain.half
    return _surely(gain) if differs and close else gain


def _surely(gain: Speed) -> Speed:
    """Widen a gain's interval because it was checked after every run."""
    return _around(gain.value, LOOKS * gain.half)


def verdict(gain: Speed, same: float) -> str:
    """Return ``faster``, ``same``, ``slower`` or ``inconclusive`` for a gain.

    For ``faster`` and ``slower`` the interval, widened for checks after every run,
    excludes 1 and the difference exceeds ``same``. Otherwise a difference of at most
    ``same`` is ``same``.
    """
    small, sure = abs(gain.value - 1) <= same, _surely(gain)
    if sure.low > 1 and not small:
        return "faster"
    if sure.high < 1 and not small:
        return "slower"
    return "same" if small else "inconclusive"


def communication_error(one: Record, other: Record) -> float:
    """Return the error of a ratio of speeds due to predicted communication (log).

    Both settings use one network. If the trials give times for a slower and a faster
    network, the worse of these counts for both; else the two errors are independent. 0
    if everything was measured.
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
    """Return the measured time of a step, and the communication added to it [ms]."""
    measured = statistics.median(record.step_ms) if record.step_ms else 0.0
    return measured, record.communication_ms


def _bounds(record: Record, added: float) -> list[float]:
    """Return possible times of communication [ms], in one order for all trials."""
    ends = record.communication_ends_ms
    return [*ends, added] if ends and all(ms >= 0 for ms in ends) else []


def _step_ratio(steps: tuple[float, ...], added: tuple[float, ...]) -> float:
    return (steps[0] + added[0]) / (steps[1] + added[1])
