"""Generated losses of FP8 and bf16 whose truth is known."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from fp8tune.search.losses.compare import LossCurve, LossVerdict
from fp8tune.trials.record import LossRun
from fp8tune.trials.space import Knob, Space

SPACE = Space([Knob("train.mixed_precision", ("bf16", "fp8"), "precision")])
POINT = (1,)
WARMUP, STEPS = 10, 48
SPREADS = (0.001, 0.005, 0.02)
"""Relative standard deviation of the loss between seeds."""
GAPS = (0, 0.5, 1, 2, 4, 8)
"""By how many of these deviations FP8's loss is higher."""
BESIDE, OWN = 0.1, None
"""How far FP8 is from bf16 of the same seed, in these deviations: about as in the
rehearsal's real runs (0.07, ``seed_curves.jsonl``), or it is a seed of its own."""
CLIMBS = (0.05, 0.1, 0.2, 0.4)
"""Of what is learned, the share that FP8 loses again in the last half of each run."""
SEEN = 0.2
"""The share from which that has to be found."""
DATA, STEP = 0.01, 0.003
"""Relative deviation of the loss from batch to batch, the same for all runs, and of a
run's own."""
NORM, SPIKES = 0.1, 0.005
"""Deviation of gradient norms (log), and how often one spikes, in either precision."""

Train = Callable[[str, LossRun], LossCurve]


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
            return LossVerdict.DIVERGED
        wrong = self.gap or self.diverges or self.climbs or self.nan
        return "" if wrong else LossVerdict.INSIDE


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
    case: Case,
    draw: random.Random,
    levels: dict[int, float] | None = None,
    longest: int = STEPS,
) -> Train:
    """Training in a world: the same data for all runs, a level for each seed.

    Runs have at most ``longest`` steps.
    """
    data = [draw.gauss(0, DATA) for _ in range(longest)]
    seeds = {} if levels is None else levels

    def train(precision: str, how: LossRun) -> LossCurve:
        fp8, steps = precision == "fp8", how.steps
        seed = seeds.setdefault(how.seed, draw.gauss(0, case.spread))
        level = _level(case, seed, draw) if fp8 else seed
        losses = [
            (7 - 4 * case.learned * (1 - 1 / (1 + step / 8)))
            * math.exp(level * step / steps + data[step] + draw.gauss(0, STEP))
            for step in range(steps)
        ]
        if fp8:
            losses = _climbing(losses, case.climbs)
        norms = [
            math.exp(draw.gauss(0, NORM)) * (6 if draw.random() < case.spikes else 1)
            for _ in range(steps)
        ]
        nan = (fp8 or case.both) and draw.random() < case.nan
        lost = fp8 and draw.random() < case.diverges
        if not lost and not nan:
            return LossCurve(precision, how, tuple(losses), tuple(norms))
        at = draw.randrange(WARMUP, steps - steps // 8)
        if nan or draw.random() < 0.5:  # NaN, or a loss that rises
            return LossCurve(
                precision, how, tuple(losses[:at]), tuple(norms[:at]), True
            )
        risen = [
            max(loss, min(9.0, losses[at] + 0.5 * (i - at))) for i, loss in _at(losses)
        ]
        return LossCurve(precision, how, (*losses[:at], *risen[at:]), tuple(norms))

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
