"""One arm on one landscape against the clock."""

from __future__ import annotations

import contextlib
import math
import random
from collections import defaultdict
from typing import NamedTuple

from benchmarks.search.arms import Arm, best_measured
from benchmarks.search.landscape import World
from fp8tune.runners.replay import Replay
from fp8tune.search.coordinator import Limits, Search
from fp8tune.search.prior import Prior, no_prior
from fp8tune.search.sampler import Expected
from fp8tune.search.strategy import Strategy
from fp8tune.search.study import Study
from fp8tune.trials.record import Record
from fp8tune.trials.space import Point, Space

MINUTES = (30, 60, 120)
TRIALS = 10


class Result(NamedTuple):
    """Fractions of the optimum, trials out of memory, all trials, minutes spent."""

    trials_10: float
    minutes_30: float
    minutes_60: float
    minutes_120: float
    oom_30: int
    oom_120: int
    trials: int
    minutes: float


class _TimeIsUp(Exception):
    """The budget is spent."""


def race(world: World, arm: Arm) -> Result:
    """Run an arm for two hours; what looked best by then counts, as it truly is."""
    records = defaultdict(list)
    for record in world.records():
        records[world.space.point(record.knobs)].append(record)
    trials: list[tuple[Point, Record]] = []
    ends: list[float] = []

    def ask(point: Point) -> Record:
        tried = sum(point == other for other, _ in trials)
        record = records[point][tried % len(records[point])]
        end = (ends[-1] if ends else 0.0) + record.cost_s
        if end > MINUTES[-1] * 60:
            raise _TimeIsUp
        trials.append((point, record))
        ends.append(end)
        return record

    with contextlib.suppress(_TimeIsUp):
        arm(world, ask)
    counts = [sum(end <= minutes * 60 for end in ends) for minutes in MINUTES]
    found = [
        world.fraction(best_measured(world, trials[:count]))
        for count in (TRIALS, *counts)
    ]
    ooms = [
        sum(r.outcome == "oom" for _, r in trials[:count])
        for count in (counts[0], counts[2])
    ]
    spent = ends[-1] / 60 if ends else 0.0
    return _result(found, ooms, len(trials), spent)


class Variant(NamedTuple):
    """What of our search is left out, or told beforehand.

    ``error`` is the relative error of an estimate of memory and of speed, 0 for no
    estimate; without ``usual`` nothing is known of AC and compile beforehand either, so
    that the prior is flat. ``sampler`` is as the command's option. With ``retries`` the
    baseline and its bf16 version leave too little memory, by what their allocator says,
    though the GPU is not full.
    """

    error: float = 0.0
    sampler: str = "auto"
    usual: bool = True
    peaks: bool = True
    retries: bool = False


def ours(world: World, variant: Variant) -> Result:
    """Our whole search, confirmation included, once with each budget.

    One that ended in half of a shorter budget would not have been another with that.
    """
    long = _search(world, variant, MINUTES[-1] * 60.0)
    budgets = [minutes * 60.0 for minutes in MINUTES[:-1]]
    results = [
        long if long.seconds < budget / 2 else _search(world, variant, budget)
        for budget in budgets
    ]
    results.append(long)
    thirty = results[0]
    fractions = [world.fraction(result.chosen) for result in results]
    spent, ooms = long.seconds / 60, long.ooms
    found = [long.after_10, *fractions]
    return _result(found, [thirty.ooms, ooms], long.trials, spent)


def _result(found: list[float], ooms: list[int], trials: int, spent: float) -> Result:
    ten, thirty, sixty, long = found
    return Result(ten, thirty, sixty, long, ooms[0], ooms[1], trials, spent)


class _Ended(NamedTuple):
    chosen: Point | None
    after_10: float
    ooms: int
    trials: int
    seconds: float


def _search(world: World, variant: Variant, budget: float) -> _Ended:
    space = world.space if variant.usual else _nameless(world.space)
    records = [_told(world, record, variant) for record in world.records()]
    prior = estimate(world, variant.error) if variant.error else no_prior
    study = Study(space)
    strategy = Strategy(study, world.given, prior, sampler=variant.sampler)
    search = Search(
        space, world.given, Replay(records, space), strategy, study, Limits(budget)
    )
    found = search.run()
    first = [(space.point(t.record.knobs), t.record) for t in study.trials[:TRIALS]]
    after = world.fraction(best_measured(world, first))
    return _Ended(found.chosen, after, found.oom_trials, found.trials, found.seconds)


def _told(world: World, record: Record, variant: Variant) -> Record:
    """A record without what the variant leaves out, and with what it adds."""
    bf16 = world.space.in_bf16(world.given)
    if variant.retries and world.space.point(record.knobs) in (world.given, bf16):
        record = record._replace(alloc_retries=3)
    if not variant.peaks:
        record = record._replace(peak_gib=0.0, reserved_gib=0.0)
    return record


def _nameless(space: Space) -> Space:
    """The same space, of which only batch and precision are known by name."""
    kept = ("micro_batch", "precision")
    knobs = (k if k.role in kept else k._replace(role="") for k in space.knobs)
    return Space(knobs, space.only)


def estimate(world: World, error: float) -> Prior:
    """An estimate that is wrong by as much, in each cell by its own factor."""
    draw = random.Random(world.seed + 1)  # noqa: S311
    cells = sorted(set(map(world.space.cell, world.truth)))
    factors = {c: (draw.gauss(0, error), draw.gauss(0, error)) for c in cells}

    def expect(point: Point) -> Expected:
        truth = world.truth[point]
        memory, speed = map(math.exp, factors[world.space.cell(point)])
        return Expected(truth.peak_gib * memory, truth.would_be * speed)

    return expect
