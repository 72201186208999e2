"""Are the answers of the stability stage right where the truth is known?

``python -m benchmarks.search.stability TABLE`` measures one of three tables, on
generated curves (``seed_worlds.py``). The runs are asked for one by one as a search
does.

``verdicts``: bf16 against other seeds of bf16, FP8 that is worse by so many deviations
between them, beside bf16 of the same seed or as a seed of its own, and FP8 that
diverges; also on real curves of the CPU rehearsal's model (``curves.py``).

``warmups``: is the proposed warmup long enough, and the shortest? FP8 goes wrong below
a warmup that is known: it diverges, ends worse by so many deviations between bf16
seeds, or both precisions do.

``first-steps``: is FP8 that diverges rejected where the warmup is longer than a run can
hold? Runs hold 24 steps of warmup, the config asks for 2000. FP8, or both precisions,
diverge under any warmup, under those that a run holds alone, or never; curves learn as
always, or next to nothing in the config's own first steps.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from benchmarks import machine
from benchmarks.search.recording import of_seeds, record
from benchmarks.search.seed_worlds import (
    BESIDE,
    POINT,
    SEEN,
    SPACE,
    STEPS,
    WARMUP,
    Case,
    Train,
    cases,
    generated,
)
from fp8tune.search.losses.compare import MAX_SEEDS, LossCurve, LossVerdict
from fp8tune.search.losses.findings import Stability, assess
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


def finish(
    train: Train, warmup: int, steps: int, *, own_warmup: bool = False
) -> tuple[Stability, int]:
    """Return what the stage finds, and by how many runs.

    In the end, or with ``own_warmup`` before it tries another warmup than the config's.
    """
    runs = list[LossCurve]()
    while run := next_run(SPACE, POINT, runs, Conditions(warmup), steps):
        if own_warmup and run.loss_run.warmup_steps != warmup:
            break
        runs.append(train(run.precision, run.loss_run))
    found = assess(runs)
    assert found is not None
    return found, len(runs)


# Verdicts at the config's own warmup

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
    found, runs = finish(train, WARMUP, steps, own_warmup=True)
    return found.verdict, runs


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


VERDICTS_TEXT = (
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

# The proposed warmup

SPREAD = 0.005
WELL = Case("", SPREAD, apart=BESIDE)
"""FP8 that is beside bf16 of the same seed, as in real runs."""
OFFERED = (2, 5, 10, 20)
"""What can be proposed beside the config's warmup of 10 in runs of 48 steps."""
NEEDED = (0, 4, 8, 15, 40)
SAFE = 0.95
"""Share to reach where FP8 diverges: no warmup is proposed that is too short."""


class World(NamedTuple):
    """FP8 goes wrong with less than ``needed`` steps of warmup; bf16 if ``both``."""

    name: str
    needed: int
    wrong: Case
    both: bool = False

    @property
    def right(self) -> int | None:
        """The shortest warmup that is long enough, of those that can be proposed."""
        return next((warmup for warmup in OFFERED if warmup >= self.needed), None)


def warmup_worlds() -> Iterator[World]:
    """Yield every world of the table of warmups."""
    for needed in NEEDED:
        yield World("diverges", needed, WELL._replace(diverges=1.0))
    for gap in (4, 8):
        for needed in NEEDED[1:]:
            yield World(f"ends {gap} deviations worse", needed, WELL._replace(gap=gap))
    for needed in NEEDED[1:3]:
        name = "ends 8 deviations worse, bf16 as well"
        yield World(name, needed, WELL._replace(gap=8), both=True)


def training(world: World, draw: random.Random, learned: float = 1.0) -> Train:
    """Train in a world: the two cases share data, seeds, and what is learned."""
    seed, levels = draw.random(), dict[int, float]()
    well, ill = (
        generated(case._replace(learned=learned), random.Random(seed), levels)  # noqa: S311
        for case in (WELL, world.wrong)
    )

    def train(precision: str, how: LossRun) -> LossCurve:
        if how.warmup_steps >= world.needed:
            return well(precision, how)
        # what goes wrong is written of FP8
        curve = ill("fp8" if world.both else precision, how)
        return curve._replace(precision=precision)

    return train


def proposed(train: Train) -> tuple[int | None, int]:
    """Return the warmup proposed in the end, and by how many runs."""
    found, runs = finish(train, WARMUP, STEPS)
    return found.proposed_warmup, runs


def warmup_row(world: World, said: Sequence[tuple[int | None, int]]) -> Row:
    """Return the shares of what was proposed against what is right, and the cost."""
    right = world.right
    each = [warmup for warmup, _ in said]
    short = sum(warmup is not None and warmup < world.needed for warmup in each)
    longer = sum(
        warmup is not None and right is not None and warmup > right for warmup in each
    )
    return {
        "world": world.name,
        "needed": world.needed,
        "right": right,
        "searches": len(said),
        "exact": sum(warmup == right for warmup in each) / len(said),
        "too_short": short / len(said),
        "too_long": longer / len(said),
        "none": sum(warmup is None for warmup in each) / len(said),
        "runs": sum(runs for _, runs in said) / len(said),
        "reached": world.wrong.diverges < 1 or short <= (1 - SAFE) * len(said),
    }


def warmup_rows(count: int, first: int) -> Iterator[Row]:
    """Measure every world of the table of warmups."""
    for world in warmup_worlds():
        said = [proposed(training(world, draw)) for draw in draws(count, first)]
        yield warmup_row(world, said)


def _warmup_cells(row: Row) -> tuple[str, ...]:
    shares = (row[name] for name in ("exact", "too_short", "too_long", "none"))
    exact, short, longer, none = (f"{100 * share:.1f} %" for share in shares)
    right = "none" if row["right"] is None else str(row["right"])
    missed = "" if row["reached"] else " MISSED"
    world, needed = row["world"], str(row["needed"])
    runs = f"{row['runs']:.1f}"
    return world, needed, right, exact, short + missed, longer, none, runs


WARMUPS_TEXT = (
    f"; the config's warmup is {WARMUP} steps, runs have {STEPS}, and bf16 seeds "
    f"differ by {100 * SPREAD:.1f} %. The shortest possible proposal "
    f"({', '.join(map(str, OFFERED))}) with which FP8 does not fail is right, or none "
    "if there is no such warmup. If FP8 diverges, at most "
    f"{100 * (1 - SAFE):.0f} % of proposals may be too short. If it ends worse by a "
    "few deviations, a warmup counts as long enough if the loss is higher by no more "
    "than seeds differ. Runs: the number trained for one proposal."
)

# A warmup longer than a run can hold

LONG = 2000
"""The config's warmup."""
NEVER, SHORT, ALWAYS = 0, LONG, LONG + 1
"""Below which warmup something goes wrong."""
LEARNED = (1.0, 0.02)
"""Of what is learned at the peak learning rate, the share in the first steps."""
REJECTED, DOUBTFUL = "rejected", "may diverge"
REACHED = 0.99
"""Share to reach, of what is right."""


def long_worlds() -> Iterator[tuple[World, str]]:
    """Yield every world with what is right of it: ``""`` is neither of the two."""
    wrong = WELL._replace(diverges=1.0)
    yield World("never diverges", NEVER, wrong), ""
    yield World("diverges under a shorter warmup", SHORT, wrong), DOUBTFUL
    yield World("diverges under any warmup", ALWAYS, wrong), REJECTED
    for name, needed in (("a shorter", SHORT), ("any", ALWAYS)):
        said = f"and bf16 diverge under {name} warmup"
        yield World(said, needed, wrong, both=True), ""


def long_training(world: World, draw: random.Random, learned: float) -> Train:
    """Train in a world; in the config's own first steps ``learned`` is learned."""
    seed = draw.random()
    short, own = (
        training(world, random.Random(seed), share)  # noqa: S311
        for share in (1.0, learned)
    )

    def train(precision: str, how: LossRun) -> LossCurve:
        return (own if how.warmup_steps == LONG else short)(precision, how)

    return train


def long_answer(train: Train) -> tuple[str, int]:
    """Return what a search makes of it, and by how many runs."""
    found, runs = finish(train, LONG, STEPS)
    if found.rejects:
        return REJECTED, runs
    return DOUBTFUL if found.may_diverge else found.verdict, runs


def long_row(
    name: str, learned: float, right: str, said: Sequence[tuple[str, int]]
) -> Row:
    """Return what was said, how often that was right, and what it cost."""
    counted = Counter(answer for answer, _ in said)
    other = len(said) - counted[REJECTED] - counted[DOUBTFUL]
    share = (counted[right] if right else other) / len(said)
    return {
        "world": name,
        "learned": learned,
        "wanted": right,
        "searches": len(said),
        "said": dict(sorted(counted.items())),
        "right": share,
        "runs": sum(runs for _, runs in said) / len(said),
        "reached": share >= REACHED,
    }


def long_rows(count: int, first: int) -> Iterator[Row]:
    """Measure every world with a long warmup."""
    for world, right in long_worlds():
        for learned in LEARNED:
            trains = (long_training(world, d, learned) for d in draws(count, first))
            yield long_row(world.name, learned, right, [*map(long_answer, trains)])


def _long_cells(row: Row) -> tuple[str, ...]:
    right = f"{100 * row['right']:.1f} %" + " MISSED" * (not row["reached"])
    every = ", ".join(f"{name} {n}" for name, n in row["said"].items())
    learned = f"{100 * row['learned']:.0f} %"
    wanted = row["wanted"] or "neither"
    return row["world"], learned, wanted, right, every, f"{row['runs']:.1f}"


LONG_TEXT = (
    f"; the config's warmup is {LONG} steps, runs have {STEPS} and hold {STEPS // 2} "
    f"of it, and bf16 seeds differ by {100 * SPREAD:.1f} %. FP8 that diverges in the "
    "config's own first steps must be rejected. If it diverges only with a shorter "
    "warmup, the answer must begin with `may diverge`. If bf16 diverges too, neither "
    f"is right (target: {REACHED:.0%}). Runs: the number trained for one answer."
)


class Table(NamedTuple):
    """One question: the file of its results, its page, and how it is measured."""

    file: str
    title: str
    text: str
    head: tuple[str, ...]
    rows: Callable[[int, int], Iterator[Row]]
    cells: Callable[[Row], tuple[str, ...]]


TABLES = {
    "verdicts": Table(
        "stability_aa",
        "Verdicts of the stability stage where the truth is known",
        VERDICTS_TEXT,
        ("world", "between seeds", "right", "verdicts", "runs"),
        verdict_rows,
        _verdict_cells,
    ),
    "warmups": Table(
        "warmups",
        "Proposed warmups",
        WARMUPS_TEXT,
        (
            *("below it FP8", "needed", "right", "proposed so", "too short"),
            *("too long", "none", "runs"),
        ),
        warmup_rows,
        _warmup_cells,
    ),
    "first-steps": Table(
        "first_steps",
        "Warmups longer than a run can hold",
        LONG_TEXT,
        ("FP8", "learned in the first steps", "right", "said so", "all", "runs"),
        long_rows,
        _long_cells,
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure a table; exit code 1 where a figure to reach is missed."""
    parser = argparse.ArgumentParser("benchmarks.search.stability", description=__doc__)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--searches", type=int, default=1000, help="per world")
    parser.add_argument("--first", type=int, default=FIRST, help="the first seed")
    parser.add_argument("--record", action="store_true", help="write the results")
    options = parser.parse_args(arguments)
    table = TABLES[options.table]
    rows = list(table.rows(options.searches, options.first))
    seeds = of_seeds(options.first, options.searches, TUNED)
    text = f"{options.searches} comparisons each, {seeds}{table.text}"
    cells = machine.table(list(map(table.cells, rows)), table.head)
    page = f"# {table.title}\n\n{text}\n\n{cells}"
    print(page)
    if options.record:
        record(table.file, {"worlds": rows}, page)
    return int(not all(row["reached"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
