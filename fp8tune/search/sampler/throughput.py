"""A sampler for training throughput: expected improvement among feasible settings."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from optuna import Study

from fp8tune.search.sampler.base import (
    FEASIBLE,
    Known,
    Proposal,
    ProposingSampler,
    chance_to_run,
)
from fp8tune.search.sampler.candidates import Array, Mask, Point
from fp8tune.search.sampler.memory import normal_cdf
from fp8tune.search.sampler.speed import SpeedModel

ENOUGH = 0.0005
"""Expected gain of the most promising setting below which a search ends."""
WORTH_A_RISK = 0.01
"""Expected gain for which one trial may run out of memory."""
FEW, LAST_FEW = 3, 8
"""Settings left that are all tried, since a model of the few that ran may be wrong
about them; and before the baseline is called the best, which costs no more than a
confirmation does. Of 100 simulated searches whose one of twelve settings gains 2 %, the
first found it in 71 and both in 95 (benchmarks/results/verdicts_aa.md)."""
HIGHEST = 1.96
"""Standard deviations above the prediction that a setting's speed may reach."""
MOST_VALUES = 8
"""Values of a knob up to which every one is tried once."""
PROPOSED = "proposed by the sampler"
"""Why most settings are tried. Their expected improvement is not shown: it counts only
the chance to beat the best so far, so that it would read as a prediction and is none.
"""


class ThroughputSampler(ProposingSampler):
    """Proposes settings by a memory model, a speed model and expected improvement.

    Each trial has the largest expected improvement times probability to run, among the
    settings whose probability to fit is at least ``FEASIBLE``. A study ends when no
    setting has an expected gain of 0.05 % and every value of a knob was tried once. If
    only a few settings are left by then, these are tried first.
    """

    def last_few(self, study: Study) -> Proposal | None:
        """Return the best feasible setting if only few settings are left.

        A search loop tries these before it calls the baseline the best.
        """
        known, ahead = self._look_ahead(study)
        return None if ahead is None else _one_of_few(known, ahead, LAST_FEW)

    def infeasible_gain(self, study: Study) -> float:
        """Return the expected gain of the best setting that probably does not fit."""
        _, ahead = self._look_ahead(study)
        if ahead is None or not ahead.risky.any():
            return 0.0
        return float(ahead.gain[ahead.risky].max())

    def _look_ahead(self, study: Study) -> tuple[Known, Predictions | None]:
        known = self._known(study)
        points = known.untried()
        return known, predictions(known, points) if points and known.has_run else None

    def _choose(self, known: Known, points: Sequence[Point]) -> Proposal | None:
        ahead = predictions(known, points)
        return (
            _most_promising(known, ahead)
            or _value_not_tried(known, ahead)
            or _one_of_few(known, ahead, FEW)
            or _worth_a_risk(known, ahead)
        )


def _most_promising(known: Known, ahead: Predictions) -> Proposal | None:
    """Return the feasible setting with the largest expected gain, if large enough."""
    best = ahead.best(ahead.feasible)
    gain, chance = float(ahead.gain[best]), float(ahead.fits[best])
    if not ahead.feasible.any() or gain < ENOUGH:
        return None
    fits = f", fits with a chance of {100 * chance:.0f} %" * (chance < 0.9)
    params = known.space.params(ahead.candidates[best])
    return Proposal(params, f"{PROPOSED}{fits}", gain)


def _worth_a_risk(known: Known, ahead: Predictions) -> Proposal | None:
    """Return the best setting that probably does not fit, until one did not fit.

    The memory model may be too pessimistic until a trial has run out of memory.
    """
    best = ahead.best(ahead.risky)
    gain = float(ahead.gain[best])
    failed = any(run.outcome == "oom" for run in known.runs)
    running = known.memory.fit(known.running).probability
    if (
        failed
        or (running < FEASIBLE).any()
        or not ahead.risky.any()
        or gain < WORTH_A_RISK
    ):
        return None
    params = known.space.params(ahead.candidates[best])
    return Proposal(params, f"{PROPOSED}, may not fit")


def _value_not_tried(known: Known, ahead: Predictions) -> Proposal | None:
    """Return the best feasible setting with a value that no trial has had yet."""
    space = known.space
    tried = [*(run.point for run in known.runs), *known.running]
    for place, key in enumerate(space.keys):
        if key == space.named.batch or len(space.values[place]) > MOST_VALUES:
            continue
        seen = {point[place] for point in tried}
        new = np.array([point[place] not in seen for point in ahead.candidates])
        if (new & ahead.feasible).any():
            best = ahead.best(new & ahead.feasible)
            params = space.params(ahead.candidates[best])
            reason = f"{key} = {str(params[key]).lower()} was not tried"
            return Proposal(params, reason, 0.0)
    return None


def _one_of_few(known: Known, ahead: Predictions, few: int) -> Proposal | None:
    """Return the best of the settings left if they are few and it is feasible."""
    left = len(ahead.candidates)
    if left > few or not ahead.feasible.any():
        return None
    best = ahead.candidates[ahead.best(ahead.feasible)]
    return Proposal(known.space.params(best), "few are left", 0.0)


class Predictions(NamedTuple):
    """Predictions for the candidates.

    ``fits`` is the probability that each fits in memory, ``gain`` its expected
    improvement (log of tokens/s) times the probability that it runs. ``excluded``: the
    estimate leaves it no gain.
    """

    candidates: Sequence[Point]
    fits: Array
    gain: Array
    excluded: Mask

    @property
    def feasible(self) -> Mask:
        """Which candidates are worth the risk of running out of memory."""
        return (self.fits >= FEASIBLE) & ~self.excluded

    @property
    def risky(self) -> Mask:
        """Which candidates probably do not fit, and may be faster."""
        return (self.fits < FEASIBLE) & ~self.excluded

    def best(self, among: Mask) -> int:
        """Return the index of the candidate with the largest gain among some."""
        return int(np.argmax(np.where(among, self.gain, -1.0)))


def predictions(known: Known, candidates: Sequence[Point]) -> Predictions:
    """Predict untried candidates; at least one run succeeded, or one is running.

    A running setting counts as if it had run as fast as predicted, so that those that
    run at the same time differ.
    """
    runs, space = known.runs, known.space
    logs: dict[Point, list[float]] = defaultdict(list)
    for run in runs:
        if run.ok:
            logs[run.point].append(math.log(run.tokens_per_second))
    seen, means = list(logs), np.array([np.mean(own) for own in logs.values()])
    has_estimate = known.has_estimate
    model = SpeedModel(space, known.features(seen), means, has_estimate=has_estimate)
    best = _best(known, model, seen, means)
    if known.running:
        model = model.believing(known.features(known.running))
    mean, deviation = model.predict(known.features(candidates))
    excluded = (mean + HIGHEST * deviation < best) & has_estimate
    fits = known.memory.fit(candidates).probability
    gain = _improvement(mean, deviation, best)
    gain *= fits * chance_to_run(space, candidates, runs)
    gain = gain.round(9)  # otherwise rounding errors would choose among equals
    return Predictions(candidates, fits, gain, excluded)


def _best(known: Known, model: SpeedModel, seen: Sequence[Point], logs: Array) -> float:
    """Return log tokens/s of the best setting that may be chosen; low if none may."""
    rejected = {run.point for run in known.runs if not (run.ok and run.is_feasible)}
    allowed = set(known.space.candidates) - rejected
    points = [point for point in [*seen, *known.running] if point in allowed]
    if not points:
        return float(logs.min()) - 0.5 if seen else 0.0
    return float(model.predict(known.features(points))[0].max())


def _improvement(mean: Array, deviation: Array, best: float) -> Array:
    """Return the expected improvement of normal values on ``best``."""
    z = (mean - best) / deviation
    density = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    return np.asarray(deviation * (z * normal_cdf(z) + density))
