"""Are the verdicts of the stability stage right where the truth is known?

Generated curves (``seed_worlds.py``): bf16 against other seeds of bf16, FP8 that is
worse by so many deviations between them, beside bf16 of the same seed or as a seed of
its own, and FP8 that diverges. Real curves: those of the rehearsal's model on a CPU.
The runs are asked for one by one as a search does.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks import machine
from benchmarks.search.recording import of_seeds, record
from benchmarks.search.seed_worlds import (
    BESIDE,
    POINT,
    SEEN,
    SPACE,
    STEPS,
    WARMUP,
    Train,
    cases,
    generated,
)
from fp8tune.search.losses.compare import MAX_SEEDS, LossCurve, LossVerdict
from fp8tune.search.losses.findings import assess
from fp8tune.search.losses.loss_runs import FIRST_SEED, Conditions, next_run
from fp8tune.trials.record import LossRun
from tests.support.curves import SEEDS as CURVES
from tests.support.curves import Pool, pool

FIRST, TUNED = 9000, (range(1000),)
"""The first seed of the recorded run, and seeds that tuning used."""

Row = dict[str, Any]


def draws(count: int, first: int) -> Iterator[random.Random]:
    """Return a generator of random numbers for each seed."""
    return (random.Random(first + number) for number in range(count))  # noqa: S311


WRONG, FOUND = 0.05, 0.95
"""Shares to reach: what is alike is called outside or diverged in fewer, and divergence
is found in more."""


def recorded(runs: Pool, name: str, draw: random.Random) -> Train:
    """Train by real runs.

    FP8's part is played by bf16 of other seeds, by FP8 of the same seeds, or by runs
    that diverge.
    """
    seeds = draw.sample(sorted(runs.bf16), 2 * MAX_SEEDS)
    wild = draw.sample(sorted(runs.wild), min(MAX_SEEDS, len(runs.wild)))

    def train(precision: str, how: LossRun) -> LossCurve:
        place = how.seed - FIRST_SEED
        if precision == "bf16":
            curve = runs.bf16[seeds[place]]
        elif name == "alike":
            curve = runs.bf16[seeds[MAX_SEEDS + place]]
        elif name == "FP8":
            curve = runs.fp8[seeds[place]]
        else:
            curve = runs.wild[wild[place % len(wild)]]
        return curve._replace(precision=precision, loss_run=how)

    return train


def verdict(train: Train, steps: int) -> tuple[str, int]:
    """Return the verdict at the config's warmup, and by how many runs."""
    runs = list[LossCurve]()
    while run := next_run(SPACE, POINT, runs, Conditions(WARMUP), steps):
        if run.loss_run.warmup_steps != WARMUP:
            break
        runs.append(train(run.precision, run.loss_run))
    found = assess(runs)
    assert found is not None
    return found.verdict, len(runs)


def verdict_row(
    name: str, spread: float, right: str, said: Sequence[tuple[str, int]]
) -> Row:
    """Return the shares of the verdicts, and what they cost."""
    counted = Counter(verdict for verdict, _ in said)
    share = counted[right] / len(said) if right else None
    refused = counted[LossVerdict.OUTSIDE] + counted[LossVerdict.DIVERGED]
    reached: dict[str, bool] = {
        LossVerdict.INSIDE: refused < WRONG * len(said),
        LossVerdict.DIVERGED: counted[right] >= FOUND * len(said),
    }
    return {
        "world": name,
        "spread": spread,
        "wanted": right,
        "searches": len(said),
        "verdicts": dict(sorted(counted.items())),
        "right": share,
        "runs": sum(runs for _, runs in said) / len(said),
        "reached": reached.get(right, True),
    }


def verdict_rows(count: int, first: int) -> Iterator[Row]:
    """Measure every generated case, then the real runs."""
    for case in cases():
        said = [verdict(generated(case, draw), STEPS) for draw in draws(count, first)]
        yield verdict_row(case.name, case.spread, case.right, said)
    runs = pool(CURVES)
    steps = next(iter(runs.bf16.values())).loss_run.steps
    wanted = {
        "alike": LossVerdict.INSIDE,
        "FP8": "",
        "FP8 diverges": LossVerdict.DIVERGED,
    }
    for name, right in wanted.items():
        said = [verdict(recorded(runs, name, d), steps) for d in draws(count, first)]
        yield verdict_row(f"real runs: {name}", 0.0, right, said)


def _verdict_cells(row: Row) -> tuple[str, ...]:
    right = "" if row["right"] is None else f"{100 * row['right']:.1f} %"
    return (
        row["world"],
        f"{100 * row['spread']:.1f} %" if row["spread"] else "",
        right + " MISSED" * (not row["reached"]),
        ", ".join(f"{name} {n}" for name, n in row["verdicts"].items()),
        f"{row['runs']:.1f}",
    )


TEXT = (
    ". INSIDE is right if FP8 equals bf16 of the same seed (except for "
    f"{BESIDE} of the deviation between seeds) or one more seed of bf16 (target: "
    f"outside or diverged below {WRONG:.0%}). DIVERGED is right if every run of FP8 "
    f"diverges or loses {SEEN:.0%} of what it learned (target: {FOUND:.0%}). If FP8 "
    "is worse by a few deviations between seeds no verdict is right: the shares show "
    "how large a gap is noticed. If only some runs end in NaN no verdict is right "
    "either. Real runs are of the rehearsal's model on a CPU; the diverging ones have "
    "300 times its learning rate, and were known when divergence was defined. Runs: "
    "the average number of runs trained for one verdict."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the verdicts; exit code 1 where a figure to reach is missed."""
    parser = argparse.ArgumentParser("benchmarks.search.stability", description=__doc__)
    parser.add_argument("--searches", type=int, default=1000, help="per world")
    parser.add_argument("--first", type=int, default=FIRST, help="the first seed")
    parser.add_argument("--record", action="store_true", help="write the results")
    options = parser.parse_args(arguments)
    rows = list(verdict_rows(options.searches, options.first))
    seeds = of_seeds(options.first, options.searches, TUNED)
    head = ("world", "between seeds", "right", "verdicts", "runs")
    page = (
        "# Verdicts of the stability stage where the truth is known\n\n"
        f"{options.searches} comparisons each, {seeds}{TEXT}\n\n"
        f"{machine.table(list(map(_verdict_cells, rows)), head)}"
    )
    print(page)
    if options.record:
        record("stability_aa", {"worlds": rows}, page)
    return int(not all(row["reached"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
