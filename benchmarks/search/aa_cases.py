"""Cases whose truth is known, for searches of a setting against itself and others."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import NamedTuple

from benchmarks.process import RESULTS
from fp8tune.search.statistics import ON_CPU
from fp8tune.trials.record import parse_all
from fp8tune.trials.space import Knob

SPREADS = (0.003, 0.005, 0.01)
"""Relative standard deviation between runs of a setting.

No published table repeats runs on H100 or H200; these are what the planning of such
comparisons assumes. Within a run see ``STEP``."""
STEP = 0.0015
"""Relative standard deviation between steps: 0.11 % on 1 GPU, 0.17 % on 8, the medians
of 53 published runs (prime-rl benchmarks)."""
GAIN = 0.02
LARGE_GAIN = 0.05
GAIN_ON_CPU = 2 * ON_CPU.same
DRIFT = 0.05
"""What trials lose on a GPU that is not always as fast, see ``DRIFTS``."""
DRIFTS = ("after 20 min", "for 20 min", "in the first hour", "for 6 min")
"""When: all trials that begin after it, a node that has become warm; those in a window
that begins at a random time; each a little more than the one before; those in a window
of three or four trials, which may hit both runs of one setting and none of another."""
BAD_RUNS, BAD_RUN = 0.05, 0.1
"""Share of runs that are bad, and what such a run loses: about as much as the worst of
40 runs on a CPU did (9 %, ``REAL``)."""
WARM_S, HOUR_S = 1200.0, 3600.0
WINDOWS_S = {DRIFTS[1]: 1200.0, DRIFTS[3]: 360.0}
IN_BF16 = 0.8
"""What bf16 reaches of FP8's speed."""
RUNS, STEPS = 40, 16
SECONDS = 100.0
BUDGET_S = 2 * 3600.0
SHORT_S = 1200.0, 2400.0  # end before all is known: `inconclusive` is right as well
SPACES = {
    "two settings": (Knob("train.loss_fn", ("cross_entropy", "other")),),
    "twelve settings": (
        Knob("train.batch_size", (1, 2, 4, 8, 16, 32), "micro_batch"),
        Knob("train.loss_fn", ("cross_entropy", "other")),
    ),
}
WORDS = {0: "none", 1: "one", 6: "six"}
PRECISION = Knob("train.mixed_precision", ("bf16", "fp8"), "precision", frozen=True)
REAL = RESULTS / "runs_cpu.jsonl"
"""Runs of the rehearsal's config on an idle CPU of two cores
(``python -m benchmarks.on_gpu repeat configs/rehearsal_cpu.toml --device cpu``)."""


class Case(NamedTuple):
    """A space by its name, what is gained where, and how runs differ.

    One value of a knob gains, so that half of the settings do, or with ``lone`` a
    single setting: a search has to come upon it. ``luck`` holds relative speeds of real
    runs of one setting, to draw from; ``drift`` is what all trials lose after a while,
    and ``rehearsed`` says that they are a CPU's. ``bad`` is the share of runs that lose
    ``BAD_RUN``.
    """

    space: str
    gain: float
    spread: float
    luck: tuple[float, ...] = ()
    drift: float = 0.0
    when: str = DRIFTS[0]
    rehearsed: bool = False
    budget_s: float = BUDGET_S
    bad: float = 0.0
    lone: bool = False

    @property
    def faster(self) -> int:
        """How many settings are faster than the others."""
        if not self.gain:
            return 0
        count = math.prod(len(knob.values) for knob in SPACES[self.space])
        return 1 if self.lone else count // 2

    @property
    def right(self) -> tuple[str, ...]:
        """The verdicts that are right."""
        said = "faster" if self.gain else "same"
        return (said, "inconclusive") if self.budget_s < BUDGET_S else (said,)


CASES = (
    tuple(
        Case(space, gain, spread)
        for space in SPACES
        for gain in (0.0, GAIN)
        for spread in SPREADS
    )
    + tuple(
        Case("twelve settings", gain, 0.005, drift=DRIFT, when=when)
        for when in DRIFTS[:3]
        for gain in (0.0, GAIN)
    )
    + tuple(
        Case(space, gain, 0.003, drift=DRIFT, when=DRIFTS[3])
        for space in SPACES
        for gain in (0.0, GAIN)
    )
)
CASES += tuple(
    Case("two settings", gain, SPREADS[0], bad=BAD_RUNS) for gain in (0.0, GAIN)
)
CASES += tuple(
    Case("twelve settings", gain, SPREADS[-1], budget_s=budget_s)
    for budget_s in SHORT_S
    for gain in (0.0, GAIN)
)
CASES += tuple(
    Case("twelve settings", gain, SPREADS[1], lone=True) for gain in (GAIN, LARGE_GAIN)
)


def measured(path: Path) -> list[Case]:
    """Cases whose runs differ as the recorded runs of one setting do."""
    with path.open(encoding="utf-8") as lines:
        runs = [record for record in parse_all(lines) if record.ok]
    speeds = [record.tokens_per_second for record in runs]
    rehearsed = any(r.rehearsal for r in runs)
    middle = statistics.fmean(speeds)
    luck = tuple(speed / middle for speed in speeds)
    spread = statistics.stdev(luck)
    found = GAIN_ON_CPU if rehearsed else GAIN
    return [
        Case("two settings", gain, spread, luck, rehearsed=rehearsed)
        for gain in (0.0, found)
    ]
