"""The acquisition: how much the candidates are expected to gain on the best so far."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fp8tune.search.sampler.candidates import Array, CandidateSpace, Mask, Point
from fp8tune.search.sampler.memory import Expected, MemoryModel, normal_cdf
from fp8tune.search.sampler.past import PASSING, PastTrials, Run
from fp8tune.search.sampler.speed import Features, SpeedModel, features
from fp8tune.search.sampler.transfer import Earlier

FEASIBLE = 0.4
"""Chance from which a setting is tried: to fit in memory, and to run otherwise."""
LIKELY, BELIEVED = 0.8, 0.97
"""Prior probability that a similar study tells about this one, and the probability from
which its failures and its coverage count too."""
FARTHER = 0.25
"""How much less a failure says of a setting per knob in which that differs."""


@dataclass(frozen=True)
class Known:
    """What is known of a search: its history, its memory model and its estimates."""

    past: PastTrials
    memory: MemoryModel
    expected: Mapping[Point, Expected]
    earlier: Earlier

    @cached_property
    def has_estimate(self) -> bool:
        """Whether the tokens/s of every setting were estimated."""
        return all(one.tokens_per_second > 0 for one in self.expected.values())

    @property
    def has_run(self) -> bool:
        """Whether a trial succeeded."""
        return any(run.ok for run in self.past.runs)

    def chance(self, points: Sequence[Point]) -> Array:
        """Return the chance that points run: that they fit, and nothing else fails."""
        space, runs = self.past.space, self.past.runs
        return self.memory.fit(points).probability * chance_to_run(space, points, runs)

    def features(self, points: Sequence[Point]) -> Features:
        """Return what the speed model sees of points."""
        expected = np.zeros(len(points))
        if self.has_estimate:
            expected = np.log([self.expected[p].tokens_per_second for p in points])
        share = self.memory.fit(points).share
        return features(self.past.space, points, share, expected)

    def untried(self) -> list[Point]:
        """Return the candidates that a trial may tell something about.

        Not those that were tried, unless the failure may pass; not a batch as large as
        one that did not fit in the same cell; nor what will fail for another reason.
        """
        space, runs = self.past.space, self.past.runs
        tried: dict[Point, list[Run]] = defaultdict(list)
        limits: dict[Point, float] = defaultdict(lambda: math.inf)
        for run in runs:
            tried[run.point].append(run)
            batch, cell = space.batch(run.point), space.cell(run.point)
            if batch and (run.outcome == "oom" or (run.ok and not run.fits)):
                limits[cell] = min(limits[cell], batch)

        def remains(point: Point) -> bool:
            own = tried[point]
            retry = len(own) == 1 and own[0].outcome in PASSING
            if (own and not retry) or point in self.past.running:
                return False
            return space.batch(point) < limits[space.cell(point)]

        points = list(filter(remains, space.candidates))
        chances = chance_to_run(space, points, runs)
        return [p for p, c in zip(points, chances, strict=True) if c >= FEASIBLE]


class Outlook(NamedTuple):
    """Candidates with what is expected of them.

    ``fits`` is the chance that each fits in memory, ``gain`` its expected improvement
    (log of tokens/s) times the chance that it runs. ``agreement`` is the probability
    that a similar study tells about this one, 0 without one.
    """

    candidates: Sequence[Point]
    fits: Array
    gain: Array
    agreement: float

    @property
    def feasible(self) -> Mask:
        """Which candidates are worth the risk of running out of memory."""
        return self.fits >= FEASIBLE

    def best(self, among: Mask) -> int:
        """Return the place of the candidate with the largest gain among some."""
        return int(np.argmax(np.where(among, self.gain, -1.0)))


def outlook(known: Known, candidates: Sequence[Point]) -> Outlook:
    """Predict untried candidates; at least one run must have succeeded."""
    runs, space = known.past.runs, known.past.space
    logs: dict[Point, list[float]] = defaultdict(list)
    for run in runs:
        if run.ok:
            logs[run.point].append(math.log(run.tokens_per_second))
    seen, means = list(logs), np.array([np.mean(own) for own in logs.values()])
    models = _models(known, seen, means)
    agreement = models[0][1] if len(models) > 1 else 0.0
    failures = known.earlier.failures if agreement > BELIEVED else []
    fits = known.memory.fit(candidates).probability
    described, gain = known.features(candidates), np.zeros(len(candidates))
    for model, probability in models:
        best = _best(known, model, seen, means)
        gain += probability * _improvement(*model.predict(described), best)
    gain *= fits * chance_to_run(space, candidates, [*runs, *failures])
    gain = gain.round(9)  # or rounding errors would choose among equals
    return Outlook(candidates, fits, gain, agreement)


def _models(
    known: Known, seen: Sequence[Point], logs: Array
) -> list[tuple[SpeedModel, float]]:
    """Return the speed models with their probabilities.

    One learns from this study alone, one from a similar study too. Each is as probable
    as it makes this study's trials, so a misleading study soon stops counting.
    """
    space, has_estimate = known.past.space, known.has_estimate
    ours = known.features(seen)
    alone = SpeedModel(space, ours, logs, has_estimate=has_estimate)
    theirs, other_logs = known.earlier.measured(has_estimate=has_estimate)
    if not len(other_logs):
        return [(alone, 1.0)]
    other = SpeedModel(space, theirs, other_logs, has_estimate=has_estimate)
    both = Features(*map(np.concatenate, zip(ours, theirs, strict=True)))
    every = np.append(logs, other_logs)
    joined = SpeedModel(space, both, every, has_estimate=has_estimate)
    odds = joined.evidence - other.evidence - alone.evidence
    odds = max(-50.0, min(50.0, odds))
    probability = 1 / (1 + (1 - LIKELY) / LIKELY * math.exp(-odds))
    return [(joined, probability), (alone, 1 - probability)]


def _best(known: Known, model: SpeedModel, seen: Sequence[Point], logs: Array) -> float:
    """Return log tokens/s of the best setting that may be chosen; low if none may."""
    rejected = {run.point for run in known.past.runs if not run.may_be_chosen}
    allowed = set(known.past.space.candidates) - rejected
    points = [point for point in seen if point in allowed]
    if not points:
        return float(logs.min()) - 0.5
    return float(model.predict(known.features(points))[0].max())


def _improvement(mean: Array, deviation: Array, best: float) -> Array:
    """Return the expected improvement of normal values on ``best``."""
    z = (mean - best) / deviation
    density = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    return np.asarray(deviation * (z * normal_cdf(z) + density))


def chance_to_run(
    space: CandidateSpace, points: Sequence[Point], runs: Sequence[Run]
) -> Array:
    """Return the chance that nothing but memory stops each point.

    Failures and successes count by how near they are, in knobs other than the batch.
    Those that may pass do not count.
    """
    ran, failed = np.zeros(len(points)), np.zeros(len(points))
    width = len(space.cell(space.candidates[0]))
    cells = np.array(list(map(space.cell, points)), int).reshape(len(points), width)
    for run in runs:
        near = FARTHER ** (cells != np.array(space.cell(run.point), int)).sum(axis=1)
        if run.ok:
            ran += near
        elif run.outcome not in ("oom", *PASSING):
            failed += near
    return np.asarray((ran + 2) / (ran + 2 + 3 * failed))
