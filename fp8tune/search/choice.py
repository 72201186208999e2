"""Which setting the trials speak for, and how sure that is; nothing here is worded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fp8tune.search.budget import was_given_up
from fp8tune.search.retries import needs_no_trial
from fp8tune.search.runs import (
    MOST,
    Runs,
    by_point,
    confirmed,
    counted,
    during,
    failed,
    gap,
    is_unfit,
    lacks_memory,
    measured_gap,
    neighbours,
    open_between,
    speed_of,
    telling,
    together,
    usual,
)
from fp8tune.search.stability.findings import (
    loss_key,
    rejected_losses,
    stability_by_setting,
)
from fp8tune.search.statistics import Speed, settled, speed, verdict
from fp8tune.trials.space import Point, Space
from fp8tune.trials.trial import Trial, timed

PAIRS = 2
"""Fewest pairs of interleaved runs by which two settings are compared."""
WIDEST = 10.0
"""Ratio of an interval's ends from which nothing is concluded from it."""
BAD = 0.9
"""What one bad run may show of a setting's speed: of 40 runs of the rehearsal the worst
reached 0.906 of their median (benchmarks/results/runs_cpu.jsonl). No published table
repeats runs on H100 or H200; the same is taken for them."""
PRECISIONS = ("fp8", "bf16")


class Chosen(NamedTuple):
    """The chosen setting and the verdict on it, compared with the baseline.

    ``point`` is ``None`` where no setting that may be chosen ran. ``runner_up`` is the
    best of the others. ``searched_all`` says whether every promising setting was tried.
    """

    point: Point | None
    verdict: str
    runner_up: Point | None
    searched_all: bool


class Fp8Pair(NamedTuple):
    """An FP8 setting and the bf16 setting that it is compared with."""

    fp8: Point
    bf16: Point


class Fp8Comparison(NamedTuple):
    """The speed of bf16 at its best, FP8's gain over it, and the settings compared."""

    bf16: Speed | None = None
    gain: Speed | None = None
    pair: Fp8Pair | None = None


def choose(space: Space, baseline: Point, trials: Sequence[Trial]) -> Chosen:
    """Choose the best setting, or the baseline where nothing is surely better."""
    runs = by_point(space, trials)
    best = ranked(space, baseline, trials)
    whole = _searched_all(space, baseline, trials)
    diverges = loss_key(space, baseline) in rejected_losses(space, trials)
    point, likely = _best(runs, best, baseline, diverges=diverges)
    if point == baseline:
        known = whole and _none_is_better(runs, best, baseline)
    else:
        learned = stability_by_setting(space, trials).get(point) if point else None
        known = learned is None or not learned.may_diverge
    return Chosen(
        point,
        likely if known else "inconclusive",
        _runner_up(runs, best, point),
        whole,
    )


def pairs_of(runs: Runs, one: Point | None, other: Point | None) -> int:
    """Count the pairs of interleaved runs that compare two settings."""
    return len(counted(runs, one, other)) if one and other and one != other else 0


def is_enough(gain: Speed, pairs: int) -> bool:
    """Tell whether a comparison may be called more than inconclusive."""
    return pairs >= PAIRS and gain.high < WIDEST * gain.low


def eligible(space: Space, baseline: Point, trials: Sequence[Trial]) -> list[Point]:
    """Return the settings with a trial that may be chosen by what is known of them."""
    runs, wrong = by_point(space, trials), rejected_losses(space, trials)
    return [
        point
        for point, own in runs.items()
        if not failed(own)
        and (point == baseline or not lacks_memory(own))
        and space.allows(point, baseline)
        and loss_key(space, point) not in wrong
    ]


def overlooked(
    space: Space, baseline: Point, found: Sequence[Trial], points: Sequence[Point]
) -> Point | None:
    """Return the best setting that ran once, if one bad run may explain its speed.

    ``None`` where it is one of ``points``, which are confirmed in any case.
    """
    runs = by_point(space, found)
    ran = {
        point: own[0]
        for point in eligible(space, baseline, found)
        if point != baseline
        and len(own := [t.record.tokens_per_second for t in runs[point] if t.record.ok])
        == 1
    }
    best, mine = max(ran, key=lambda p: ran[p], default=None), speed_of(runs, baseline)
    if best is None or mine is None or best in points:
        return None
    return best if ran[best] >= BAD * mine.value else None


def ranked(space: Space, baseline: Point, trials: Sequence[Trial]) -> list[Point]:
    """Return the measured settings that may be chosen, the best first.

    Once a setting other than the baseline was confirmed, the confirmed ones come first:
    the others ran at another time, and the best of many looks better than it is. The
    baseline comes last where it leaves too little memory.
    """
    runs = by_point(space, trials)
    values: dict[Point, tuple[bool, bool, float]] = {}
    for point in eligible(space, baseline, trials):
        own = runs[point]
        if found := speed(telling(own)):
            values[point] = not is_unfit(own), bool(confirmed(own)), found.value
    if not any(fit and sure for p, (fit, sure, _) in values.items() if p != baseline):
        before = during(runs, confirmation=False)
        values = {
            point: (fit, False, before[point].value if point in before else value)
            for point, (fit, _, value) in values.items()
        }
    elif values.get(baseline, (False, False))[1]:
        gains = {point: gap(runs, point, baseline) for point in values}
        values |= {
            point: (values[point][0], True, found.value * values[baseline][2])
            for point, found in gains.items()
            if found and values[point][1]
        }
    return sorted(values, key=lambda point: values[point], reverse=True)


def left_open(runs: Runs, one: Point | None, other: Point | None) -> float:
    """Return the relative error of predicted communication where it decides; else 0."""
    found, known = measured_gap(runs, one, other), gap(runs, one, other)
    same = usual(runs).same
    if not found or not known or verdict(found, same) == verdict(known, same):
        return 0.0
    return math.expm1(open_between(runs, one, other))


def compare_fp8(
    space: Space, runs: Runs, chosen: Point | None, baseline: Point
) -> Fp8Comparison:
    """Compare FP8 with bf16 at the chosen setting, else at the baseline.

    At the chosen setting bf16 has its own best batch. The baseline is compared with its
    own bf16 version, because neither is tuned. Both ran in the confirmation, or both
    before it: in between the GPU may have become slower.
    """
    points = [chosen, baseline] if chosen else [baseline]
    versions = [[space.with_precision(p, name) for name in PRECISIONS] for p in points]
    in_bf16 = [bf16 for _, bf16 in versions if bf16]
    for place, (fp8, same) in enumerate(versions):
        for stage in (True, False):
            speeds = during(runs, confirmation=stage)
            if fp8 is None or fp8 not in speeds or same not in speeds:
                continue
            of_chosen = place == 0 and chosen is not None
            mine = in_bf16 if place == 0 else [same]
            every = [p for p in speeds if space.value(p, "precision") == "bf16"]
            mine = every if stage and of_chosen else [p for p in mine if p in speeds]
            bf16 = _fastest(mine, speeds, runs)
            assert bf16 is not None
            _, at_that_time = together(runs, fp8, bf16)
            return Fp8Comparison(at_that_time, gap(runs, fp8, bf16), Fp8Pair(fp8, bf16))
    known = {p: found for p in in_bf16 if (found := speed_of(runs, p))}
    alone = _fastest(list(known), known, runs)
    return Fp8Comparison(known[alone] if alone else None)


def _fastest(
    points: Sequence[Point], speeds: Mapping[Point, Speed], runs: Runs
) -> Point | None:
    """Return the fastest setting, of those with enough memory if there are any."""
    fit = [point for point in points if not is_unfit(runs[point])]
    return max(fit or points, key=lambda point: speeds[point].value, default=None)


def _best(
    runs: Runs, best: list[Point], baseline: Point, *, diverges: bool
) -> tuple[Point | None, str]:
    """Return the setting to take, and the verdict on it by the runs alone."""
    if not best:
        return None, "inconclusive"
    if best[0] == baseline:
        return baseline, "same"
    unfit = diverges or is_unfit(runs[baseline])
    gain = gap(runs, best[0], baseline)
    if gain is None:
        never_ran = unfit and speed_of(runs, baseline) is None
        return best[0], "faster" if never_ran else "inconclusive"
    likely = verdict(gain, usual(runs).same)
    if likely in ("same", "slower") and not unfit:
        return baseline, "same"
    known = is_enough(gain, pairs_of(runs, best[0], baseline))
    return best[0], likely if known else "inconclusive"


def _none_is_better(runs: Runs, best: Sequence[Point], baseline: Point) -> bool:
    """Tell whether the best of the other settings is surely not faster."""
    other = next((point for point in best if point != baseline), None)
    gain, same = measured_gap(runs, other, baseline), usual(runs).same
    if other is None or gain is None or left_open(runs, other, baseline):
        return other is None
    if verdict(gain, same) == "slower":
        return True
    pairs = len(neighbours(runs, other, baseline))
    return pairs >= PAIRS and (settled(gain, same) or pairs >= MOST)


def _runner_up(runs: Runs, best: list[Point], chosen: Point | None) -> Point | None:
    """Return the fastest of the other settings, confirmed or not."""
    values = {p: own.value for p in best if (own := gap(runs, p, chosen))}
    fit = {p: not is_unfit(runs[p]) for p in values}
    return max(values, key=lambda p: (fit[p], values[p]), default=None)


def _searched_all(space: Space, baseline: Point, trials: Sequence[Trial]) -> bool:
    """Tell whether no promising setting is left, nor one whose trial was cut off."""
    runs = [(space.point(t.record.knobs), t) for t in timed(trials)]
    seen = [(p, t.record) for p, t in runs if not was_given_up(t)]
    if {p for p, t in runs if was_given_up(t)} - {point for point, _ in seen}:
        return False
    if any(trial.searched_all is True for trial in trials):
        return True
    shut = needs_no_trial(space, seen)
    return all(shut(point) for point in space.points(baseline) if point != baseline)
