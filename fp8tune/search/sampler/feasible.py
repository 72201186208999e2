"""Restrict any Optuna sampler to settings that fit, with warm starts by an estimate."""

from __future__ import annotations

import contextlib
import importlib.util
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import optuna
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler

from fp8tune.search.sampler.base import FEASIBLE, Known, Proposal, ProposingSampler
from fp8tune.search.sampler.candidates import Array, CandidateSpace, Grid, Point
from fp8tune.search.sampler.past import FAILED
from fp8tune.search.sampler.speed import prior_log_speed

WARM_STARTS = 6
"""Cells whose most promising setting by the estimate is tried first."""

Inner = Callable[[int], BaseSampler]
"""Makes a sampler from a seed."""


def library_sampler(name: str) -> Inner:
    """Return a function that makes Optuna's ``tpe``, ``gp`` or ``random`` from a seed.

    TPE starts without random trials and GP with one: after the warm starts each does
    better so (seeds 0 to 17, benchmarks/results/samplers.md).

    Raises ``ImportError`` if ``gp`` lacks SciPy, and ``KeyError`` for other names.
    """
    if name == "gp" and importlib.util.find_spec("scipy") is None:
        raise ImportError("Optuna's GPSampler needs SciPy: pip install scipy")
    samplers: dict[str, Inner] = {
        "tpe": lambda seed: TPESampler(seed=seed, n_startup_trials=1),
        "gp": lambda seed: GPSampler(seed=seed),
        "random": lambda seed: RandomSampler(seed=seed),
    }
    return samplers[name]


class FeasibleSampler(ProposingSampler):
    """Restricts another sampler to untried settings that probably fit.

    The first trials after the baseline are warm starts. A cell is a group of settings
    that differ only in the batch; from each of ``warm_starts`` cells comes the setting
    with the best estimated speed times its chance to fit. Without an estimate the
    typical effects of batch, AC and compile replace it. Then the inner sampler is
    asked, and the feasible setting nearest to its answer is tried.

    ``inner`` makes the sampler from a seed. For each trial a new one is made, from
    ``seed`` and the number of trials, and gets the history in a temporary study. There
    a setting that did not run violates a constraint and has the lowest tokens/s known,
    because all of Optuna's samplers learn from that. The other arguments are those of
    ``ProposingSampler``.
    """

    def __init__(
        self,
        inner: Inner,
        grid: Grid,
        *,
        warm_starts: int = WARM_STARTS,
        seed: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(grid, **options)
        self._inner = inner
        self._warm_starts = warm_starts
        self._seed = seed

    def _choose(self, known: Known, points: Sequence[Point]) -> Proposal | None:
        space = known.space
        fits = known.memory.fit(points).probability
        points = [
            p for p, chance in zip(points, fits, strict=True) if chance >= FEASIBLE
        ]
        if not points:
            return None
        warm = self._warm_start(known, points)
        if warm is not None:
            return Proposal(space.params(warm), "promising by the estimate")
        asked = self._ask(known)
        nearest = points[int(np.argmin(_distances(space, points, asked)))]
        name = type(self._inner(0)).__name__
        return Proposal(space.params(nearest), f"near what {name} proposes")

    def _warm_start(self, known: Known, points: Sequence[Point]) -> Point | None:
        """Return the next warm start: the most promising setting of an untried cell."""
        space = known.space
        tried = [*(run.point for run in known.runs), *known.running]
        if len(tried) > self._warm_starts:
            return None
        cells = set(map(space.cell, tried[1:]))  # the baseline's may improve
        new = np.array([space.cell(point) not in cells for point in points])
        if not new.any():
            return None
        described = known.features(points)
        log_speed = described.expected
        if not known.has_estimate:
            log_speed = prior_log_speed(described)
        promise = np.exp(log_speed - log_speed.max()) * known.chance(points)
        return points[int(np.argmax(np.where(new, promise, -1.0)))]

    def _ask(self, known: Known) -> dict[str, Any]:
        """Return the inner sampler's proposal after the history."""
        runs = known.runs
        speeds = [run.tokens_per_second for run in runs if run.ok]
        lowest = min(speeds, default=1.0)
        knobs = self.distributions
        allowed = set(known.space.candidates)
        with _quiet():
            count = len(runs) + len(known.running)
            draw = random.Random(f"{self._seed} {count}")  # noqa: S311
            sampler = self._inner(draw.getrandbits(32))
            study = optuna.create_study(direction="maximize", sampler=sampler)
            for run in runs:
                if run.point in allowed:
                    study.enqueue_trial(known.space.params(run.point))
                    trial = study.ask(knobs)
                    trial.set_constraint(FAILED, float(not run.ok))
                    study.tell(trial, run.tokens_per_second or lowest)
            return study.ask(knobs).params


def _distances(
    space: CandidateSpace, points: Sequence[Point], asked: dict[str, Any]
) -> Array:
    """Return the distances of points from a setting whose batch may be any number.

    A categorical knob that differs counts 1, a numeric one the share of its log range.
    """
    total = np.zeros(len(points))
    rows = space.coordinates(points)
    for place, key in enumerate(space.keys):
        if space.is_smooth(place):
            total += np.abs(rows[:, place] - space.coordinate(place, asked[key]))
        else:
            values = space.values[place]
            total += [values[point[place]] != asked[key] for point in points]
    return total


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence Optuna's messages about the temporary studies of inner samplers."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
