"""Is the verdict right? One setting against itself, and against some 2 % faster.

The whole search, confirmation included, on replayed trials whose truth is known. Runs
differ as real ones do: steps of a run by 0.15 %, runs of a setting by 0.3 to 1 %.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import machine
from benchmarks.search.aa_cases import (
    BAD_RUN,
    BUDGET_S,
    CASES,
    DRIFTS,
    HOUR_S,
    IN_BF16,
    PRECISION,
    REAL,
    RUNS,
    SECONDS,
    SPACES,
    STEP,
    STEPS,
    WARM_S,
    WINDOWS_S,
    WORDS,
    Case,
    measured,
)
from benchmarks.search.recording import of_seeds, raced, record
from fp8tune.runners.replay import Replay
from fp8tune.search.coordinator import Limits, Search
from fp8tune.search.prior import no_prior
from fp8tune.search.statistics import ON_CPU
from fp8tune.search.strategy import Strategy
from fp8tune.search.study import Study
from fp8tune.trials.record import Record
from fp8tune.trials.runner import TrialLimits
from fp8tune.trials.space import Point, Space

FIRST, TUNED = 6000, (range(1000), range(5000, 5040))
"""The first seed of the recorded run, and seeds that tuning used."""
SAME, FOUND = 0.95, 0.9
"""Shares to reach."""


class Outcome(NamedTuple):
    """The verdict, whether the choice was right, trials, and runs of the baseline."""

    verdict: str
    right: bool
    trials: int
    repeats: int


class Drifting(Replay):
    """A replay on a GPU that is not always as fast."""

    drift = 0.0
    when = DRIFTS[0]
    begins_s = 0.0

    def _lost(self) -> float:
        """The share of its speed that a trial which begins now loses."""
        since = self.now() - self.begins_s
        if self.when == DRIFTS[2]:
            return self.drift * min(1.0, self.now() / HOUR_S)
        return self.drift * (0 < since <= WINDOWS_S.get(self.when, math.inf))

    def run(self, knobs: dict[str, Any], limits: TrialLimits) -> Record:
        """The next record of a setting, as it is by now."""
        by = 1 - self._lost()
        found = super().run(knobs, limits)
        times = tuple(ms / by for ms in found.step_ms)
        return found._replace(
            tokens_per_second=found.tokens_per_second * by, step_ms=times
        )


def run(case: Case, seed: int) -> Outcome:
    """One search where nothing is faster, or some settings are."""
    space = Space((*SPACES[case.space], PRECISION))
    draw = random.Random(seed)  # noqa: S311
    given = draw.choice(_in(space, "fp8"))
    faster = winners(space, given, case, draw)
    records = list(_records(space, faster, case, draw))
    study = Study(space)
    strategy = Strategy(study, given, no_prior)
    replay, limits = Drifting(records, space), Limits(case.budget_s)
    replay.drift, replay.when = case.drift, case.when
    windowed = case.when in WINDOWS_S
    replay.begins_s = draw.uniform(300, 2500) if windowed else WARM_S
    found = Search(space, given, replay, strategy, study, limits).run()
    mine = [t for t in study.trials if space.point(t.record.knobs) == given]
    right = found.chosen in faster or not case.gain
    return Outcome(found.verdict, right, found.trials, len(mine))


def _in(space: Space, precision: str) -> list[Point]:
    points = sorted(space.every())
    return [p for p in points if space.value(p, "precision") == precision]


def winners(
    space: Space, given: Point, case: Case, draw: random.Random
) -> frozenset[Point]:
    """The points that gain, in both precisions; never the baseline."""
    place = len(space.knobs) - 2
    others = [p for p in _in(space, "fp8") if p[place] != given[place]]
    if case.lone:
        others = [draw.choice([p for p in _in(space, "fp8") if p != given])]
    in_bf16 = map(space.in_bf16, others)
    return frozenset(others).union(filter(None, in_bf16))


def _records(
    space: Space, faster: frozenset[Point], case: Case, draw: random.Random
) -> Iterator[Record]:
    """Trials of every setting, each with a run's own luck."""
    for point in sorted(space.every()):
        truth = 1e4 * (1 + case.gain * (point in faster))
        truth *= IN_BF16 if space.value(point, "precision") == "bf16" else 1.0
        for _ in range(RUNS):
            lucky = draw.choice(case.luck) if case.luck else draw.gauss(0, case.spread)
            speed = truth * (lucky if case.luck else math.exp(lucky))
            if case.bad and draw.random() < case.bad:
                speed *= 1 - BAD_RUN
            steps = [1e6 / speed * math.exp(draw.gauss(0, STEP)) for _ in range(STEPS)]
            measured = 1e6 / statistics.median(steps)
            yield Record(
                space.values(point),
                "ok",
                measured,
                tuple(steps),
                cost_s=SECONDS,
                rehearsal=case.rehearsed,
            )


def summary(case: Case, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Shares of the verdicts, and what they cost."""
    said = Counter(outcome.verdict for outcome in outcomes)
    count = len(outcomes)
    share = sum(
        o.verdict in case.right and (o.right or o.verdict != "faster") for o in outcomes
    )
    return {
        "space": case.space,
        "gain": case.gain,
        "faster": case.faster,
        "spread": round(case.spread, 5),
        "real": bool(case.luck),
        "drift": case.drift,
        "when": case.when if case.drift else "",
        "bad_runs": case.bad,
        "budget_minutes": case.budget_s / 60,
        "searches": count,
        "verdicts": {name: said[name] for name in sorted(said)},
        "right": round(share / count, 4),
        "trials": statistics.median(o.trials for o in outcomes),
        "runs_of_given": statistics.median(o.repeats for o in outcomes),
        "reached": share / count >= (FOUND if case.gain else SAME),
    }


def markdown(rows: Sequence[dict[str, Any]], first: int) -> str:
    """The page."""
    count = rows[0]["searches"]
    head = ("settings", "truth", "between runs", "right", "verdicts", "trials", "runs")
    return "\n".join(
        (
            "# Verdicts where the truth is known",
            "",
            f"{count} simulated searches each, {of_seeds(first, count, TUNED)}. "
            f"Steps of a run differ by {100 * STEP:.2f} %. "
            f"Right is SAME where nothing is faster (to reach: {SAME:.0%}), and "
            f"FASTER with one of those that are where some are (to reach: {FOUND:.0%}; "
            "six of twelve: one value of a knob gains, whatever stands beside it; one "
            "of twelve: a single setting does, which a search may never try); on a CPU "
            f"`same` is within {ON_CPU.same:.0%}. Budgets are 2 h; of shorter ones "
            "INCONCLUSIVE is right too. Median trials of a search, and runs of the "
            "given setting among them.",
            "",
            machine.table([_row(row) for row in rows], head),
        )
    )


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    how_many = f"{WORDS[row['faster']]} of {row['space'].split()[0]}"
    truth = f"{how_many} {row['gain']:+.0%}" if row["gain"] else "all the same"
    truth += f", {-row['drift']:+.0%} {row['when']}" * bool(row["drift"])
    if row["bad_runs"]:
        truth += f", one run in {1 / row['bad_runs']:.0f} {-BAD_RUN:+.0%}"
    if row["budget_minutes"] < BUDGET_S / 60:
        truth += f", {row['budget_minutes']:.0f} min"
    verdicts = ", ".join(f"{name} {n}" for name, n in row["verdicts"].items())
    return (
        row["space"],
        truth,
        f"{100 * row['spread']:.1f} %{' (real, CPU)' * row['real']}",
        f"{100 * row['right']:.1f} %{'' if row['reached'] else ' MISSED'}",
        verdicts,
        f"{row['trials']:.0f}",
        f"{row['runs_of_given']:.0f}",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all cases; exit code 1 where a figure to reach is missed."""
    parser = argparse.ArgumentParser(prog="benchmarks.search.aa", description=__doc__)
    parser.add_argument("--searches", type=int, default=400, help="per case")
    parser.add_argument("--first", type=int, default=FIRST, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--record", action="store_true", help="write the results")
    parser.add_argument("--records", type=Path, help="real runs of one setting")
    options = parser.parse_args(arguments)
    cases = measured(options.records) if options.records else [*CASES, *measured(REAL)]
    seeds = range(options.first, options.first + options.searches)
    rows = []
    for case, outcomes in raced(cases, seeds, run, options.jobs):
        rows.append(summary(case, outcomes))
        print(" | ".join(_row(rows[-1])), file=sys.stderr)
    page = markdown(rows, options.first)
    print(page)
    if options.record and not options.records:
        record("verdicts_aa", {"cases": rows}, page)
    return int(not all(row["reached"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
