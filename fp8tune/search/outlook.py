"""What the trials so far promise of those to come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fp8tune.search.capacity import Memory
from fp8tune.search.normal import Array, Mask, Places, improvement
from fp8tune.search.prior import Expected
from fp8tune.search.record import Record, tight
from fp8tune.search.space import Point, Space
from fp8tune.search.surrogate import Features, Speed, features
from fp8tune.search.works import works

DRAWS = 96
DRAWN = 160
"""Points that are drawn together, those of the largest expected gain."""

Runs = Sequence[tuple[Point, Record]]


class Known(NamedTuple):
    """What a search knows: its space and start, what is expected, what was tried."""

    space: Space
    given: Point
    expected: Mapping[Point, Expected]
    runs: Runs
    memory: Memory


class Outlook(NamedTuple):
    """The points that are left.

    ``fits`` is the chance that each fits, ``vague`` how unsure its memory is (log),
    ``gain`` the log of tokens/s by which it is
    expected to better the best. ``drawn`` are the points of the largest gains, and
    ``draws`` has a row of their gains for each sample of what is possible.
    """

    points: Sequence[Point]
    fits: Array
    vague: Array
    gain: Array
    drawn: Places
    draws: Array

    def best(self, which: Mask) -> int:
        """The point of the largest gain among some."""
        return int(np.argmax(np.where(which, self.gain, -1.0)))

    def total(self, which: Mask) -> float:
        """The expected gain of trying all of some points."""
        chosen = self.draws[:, which[self.drawn]]
        return float(chosen.max(axis=1).mean()) if chosen.size else 0.0


def outlook(known: Known, points: Sequence[Point]) -> Outlook:
    """What to expect of points that were not tried; something must have run."""
    seen, logs = _measured(known.runs)
    mapped = known.expected
    ran = [point for point, record in known.runs if record.ok]
    told = all(p in mapped and mapped[p].tokens_per_second > 0 for p in (*ran, *points))
    learned, every = _with_bounds(known, seen, logs, told)
    speed = Speed(known.space, _features(known, learned, told), every, told)
    fit = known.memory.fit(points)
    chance = fit.probability * works(known.space, points, known.runs)
    best = _best(known, speed, seen, logs, told)
    belief = speed.predict(_features(known, points, told))
    gain = improvement(belief.mean, belief.deviation, best) * chance
    gain = gain.round(9)  # or rounding errors would choose among equals
    drawn = np.argsort(-gain, kind="stable")[:DRAWN]
    top = _features(known, [points[i] for i in drawn], told)
    seed = len(known.runs)
    draws = speed.draws(top, DRAWS, seed) - best
    lucky = np.random.default_rng(seed).random(draws.shape) < chance[drawn]
    draws = np.where(lucky, draws, 0.0).clip(0.0)
    return Outlook(points, fit.probability, fit.deviation, gain, drawn, draws)


def _with_bounds(
    known: Known, seen: Sequence[Point], logs: Array, told: bool
) -> tuple[Sequence[Point], Array]:
    """What was measured, and the points whose trials ended early.

    Such a trial says between which bounds its setting is: it is taken to be there as
    the others have it, or at the nearer bound.
    """
    cut = {p: r for p, r in known.runs if r.ok and not r.measured and p not in seen}
    if not cut:
        return seen, logs
    ends = [(max(r.least, 1e-9), r.tokens_per_second) for r in cut.values()]
    low, high = np.log(np.array(ends)).T
    speed = Speed(known.space, _features(known, seen, told), logs, told)
    likely = speed.predict(_features(known, list(cut), told)).mean
    return [*seen, *cut], np.concatenate([logs, np.clip(likely, low, high)])


def _best(
    known: Known, speed: Speed, seen: Sequence[Point], logs: Array, told: bool
) -> float:
    """Log of what the best setting that may be chosen does; low where none ran."""
    full = {point for point, record in known.runs if tight(record)} - {known.given}
    ours = [p for p in seen if known.space.allows(p, known.given) and p not in full]
    if not ours:
        return float(logs.min()) - 0.5
    return float(speed.predict(_features(known, ours, told)).mean.max())


def _measured(runs: Runs) -> tuple[list[Point], Array]:
    """The points that were measured, and the mean log of their tokens/s.

    Where none was, those of which only a bound is known.
    """
    logs: dict[Point, list[float]] = defaultdict(list)
    full = any(record.measured for _, record in runs)
    for point, record in runs:
        if record.measured or (record.ok and not full):
            logs[point].append(float(np.log(record.tokens_per_second)))
    return list(logs), np.array([np.mean(values) for values in logs.values()])


def _features(known: Known, points: Sequence[Point], told: bool) -> Features:
    expected = np.zeros(len(points))
    if told:
        expected = np.log([known.expected[p].tokens_per_second for p in points])
    used = known.memory.fit(points).used
    return features(known.space, points, used, expected)
