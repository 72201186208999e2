"""Is the warmup that the stability stage proposes long enough, and the shortest?

On generated curves (``benchmarks/search/seeds.py``) in worlds where FP8 goes wrong
below a warmup that is known: it diverges, ends worse by so many deviations between bf16
seeds, or both precisions do. The runs are asked for one by one as a search does.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from benchmarks import machine
from benchmarks.options import for_worlds
from benchmarks.search.recording import of_seeds, told
from benchmarks.search.seed_worlds import (
    BESIDE,
    POINT,
    SPACE,
    STEPS,
    WARMUP,
    Case,
    Train,
    generated,
)
from benchmarks.search.seeds import FIRST, TUNED
from fp8tune.search.stability.compare import LossCurve
from fp8tune.search.stability.findings import assess
from fp8tune.search.stability.plan import Conditions, next_run
from fp8tune.trials.loss_run import LossRun

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


def worlds() -> Iterator[World]:
    """Every world."""
    for needed in NEEDED:
        wrong = WELL._replace(diverges=1.0)
        yield World("diverges", needed, wrong)
    for gap in (4, 8):
        for needed in NEEDED[1:]:
            wrong = WELL._replace(gap=gap)
            yield World(f"ends {gap} deviations worse", needed, wrong)
    for needed in NEEDED[1:3]:
        wrong = WELL._replace(gap=8)
        yield World("ends 8 deviations worse, bf16 as well", needed, wrong, both=True)


def training(world: World, draw: random.Random, learned: float = 1.0) -> Train:
    """Training in a world: the two cases share data, seeds, and what is learned."""
    seed, levels = draw.random(), dict[int, float]()
    well, ill = (
        generated(case._replace(learned=learned), random.Random(seed), levels)  # noqa: S311
        for case in (WELL, world.wrong)
    )

    def train(precision: str, how: LossRun) -> LossCurve:
        if how.warmup_steps >= world.needed:
            return well(precision, how)
        # what goes wrong is written of FP8
        made = ill("fp8" if world.both else precision, how)
        return made._replace(precision=precision)

    return train


def proposed(train: Train) -> tuple[int | None, int]:
    """What is proposed in the end, and by how many runs."""
    runs = list[LossCurve]()
    while run := next_run(SPACE, POINT, runs, Conditions(WARMUP), STEPS):
        runs.append(train(run.precision, run.loss_run))
    found = assess(runs)
    assert found is not None
    return found.proposed_warmup, len(runs)


def row(world: World, said: Sequence[tuple[int | None, int]]) -> dict[str, Any]:
    """Shares of what was proposed beside what is right, and what it cost."""
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


def measured(count: int, first: int) -> Iterator[dict[str, Any]]:
    """Every world."""
    for world in worlds():
        draws = [random.Random(first + n) for n in range(count)]  # noqa: S311
        yield row(world, [proposed(training(world, draw)) for draw in draws])


HEAD = (
    "below it FP8",
    "needed",
    "right",
    "proposed so",
    "too short",
    "too long",
    "none",
    "runs",
)


def markdown(rows: Sequence[dict[str, Any]], first: int) -> str:
    """The page."""
    count = rows[0]["searches"]
    text = (
        f"{count} comparisons each, {of_seeds(first, count, TUNED)}; "
        f"the config's warmup is {WARMUP} steps, runs have {STEPS}, "
        f"and bf16 seeds differ by {100 * SPREAD:.1f} %. Right is the shortest of what "
        f"can be proposed ({', '.join(map(str, OFFERED))}) with which FP8 does not go "
        "wrong; none where there is no such. Where FP8 diverges, at most "
        f"{100 * (1 - SAFE):.0f} % may be too short. Where it ends worse by a few "
        "deviations, a warmup that is called long enough is one with which the loss "
        "is higher by no more than seeds differ. Runs: trained for one proposal."
    )
    cells = [_cells(row) for row in rows]
    return "\n".join(("# Proposed warmups", "", text, "", machine.table(cells, HEAD)))


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    shares = (row[name] for name in ("exact", "too_short", "too_long", "none"))
    exact, short, longer, none = (f"{100 * share:.1f} %" for share in shares)
    right = "none" if row["right"] is None else str(row["right"])
    missed = "" if row["reached"] else " MISSED"
    world, needed = row["world"], str(row["needed"])
    runs = f"{row['runs']:.1f}"
    return world, needed, right, exact, short + missed, longer, none, runs


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all worlds; exit code 1 where a figure to reach is missed."""
    parser = for_worlds("search.warmups", __doc__, FIRST)
    options = parser.parse_args(arguments)
    rows = list(measured(options.searches, options.first))
    page = markdown(rows, options.first)
    return told("warmups", rows, page, written=options.record)


if __name__ == "__main__":
    sys.exit(main())
