"""What an earlier study on a near config is worth, and what a misleading one costs."""

from __future__ import annotations

import math
import random
from typing import NamedTuple

from benchmarks.search.landscape import World
from fp8tune.facts.calibration import MEMORY, Band, Measured, corrected
from fp8tune.runners.replay import Replay
from fp8tune.search.coordinator import Limits, Search
from fp8tune.search.earlier import NOTHING, Earlier, earlier
from fp8tune.search.guided import Guided
from fp8tune.search.prior import Expected, Prior, flat
from fp8tune.search.record import Record
from fp8tune.search.space import Point
from fp8tune.search.study import Study, Trial

BUDGET_S = 2 * 3600.0
NEARLY = 0.99


class Outcome(NamedTuple):
    """One search: trials to 99 %, trials of the search, all trials, and the end."""

    reach: int
    searched: int
    trials: int
    ooms: int
    fraction: float


class Estimate(NamedTuple):
    """Factors by which estimates of a landscape's cells are wrong: memory and speed.

    Most of the error is shared by near configs; ``own`` is what is not.
    """

    shared: dict[Point, tuple[float, float]]
    own: dict[Point, tuple[float, float]]

    def expected(self, world: World, point: Point) -> Expected:
        truth, cell = world.truth[point], world.space.cell(point)
        (a, b), (c, d) = self.shared[cell], self.own[cell]
        return Expected(
            truth.peak_gib * math.exp(a + c), truth.would_be * math.exp(b + d)
        )


def errors(world: World, seed: int, size: float) -> dict[Point, tuple[float, float]]:
    draw = random.Random(seed)
    cells = sorted(set(map(world.space.cell, world.truth)))
    return {c: (draw.gauss(0, size), draw.gauss(0, size)) for c in cells}


def calibrated(world, guess, first, first_guess, trials) -> Prior:
    """The estimate of a landscape, corrected by the trials of the earlier one."""
    runs: dict[Point, list[Measured]] = {}
    for trial in trials:
        record = trial.record
        if record.ok:
            point = first.space.point(record.knobs)
            cell = first.space.cell(point)
            predicted = first_guess.expected(first, point).peak_gib
            runs.setdefault(cell, []).append(Measured("", predicted, record.peak_gib))

    def expect(point: Point) -> Expected:
        found = guess.expected(world, point)
        own = runs.get(world.space.cell(point), [])
        if not own:
            return found
        peak = found.peak_gib
        band = corrected(MEMORY, Band(peak, 0.9 * peak, 1.1 * peak), own)
        error = max(0.05, math.log(band.high / band.low) / 2)
        return found._replace(peak_gib=band.value, error=error)

    return expect


def search(world: World, prior: Prior = flat, past: Earlier = NOTHING) -> tuple[Outcome, list[Trial]]:
    space, study = world.space, Study("")
    strategy = Guided(space, world.given, prior, earlier=past)
    runner = Replay(world.records(), space)
    found = Search(space, world.given, runner, strategy, study, Limits(BUDGET_S)).run()
    first = [t for t in study.trials if t.stage != "confirm"]
    fractions = [
        world.fraction(p) if world.space.allows(p, world.given) else 0.0
        for p in (space.point(t.record.knobs) for t in first)
    ]
    reach = next((i for i, f in enumerate(fractions, 1) if f >= NEARLY), len(study.trials))
    searched = sum(t.stage == "search" for t in study.trials)
    return Outcome(reach, searched, found.trials, found.oom_trials, world.fraction(found.chosen)), study.trials


def compare(pair, error: float = 0.1, same: bool = True):
    """Fresh, and starting from the first one's study."""
    first, second, scale = pair
    shared = errors(second, second.seed + 1, error)
    other = shared if same else errors(first, first.seed + 1, error)
    guess = Estimate(shared, errors(second, second.seed + 2, error / 8))
    guess_first = Estimate(other, errors(first, first.seed + 3, error / 8))
    prior = (lambda p: guess.expected(second, p)) if error else flat
    prior_first = (lambda p: guess_first.expected(first, p)) if error else flat
    _, trials = search(first, prior_first)
    fresh, _ = search(second, prior)
    told = prior
    if error:
        told = calibrated(second, guess, first, guess_first, trials)
    def expect(record: Record) -> Expected:
        return prior_first(first.space.point(record.knobs))
    past = earlier("first", second.space, [t.record for t in trials], expect, scale, card_gib=second.capacity_gib)
    warm, _ = search(second, told, past)
    return fresh, warm
