"""What an earlier study on a near config is worth, and what a misleading one costs.

``python -m benchmarks.search.transfer``: each landscape is searched twice, from nothing
and from a finished study of another landscape, which is near or has nothing to do with
it. Every search has an estimate whose error is its cells' own; near configs share it.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

from benchmarks import machine
from benchmarks.process import ROOT
from benchmarks.search.landscape import World
from benchmarks.search.near import Pair, near, unlike
from benchmarks.search.table import interval
from fp8tune.facts.calibration import MEMORY, Band, Measured, corrected
from fp8tune.runners.replay import Replay
from fp8tune.search.coordinator import Limits, Search
from fp8tune.search.earlier import NOTHING, Earlier, earlier
from fp8tune.search.guided import Guided
from fp8tune.search.prior import CORRECTED, Expected, Prior
from fp8tune.search.record import Record
from fp8tune.search.space import Point
from fp8tune.search.study import Study

FIRST = 40000
"""The first evaluation seed; tuning used those below 100."""
BUDGET_S = 2 * 3600.0
NEARLY = 0.99
OWN = 0.125
"""Share of an estimate's error that near configs do not share."""
CASES = {
    "near, estimate wrong by 10 %": (near, 0.10),
    "near, estimate wrong by 25 %": (near, 0.25),
    "misleading, estimate wrong by 10 %": (unlike, 0.10),
    "misleading, estimate wrong by 25 %": (unlike, 0.25),
}
RESULTS = ROOT / "benchmarks" / "results"


class Outcome(NamedTuple):
    """One search.

    ``chosen`` are the trials that the search chose, without the given config, its bf16
    twin and the confirmation; ``reach`` how many of them it took to measure 99 % of the
    optimum; ``fraction`` what its answer reaches.
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


class Estimate(NamedTuple):
    """An estimate of a landscape: log errors of memory and of speed, by cell."""

    world: World
    errors: tuple[dict[Point, tuple[float, float]], ...]

    def expect(self, point: Point) -> Expected:
        """What it says of a point."""
        truth, cell = self.world.truth[point], self.world.space.cell(point)
        memory, speed = (
            math.exp(sum(errors[cell][which] for errors in self.errors))
            for which in (0, 1)
        )
        return Expected(truth.peak_gib * memory, truth.would_be * speed)


def _errors(world: World, seed: int, size: float) -> dict[Point, tuple[float, float]]:
    draw = random.Random(seed)  # noqa: S311
    cells = sorted(set(map(world.space.cell, world.truth)))
    return {cell: (draw.gauss(0, size), draw.gauss(0, size)) for cell in cells}


def estimates(pair: Pair, error: float, *, alike: bool) -> tuple[Estimate, Estimate]:
    """Those of two landscapes; ``alike`` where most of their errors is the same."""
    first, second = pair.first, pair.second
    common = _errors(second, second.seed + 1, error)
    theirs = common if alike else _errors(first, first.seed + 1, error)
    return (
        Estimate(first, (theirs, _errors(first, first.seed + 2, OWN * error))),
        Estimate(second, (common, _errors(second, second.seed + 3, OWN * error))),
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
    world: World, prior: Prior, past: Earlier = NOTHING
) -> tuple[Outcome, list[Record]]:
    space, study = world.space, Study("")
    strategy = Guided(space, world.given, prior, earlier=past)
    runner = Replay(world.records(), space)
    found = Search(space, world.given, runner, strategy, study, Limits(BUDGET_S)).run()
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

    past = earlier(
        "first",
        pair.second.space,
        records,
        expect,
        pair.scale,
        pair.second.capacity_gib,
    )
    started, _ = _search(pair.second, calibrated(mine, other, records), past)
    return Both(fresh, started)


def _run(task: tuple[str, int]) -> Both:
    name, seed = task
    make, error = CASES[name]
    return compare(make(seed), error, alike=make is near)


def summary(found: dict[str, list[Both]], first: int) -> dict[str, Any]:
    """All figures, ready for JSON."""
    said: dict[str, Any] = {"first_seed": first, "cases": {}}
    for name, pairs in found.items():
        sides = {side: [getattr(p, side) for p in pairs] for side in Both._fields}
        chosen = [statistics.fmean(one.chosen for one in sides[s]) for s in sides]
        said["cases"][name] = {
            "landscapes": len(pairs),
            **{side: _means(outcomes) for side, outcomes in sides.items()},
            "chosen_ratio": round(chosen[1] / chosen[0], 4),
            "chosen_difference": _paired(pairs, "chosen"),
            "oom_difference": _paired(pairs, "oom"),
            "minutes_difference": _paired(pairs, "minutes"),
            "fraction_difference": _paired(pairs, "fraction"),
        }
    return said


def _means(outcomes: Sequence[Outcome]) -> dict[str, dict[str, float]]:
    columns = dict(zip(Outcome._fields, zip(*outcomes, strict=True), strict=True))
    return {
        name: {
            "mean": round(statistics.fmean(values), 4),
            "median": round(statistics.median(values), 4),
        }
        for name, values in columns.items()
    }


def _paired(pairs: Sequence[Both], name: str) -> tuple[float, float, float]:
    return interval([getattr(p.started, name) - getattr(p.fresh, name) for p in pairs])


HEAD = (
    "earlier study",
    "chosen by the search",
    "to 99 %",
    "all trials",
    "out of memory",
    "minutes",
    "fraction",
)


def markdown(said: dict[str, Any], about: dict[str, str]) -> str:
    """The page."""
    cases = said["cases"]
    count = next(iter(cases.values()))["landscapes"]
    rows = [
        (name, *(_change(case, field) for field in Outcome._fields))
        for name, case in cases.items()
    ]
    gaps = [
        (
            name,
            f"{case['chosen_ratio']:.2f}",
            *(
                "{:+.3f} [{:+.3f}, {:+.3f}]".format(*case[f"{field}_difference"])
                for field in ("chosen", "oom", "minutes", "fraction")
            ),
        )
        for name, case in cases.items()
    ]
    lines = [
        "# Starting from an earlier study, on generated landscapes",
        "",
        f"{count} landscapes a row, seeds {said['first_seed']} and up, none of them "
        "used in tuning. Each is searched from nothing and from a finished study of "
        "another landscape: mean of both (median). `chosen by the search` leaves out "
        "the given config, its bf16 twin and the confirmation, which every search "
        "runs; `to 99 %` is how many of the chosen it took to measure 99 % of the "
        "optimum.",
        "",
        machine.table(rows, HEAD),
        "",
        "Ratio of the means of chosen trials, and differences, paired over landscapes, "
        "with 95 % bootstrap intervals:",
        "",
        machine.table(
            gaps,
            (
                "earlier study",
                "ratio",
                "chosen",
                "out of memory",
                "minutes",
                "fraction",
            ),
        ),
        "",
        NOTE,
    ]
    if about:
        lines += ["", "; ".join(f"{name} {value}" for name, value in about.items())]
    return "\n".join(lines)


def _change(case: dict[str, Any], field: str) -> str:
    digits = 3 if field == "fraction" else 1
    values = (case[side][field] for side in Both._fields)
    return " -> ".join(
        f"{one['mean']:.{digits}f} ({one['median']:.{digits}f})" for one in values
    )


NOTE = """\
A near landscape has half to twice the parameters, sequence length and GPUs, the effects
of AC, compile and FP8 within 1 %, and shares seven eighths of its estimate's error. A
misleading one has the same knobs and GPU, but another model, software and errors. Both
were written by the author of the strategy, and nothing here was measured on a GPU. On
seeds 0 to 59 these were compared: how closely two studies may be correlated (five
sets), how likely that is beforehand (three), from when on an earlier study is believed
(four), the gain at which a search ends that believes one (three), and how often an
earlier failure counts (three). Seeds 30000 to 30099 were run before the last of these:
ratios 0.53 and 0.55, answers 0.1 % and 0.0 % lower, misleading ones 0.4 % and 0.1 %."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare; exit code 1 where near studies do not halve the trials."""
    parser = argparse.ArgumentParser(prog="benchmarks.search.transfer")
    parser.add_argument("--worlds", type=int, default=100, help="landscapes a row")
    parser.add_argument("--first", type=int, default=FIRST, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--record", action="store_true", help="write the results")
    options = parser.parse_args(arguments)
    found: dict[str, list[Both]] = {}
    with ProcessPoolExecutor(options.jobs) as pool:
        for name in CASES:
            seeds = range(options.first, options.first + options.worlds)
            tasks = [(name, seed) for seed in seeds]
            found[name] = list(pool.map(_run, tasks, chunksize=4))
            print(f"{name}: done", file=sys.stderr)
    said = summary(found, options.first)
    print(markdown(said, {}))
    if options.record:
        about = machine.describe()
        text = json.dumps({"about": about, **said}, indent=1)
        (RESULTS / "transfer.json").write_text(f"{text}\n", encoding="utf-8")
        page = markdown(said, about)
        (RESULTS / "transfer.md").write_text(f"{page}\n", encoding="utf-8")
    ratios = [
        said["cases"][n]["chosen_ratio"]
        for n, (make, _) in CASES.items()
        if make is near
    ]
    return int(max(ratios) > 0.5)


if __name__ == "__main__":
    sys.exit(main())
