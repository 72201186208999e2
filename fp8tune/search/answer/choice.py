"""Choose the best setting from the trials, and decide how certain that is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fp8tune.search.history import History
from fp8tune.search.statistics import Speed, settled, verdict
from fp8tune.trials.space import Point

MOST = 14
"""Pairs of runs of the baseline and the best candidate, until one is clearly faster."""
PAIRS = 2
"""Fewest pairs of interleaved runs by which two settings are compared."""
WIDEST = 10.0
"""Ratio of an interval's ends from which nothing is concluded from it."""
PRECISIONS = ("fp8", "bf16")


class Chosen(NamedTuple):
    """The chosen setting and the verdict on it, compared with the baseline.

    ``point`` is ``None`` if no setting that may be chosen ran. ``runner_up`` is the
    second best. ``searched_all`` says whether every promising setting was tried.
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


def choose(history: History) -> Chosen:
    """Choose the best setting, or the baseline if none is clearly better."""
    baseline, whole = history.baseline, _searched_all(history)
    point, likely = _best(history)
    if point == baseline:
        known = whole and _none_is_better(history)
    else:
        learned = history.stability.get(point) if point else None
        known = not learned.may_diverge if learned else not history.is_unproven(point)
    verdict = likely if known else "inconclusive"
    return Chosen(point, verdict, _runner_up(history, point), whole)


def is_enough(gain: Speed, pairs: int) -> bool:
    """Return whether a comparison has enough pairs of runs for a verdict."""
    return pairs >= PAIRS and gain.high < WIDEST * gain.low


def left_open(history: History, one: Point | None, other: Point | None) -> float:
    """Return the error of predicted communication if it decides the verdict, else 0."""
    found, known = history.measured_gap(one, other), history.gap(one, other)
    same = history.noise.same
    if not found or not known or verdict(found, same) == verdict(known, same):
        return 0.0
    return math.expm1(history.communication_error(one, other))


def compare_fp8(history: History, chosen: Point | None) -> Fp8Comparison:
    """Compare FP8 with bf16 at the chosen setting, else at the baseline.

    The chosen setting is compared with the fastest bf16 setting that ran, if its own
    bf16 version ran too. The baseline is compared with its own bf16 version, because
    neither is tuned. Both must have run in the confirmation, or both before it, because
    the GPU may have become slower in between.
    """
    space, baseline = history.space, history.baseline
    points = [chosen, baseline] if chosen else [baseline]
    versions = [[space.with_precision(p, name) for name in PRECISIONS] for p in points]
    in_bf16 = [bf16 for _, bf16 in versions if bf16]
    for place, (own, same) in enumerate(versions):
        for speeds in (history.confirmed_speeds, history.searched_speeds):
            fp8 = own
            if points[place] == same:  # the best of its recipes
                recipes = [p for p in speeds if same and space.in_bf16(p) == same]
                fp8 = _fastest(history, recipes, speeds) or own
            if fp8 is None or fp8 not in speeds or same not in speeds:
                continue
            every = [p for p in speeds if space.value(p, "precision") == "bf16"]
            of_chosen = place == 0 and chosen is not None
            bf16 = _fastest(history, every if of_chosen else [same], speeds)
            assert bf16 is not None
            _, at_that_time = history.speeds(fp8, bf16)
            gain = history.gap(fp8, bf16)
            return Fp8Comparison(at_that_time, gain, Fp8Pair(fp8, bf16))
    known = {p: found for p in in_bf16 if (found := history.speed(p))}
    alone = _fastest(history, list(known), known)
    return Fp8Comparison(known[alone] if alone else None)


def _fastest(
    history: History, points: Sequence[Point], speeds: Mapping[Point, Speed]
) -> Point | None:
    """Return the fastest setting, preferably one with enough memory."""
    fit = [point for point in points if not history.runs(point).is_unfit]
    return max(fit or points, key=lambda point: speeds[point].value, default=None)


def _best(history: History) -> tuple[Point | None, str]:
    """Return the setting to choose, and the verdict by the runs alone."""
    best, baseline = history.ranked, history.baseline
    if not best:
        return None, "inconclusive"
    if best[0] == baseline:
        return baseline, "same"
    gain = history.gap(best[0], baseline)
    if gain is None:
        return best[0], "inconclusive"
    likely = verdict(gain, history.noise.same)
    unfit = history.is_rejected(baseline) or history.runs(baseline).is_unfit
    if likely in ("same", "slower") and not unfit:
        return baseline, "same"
    known = is_enough(gain, len(history.pairs(best[0], baseline)))
    return best[0], likely if known else "inconclusive"


def _none_is_better(history: History) -> bool:
    """Return whether the best other setting is clearly not faster."""
    other, baseline = next(iter(history.others), None), history.baseline
    gain, same = history.measured_gap(other, baseline), history.noise.same
    if other is None or gain is None or left_open(history, other, baseline):
        return other is None
    if verdict(gain, same) == "slower":
        return True
    pairs = len(history.every_pair(other, baseline))
    return pairs >= PAIRS and (settled(gain, same) or pairs >= MOST)


def _runner_up(history: History, chosen: Point | None) -> Point | None:
    """Return the fastest of the other settings, one that ran beside it if possible.

    If only the baseline did, a setting that was faster in the search comes before it.
    """
    gaps = {p: own.value for p in history.ranked if (own := history.gap(p, chosen))}
    fit = {p: not history.runs(p).is_unfit for p in gaps}
    sure = [point for point in gaps if history.pairs(point, chosen)]
    for points in (sure, gaps):
        best = max(points, key=lambda p: (fit[p], gaps[p]), default=None)
        if best not in (None, history.baseline):
            break
    return best


def _searched_all(history: History) -> bool:
    """Return whether no promising setting is left, and no trial was stopped early.

    A batch as large as one that did not fit, or that nearly filled the GPU, needs no
    trial. A setting that failed once for a reason that may pass needs another trial.
    """
    space, tried, limits = history.space, set[Point](), dict[Point, float]()
    for point, own in history.settings.items():
        if all(trial.was_given_up for trial in own):
            return False
        if len(own) > 1 or not own[0].record.meaning.retry_once:
            tried.add(point)
        batch, cell = space.batch(point), space.cell(point)
        ran_out = any(trial.record.outcome == "oom" for trial in own)
        if batch and (ran_out or own.memory_shortage):
            limits[cell] = min(batch, limits.get(cell, batch))
    if any(trial.searched_all is True for trial in history.trials):
        return True
    return all(
        point in tried or space.batch(point) >= limits.get(space.cell(point), math.inf)
        for point in space.points(history.baseline)
        if point != history.baseline
    )
