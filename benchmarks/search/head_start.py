"""A landscape searched from nothing, and from a finished study of another one.

Every search has an estimate whose error is its cells' own; near configs share it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.search.near import Pair
from fp8tune.facts.calibration import Band, corrected
from fp8tune.facts.off import Measured
from fp8tune.facts.runs import MEMORY
from fp8tune.runners.replay import Replay
from fp8tune.search.coordinator import Search
from fp8tune.search.pool import Peer
from fp8tune.search.prior import CORRECTED, Prior
from fp8tune.search.sampler import EarlierTrial, Expected
from fp8tune.search.strategy import Strategy
from fp8tune.search.study import Study
from fp8tune.search.warm_start import earlier_trials
from fp8tune.trials.record import Record
from fp8tune.trials.space import Point
from tests.support.landscape import Estimate, World, draw_errors

BUDGET_S = 2 * 3600.0
NEARLY = 0.99
OWN = 0.125
"""Share of an estimate's error that near configs do not share."""


class Outcome(NamedTuple):
    """One search.

    ``chosen`` are the trials that the search chose, without the baseline, the bf16
    baseline and the confirmation; ``reach`` how many of them it took to measure 99 % of
    the optimum; ``fraction`` what its answer reaches.
    """

    chosen: int
    reach: int
    trials: int
    oom: int
    minutes: float
    fraction: float


class Both(NamedTuple):
    """The same landscape searched from nothing, and from an earlier study."""

    fresh: Outcome
    started: Outcome


def estimates(pair: Pair, error: float, *, alike: bool) -> tuple[Estimate, Estimate]:
    """Those of two landscapes; ``alike`` where most of their errors is the same."""
    first, second = pair.first, pair.second
    common = draw_errors(second, second.seed + 1, error)
    theirs = common if alike else draw_errors(first, first.seed + 1, error)
    return (
        Estimate(first, (theirs, draw_errors(first, first.seed + 2, OWN * error))),
        Estimate(second, (common, draw_errors(second, second.seed + 3, OWN * error))),
    )


def calibrated(mine: Estimate, other: Estimate, records: Sequence[Record]) -> Prior:
    """An estimate of peaks, corrected by the trials of another landscape."""
    runs: dict[Point, list[Measured]] = defaultdict(list)
    for record in records:
        if record.ok:
            point = other.world.space.point(record.knobs)
            run = Measured("", other.expect(point).peak_gib, record.peak_gib)
            runs[other.world.space.cell(point)].append(run)

    def expect(point: Point) -> Expected:
        found = mine.expect(point)
        own = runs.get(mine.world.space.cell(point), [])
        if not own:
            return found
        peak = found.peak_gib
        band = corrected(MEMORY, Band(peak, 0.9 * peak, 1.1 * peak), own)
        error = max(CORRECTED, math.log(band.high / band.low) / 2)
        return found._replace(peak_gib=band.value, error=min(error, found.error))

    return expect


def _search(
    world: World, prior: Prior, past: Sequence[EarlierTrial] = ()
) -> tuple[Outcome, list[Record]]:
    space, study = world.space, Study(world.space)
    strategy = Strategy(study, world.given, prior, earlier=past)
    runner = Replay(world.records(), space)
    found = Search(
        space, world.given, Peer(study, runner), strategy, study, BUDGET_S
    ).run()
    chosen = [t.record for t in study.trials if t.stage == "search"]
    before = world.fraction(world.given)
    reached = [before, *(world.fraction(space.point(one.knobs)) for one in chosen)]
    most = len(chosen) + 1
    outcome = Outcome(
        len(chosen),
        next((i for i, reach in enumerate(reached) if reach >= NEARLY), most),
        found.trials,
        found.oom_trials,
        found.seconds / 60,
        world.fraction(found.chosen),
    )
    return outcome, [trial.record for trial in study.trials]


def compare(pair: Pair, error: float, *, alike: bool) -> Both:
    """Search the second landscape from nothing, and from the first one's study."""
    other, mine = estimates(pair, error, alike=alike)
    _, records = _search(pair.first, other.expect)
    fresh, _ = _search(pair.second, mine.expect)

    def expect(record: Record) -> Expected:
        return other.expect(pair.first.space.point(record.knobs))

    past = earlier_trials(
        pair.second.space,
        records,
        expect,
        pair.scale,
        pair.second.capacity_gib,
    )
    started, _ = _search(pair.second, calibrated(mine, other, records), [*past])
    return Both(fresh, started)
