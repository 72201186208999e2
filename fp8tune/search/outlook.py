"""What the trials so far promise of those to come."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fp8tune.search.capacity import Memory
from fp8tune.search.earlier import NOTHING, Earlier
from fp8tune.search.normal import Array, Mask, Places, improvement
from fp8tune.search.prior import Expected
from fp8tune.search.surrogate import Belief, Features, Speed, features, together
from fp8tune.search.works import works
from fp8tune.trials.record import Record
from fp8tune.trials.space import Point, Space

DRAWS = 96
DRAWN = 160
"""Points that are drawn together, those of the largest expected gain."""

LIKELY, SHOWN = 0.8, 0.97
"""How probable it is beforehand that a study on a near config tells of this one, and
how probable it has to become for more than its speeds to count."""

Runs = Sequence[tuple[Point, Record]]


class Known(NamedTuple):
    """What a search knows: its space and start, what is expected, what was tried.

    ``earlier`` is what was tried on a near config.
    """

    space: Space
    given: Point
    expected: Mapping[Point, Expected]
    runs: Runs
    memory: Memory
    earlier: Earlier = NOTHING


class Outlook(NamedTuple):
    """The points that are left.

    ``fits`` is the chance that each fits, ``vague`` how unsure its memory is (log),
    ``gain`` the log of tokens/s by which it is
    expected to better the best. ``drawn`` are the points of the largest gains, and
    ``draws`` has a row of their gains for each sample of what is possible, whose
    probability is in ``shares``. ``agreed`` is how probable it is that an earlier study
    tells of this one; 0 without one.
    """

    points: Sequence[Point]
    fits: Array
    vague: Array
    gain: Array
    drawn: Places
    draws: Array
    shares: Array
    agreed: float = 0.0

    def best(self, which: Mask) -> int:
        """The point of the largest gain among some."""
        return int(np.argmax(np.where(which, self.gain, -1.0)))

    def total(self, which: Mask) -> float:
        """The expected gain of trying all of some points."""
        chosen = self.draws[:, which[self.drawn]]
        return float(self.shares @ chosen.max(axis=1)) if chosen.size else 0.0


def outlook(known: Known, points: Sequence[Point]) -> Outlook:
    """What to expect of points that were not tried; something must have run."""
    seen, logs = _measured(known.runs)
    mapped = known.expected
    ran = [point for point, record in known.runs if record.ok]
    told = all(p in mapped and mapped[p].tokens_per_second > 0 for p in (*ran, *points))
    models = _models(known, seen, logs, told)
    fit = known.memory.fit(points)
    agreed = models[0].share if len(models) > 1 else 0.0
    tried = [*known.runs, *(known.earlier.failures if agreed > SHOWN else ())]
    chance = fit.probability * works(known.space, points, tried)
    bests = [_best(known, model.speed, seen, logs, told) for model in models]
    every = _features(known, points, told)
    gain = sum(
        model.share * _gain(model.speed.predict(every), best)
        for model, best in zip(models, bests, strict=True)
    )
    gain = (gain * chance).round(9)  # or rounding errors would choose among equals
    drawn = np.argsort(-gain, kind="stable")[:DRAWN]
    top = _features(known, [points[i] for i in drawn], told)
    seed = len(known.runs)
    draws = np.concatenate(
        [
            model.speed.draws(top, DRAWS, seed) - best
            for model, best in zip(models, bests, strict=True)
        ]
    )
    lucky = np.random.default_rng(seed).random(draws.shape) < chance[drawn]
    draws = np.where(lucky, draws, 0.0).clip(0.0)
    shares = np.repeat([model.share / DRAWS for model in models], DRAWS)
    return Outlook(
        points, fit.probability, fit.deviation, gain, drawn, draws, shares, agreed
    )


class Model(NamedTuple):
    """A model of speed, and how probable it is."""

    speed: Speed
    share: float


def _models(
    known: Known, seen: Sequence[Point], logs: Array, told: bool
) -> list[Model]:
    """The model of this study's trials alone, and one with an earlier study's.

    As probable as they make this study's trials: where the earlier study misleads, it
    is soon left out.
    """
    ours = _features(known, seen, told)
    alone = Speed(known.space, ours, logs, told)
    theirs, others = known.earlier.measured(known.space, told)
    if not len(others):
        return [Model(alone, 1.0)]
    other = Speed(known.space, theirs, others, told)
    both = together(ours, theirs)
    joined = Speed(known.space, both, np.append(logs, others), told)
    odds = joined.evidence - other.evidence - alone.evidence
    share = 1 / (1 + (1 - LIKELY) / LIKELY * math.exp(-max(-50.0, min(50.0, odds))))
    return [Model(joined, share), Model(alone, 1 - share)]


def _gain(belief: Belief, best: float) -> Array:
    return improvement(belief.mean, belief.deviation, best)


def _best(
    known: Known, speed: Speed, seen: Sequence[Point], logs: Array, told: bool
) -> float:
    """Log of what the best setting that may be chosen does; low where none ran."""
    full = {point for point, record in known.runs if record.memory_shortage}
    ours = [p for p in seen if known.space.allows(p, known.given) and p not in full]
    if not ours:
        return float(logs.min()) - 0.5
    return float(speed.predict(_features(known, ours, told)).mean.max())


def _measured(runs: Runs) -> tuple[list[Point], Array]:
    """The points that were measured, and the mean log of their tokens/s."""
    logs: dict[Point, list[float]] = defaultdict(list)
    for point, record in runs:
        if record.ok:
            logs[point].append(math.log(record.tokens_per_second))
    return list(logs), np.array([np.mean(values) for values in logs.values()])


def _features(known: Known, points: Sequence[Point], told: bool) -> Features:
    expected = np.zeros(len(points))
    if told:
        expected = np.log([known.expected[p].tokens_per_second for p in points])
    used = known.memory.fit(points).used
    return features(known.space, points, used, expected)
