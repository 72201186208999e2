"""Is the verdict of the stability stage right?

bf16 against other seeds of bf16, FP8 that is worse by so many deviations between them,
beside bf16 of the same seed or as a seed of its own, and FP8 that diverges. On
generated curves whose truth is known, and on real ones of the CPU rehearsal's model
(``benchmarks/search/curves.py``). The runs are asked for one by one as a search does.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import machine
from benchmarks.options import for_worlds
from benchmarks.search.curves import CURVES
from benchmarks.search.recording import of_seeds, told
from fp8tune.search.space import Knob, Space
from fp8tune.search.stability.compare import DIVERGED, INSIDE, MOST_SEEDS, OUTSIDE
from fp8tune.search.stability.course import Course, Curve
from fp8tune.search.stability.finding import finding
from fp8tune.search.stability.plan import SEED, Conditions, wanted

SPACE = Space([Knob("train.mixed_precision", ("bf16", "fp8"), "precision")])
POINT = (1,)
WARMUP, STEPS = 10, 48
SPREADS = (0.001, 0.005, 0.02)
"""Relative standard deviation of the loss between seeds."""
GAPS = (0, 0.5, 1, 2, 4, 8)
"""By how many of these deviations FP8's loss is higher."""
BESIDE, OWN = 0.1, None
"""How far FP8 is from bf16 of the same seed, in these deviations: about as in the
rehearsal's real runs (0.07, of ``curves.py``), or it is a seed of its own."""
CLIMBS = (0.05, 0.1, 0.2, 0.4)
"""Of what is learned, the share that FP8 loses again in the last half of each run."""
SEEN = 0.2
"""The share from which that has to be found."""
DATA, STEP = 0.01, 0.003
"""Relative deviation of the loss from batch to batch, the same for all runs, and of a
run's own."""
NORM, SPIKES = 0.1, 0.005
"""Deviation of gradient norms (log), and how often one spikes, in either precision."""
FIRST, TUNED = 9000, (range(1000),)
"""The first seed of the recorded run, and seeds that tuning used."""
WRONG, FOUND = 0.05, 0.95
"""Shares to reach: what is alike is called outside or diverged in fewer, and divergence
is found in more."""

Train = Callable[[str, Course], Curve]


class Case(NamedTuple):
    """What FP8 does: its ``gap`` in deviations, or the share of runs that diverge.

    ``learned`` is the share of what is otherwise learned in a run, ``climbs`` that of
    it which FP8 loses again, ``nan`` the share of runs that end in NaN, of FP8's alone
    or of ``both``. ``apart`` is how far FP8 is from bf16 of the same seed.
    """

    name: str
    spread: float
    gap: float = 0.0
    diverges: float = 0.0
    spikes: float = SPIKES
    learned: float = 1.0
    apart: float | None = OWN
    climbs: float = 0.0
    nan: float = 0.0
    both: bool = False

    @property
    def right(self) -> str:
        """The verdict to reach, or ``""`` where none is asked for."""
        if self.diverges >= 1 or self.climbs >= SEEN:
            return DIVERGED
        wrong = self.gap or self.diverges or self.climbs or self.nan
        return "" if wrong else INSIDE


def cases() -> Iterator[Case]:
    """Every generated world."""
    for apart, how in ((BESIDE, ""), (OWN, ", seeds of its own")):
        for spread in SPREADS:
            for gap in GAPS:
                name = f"FP8 {gap} deviations worse" if gap else "alike"
                yield Case(f"{name}{how}", spread, gap, apart=apart)
    for share in CLIMBS:
        name = f"FP8 loses {100 * share:.0f} % of what it learned"
        yield Case(name, SPREADS[1], climbs=share)
    yield Case("one in six of FP8's runs ends in NaN", SPREADS[1], nan=1 / 6)
    yield Case("one in six of all runs ends in NaN", SPREADS[1], nan=1 / 6, both=True)
    yield Case("alike, ten times as many spikes", SPREADS[1], spikes=10 * SPIKES)
    yield Case("half of FP8's runs diverge", SPREADS[1], diverges=0.5)
    for spread in SPREADS:
        yield Case("FP8 diverges", spread, diverges=1.0)


def generated(
    case: Case, draw: random.Random, levels: dict[int, float] | None = None
) -> Train:
    """Training in a world: the same data for all runs, a level for each seed."""
    data = [draw.gauss(0, DATA) for _ in range(STEPS)]
    seeds = {} if levels is None else levels

    def train(precision: str, how: Course) -> Curve:
        fp8 = precision == "fp8"
        seed = seeds.setdefault(how.seed, draw.gauss(0, case.spread))
        level = _level(case, seed, draw) if fp8 else seed
        losses = [
            (7 - 4 * case.learned * (1 - 1 / (1 + step / 8)))
            * math.exp(level * step / STEPS + data[step] + draw.gauss(0, STEP))
            for step in range(STEPS)
        ]
        if fp8:
            losses = _climbing(losses, case.climbs)
        norms = [
            math.exp(draw.gauss(0, NORM)) * (6 if draw.random() < case.spikes else 1)
            for _ in range(STEPS)
        ]
        nan = (fp8 or case.both) and draw.random() < case.nan
        lost = fp8 and draw.random() < case.diverges
        if not lost and not nan:
            return Curve(precision, how, tuple(losses), tuple(norms))
        at = draw.randrange(WARMUP, STEPS - STEPS // 8)
        if nan or draw.random() < 0.5:  # NaN, or a loss that rises
            return Curve(precision, how, tuple(losses[:at]), tuple(norms[:at]), True)
        risen = [
            max(loss, min(9.0, losses[at] + 0.5 * (i - at))) for i, loss in _at(losses)
        ]
        return Curve(precision, how, (*losses[:at], *risen[at:]), tuple(norms))

    return train


def _level(case: Case, seed: float, draw: random.Random) -> float:
    """How much higher FP8's loss is in the end (log), where bf16's is ``seed``."""
    worse = case.gap * case.spread
    if case.apart is None:
        return worse + draw.gauss(0, case.spread)
    return worse + seed + draw.gauss(0, case.apart * case.spread)


def _climbing(losses: Sequence[float], share: float) -> list[float]:
    """The same, but in the last half a share of what was learned is lost again."""
    learned, half = losses[0] - losses[-1], len(losses) // 2
    return [loss + share * learned * max(0, i - half) / half for i, loss in _at(losses)]


def _at(losses: Sequence[float]) -> Iterator[tuple[int, float]]:
    return enumerate(losses)


class Pool(NamedTuple):
    """Real runs, by precision and seed."""

    bf16: dict[int, Curve]
    fp8: dict[int, Curve]
    wild: dict[int, Curve]


def pool(path: Path) -> Pool:
    """The recorded runs; ``wild`` are those of FP8 at too high a learning rate."""
    found = Pool({}, {}, {})
    with path.open(encoding="utf-8") as lines:
        for run in map(json.loads, lines):
            losses, norms = tuple(run["losses"]), tuple(run["grad_norms"])
            how = Course(run["seed"], run["warmup_steps"], run["steps"], 10)
            nan = len(losses) < run["steps"]
            made = Curve(run["precision"], how, losses, norms, nan)
            kind = found.fp8 if run["precision"] == "fp8" else found.bf16
            if run["times"] == 1:
                kind[run["seed"]] = made
            elif run["precision"] == "fp8":
                found.wild[run["seed"]] = made
    return found


def recorded(runs: Pool, name: str, draw: random.Random) -> Train:
    """Training by real runs.

    FP8's part is played by bf16 of other seeds, by FP8 of the same seeds, or by runs
    that diverge.
    """
    seeds = draw.sample(sorted(runs.bf16), 2 * MOST_SEEDS)
    wild = draw.sample(sorted(runs.wild), min(MOST_SEEDS, len(runs.wild)))

    def train(precision: str, how: Course) -> Curve:
        place = how.seed - SEED
        if precision == "bf16":
            made = runs.bf16[seeds[place]]
        elif name == "alike":
            made = runs.bf16[seeds[MOST_SEEDS + place]]
        elif name == "FP8":
            made = runs.fp8[seeds[place]]
        else:
            made = runs.wild[wild[place % len(wild)]]
        return made._replace(precision=precision, course=how)

    return train


def verdict(train: Train, steps: int) -> tuple[str, int]:
    """What is said at the config's warmup, and by how many runs."""
    conditions, runs = Conditions(WARMUP), list[Curve]()
    while ask := wanted(SPACE, POINT, runs, conditions, steps):
        if ask.course.warmup_steps != WARMUP:
            break
        runs.append(train(str(SPACE.value(ask.point, "precision")), ask.course))
    found = finding(runs)
    assert found is not None
    return found.verdict, len(runs)


def row(
    name: str, spread: float, right: str, said: list[tuple[str, int]]
) -> dict[str, Any]:
    """Shares of the verdicts, and what they cost."""
    counted = Counter(verdict for verdict, _ in said)
    share = counted[right] / len(said) if right else None
    refused = counted[OUTSIDE] + counted[DIVERGED]
    reached = {
        INSIDE: refused < WRONG * len(said),
        DIVERGED: counted[right] >= FOUND * len(said),
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


def measured(count: int, first: int, curves: Path) -> Iterator[dict[str, Any]]:
    """Every world, then the real runs, where there are any."""
    for case in cases():
        draws = [random.Random(first + n) for n in range(count)]  # noqa: S311
        said = [verdict(generated(case, draw), STEPS) for draw in draws]
        yield row(case.name, case.spread, case.right, said)
    if not curves.exists():
        return
    runs = pool(curves)
    steps = next(iter(runs.bf16.values())).course.steps
    wishes = {"alike": INSIDE, "FP8": "", "FP8 diverges": DIVERGED}
    for name, right in wishes.items():
        draws = [random.Random(first + n) for n in range(count)]  # noqa: S311
        said = [verdict(recorded(runs, name, draw), steps) for draw in draws]
        yield row(f"real runs: {name}", 0.0, right, said)


def markdown(rows: Sequence[dict[str, Any]], first: int) -> str:
    """The page."""
    head = ("world", "between seeds", "right", "verdicts", "runs")
    count = rows[0]["searches"]
    return "\n".join(
        (
            "# Verdicts of the stability stage where the truth is known",
            "",
            f"{count} comparisons each, {of_seeds(first, count, TUNED)}. "
            "Right is INSIDE where FP8 is bf16 of the same seed "
            f"(but for {BESIDE} of the deviation between seeds) or one more seed of "
            f"bf16 (to reach: outside or diverged below {WRONG:.0%}), DIVERGED where "
            f"every run of FP8 diverges or loses {SEEN:.0%} of what it learned (to "
            f"reach: {FOUND:.0%}). Where FP8 is worse by a few deviations between "
            "seeds no verdict is right: the shares say from where on it is seen; nor "
            "is any where some runs end in NaN. Real runs are of the rehearsal's model "
            "on a CPU; the diverging ones have 300 times its learning rate, and were "
            "in view when divergence was defined. "
            "Runs: trained for one verdict, on average.",
            "",
            machine.table([_cells(row) for row in rows], head),
        )
    )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    right = "" if row["right"] is None else f"{100 * row['right']:.1f} %"
    return (
        row["world"],
        f"{100 * row['spread']:.1f} %" if row["spread"] else "",
        right + " MISSED" * (not row["reached"]),
        ", ".join(f"{name} {n}" for name, n in row["verdicts"].items()),
        f"{row['runs']:.1f}",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all worlds; exit code 1 where a figure to reach is missed."""
    parser = for_worlds("search.seeds", __doc__, FIRST)
    parser.add_argument("--curves", type=Path, default=CURVES, help="real runs")
    options = parser.parse_args(arguments)
    rows = list(measured(options.searches, options.first, options.curves))
    page = markdown(rows, options.first)
    return told("stability_aa", rows, page, written=options.record)


if __name__ == "__main__":
    sys.exit(main())
