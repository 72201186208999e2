"""Which run comes next, how long runs are, and what time they need.

Pairs of FP8 and bf16 in turn, seed by seed, at the config's warmup; more seeds while
the verdict is inconclusive. Then shorter warmups while FP8 stays inside the spread, or
longer ones until it does.

A warmup that is longer than a run can hold is cut to what it holds, which is harsher.
Where FP8 or bf16 diverges under that, pairs follow in the config's own first steps, the
begin of its true ramp: what diverges there diverges as it would be run, whatever
comes later. Where nothing diverges under the harsher one they would tell nothing new.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from fp8tune.search.stability.compare import (
    INCONCLUSIVE,
    INSIDE,
    MOST_SEEDS,
    SEEDS,
    Compared,
)
from fp8tune.search.stability.curve import Curve
from fp8tune.search.stability.finding import RUNG, Finding, finding, in_precision
from fp8tune.trials.loss_run import LossRun
from fp8tune.trials.space import Point, Space
from fp8tune.trials.trial import Trial, timed

SEED = 42
"""The first seed; others follow."""
LEAST, MOST = 24, 200
"""Steps of a run."""
SHARE = 0.25
"""Of the budget, for all runs together."""
USED = 0.8
"""Of that time, what runs are planned to take: some take longer than others."""
CORE = 2 * SEEDS
"""Runs that a verdict needs."""
WHOLE = CORE + 2 * RUNG
"""Runs of a comparison as it mostly goes: with one more warmup."""
LONGEST = 2
"""A run has at least so many times the steps of its warmup, so that most of it is at
the peak learning rate."""
RUNGS = (4, 2)
"""What shorter warmups divide the config's by; longer ones are so many times it."""


class Conditions(NamedTuple):
    """What a search knows of comparing losses.

    ``refusal`` says why that cannot be; ``steps`` is the length of every run where that
    is fixed, and ``offered`` tells which runs can be had, where not all can. Without a
    schedule there is no warmup to change: ``scheduled`` is false.
    """

    warmup_steps: int
    free: bool = False
    refusal: str = ""
    steps: int = 0
    offered: Callable[[dict[str, Any], LossRun], bool] = lambda _knobs, _course: True
    scheduled: bool = True


class Ask(NamedTuple):
    """A run that is wanted: its setting, how it is trained, and why."""

    point: Point
    course: LossRun
    reason: str


def wanted(
    space: Space,
    point: Point,
    runs: Sequence[Curve],
    conditions: Conditions,
    steps: int,
) -> Ask | None:
    """The next run at an FP8 setting, after these; ``None`` when all is said.

    ``steps`` is the length of runs if none has been made.
    """
    steps = runs[0].how.steps if runs else steps
    tested = runs[0].how.warmup_steps if runs else tested_warmup(conditions, steps)
    for warmup, seeds in _rungs(runs, tested, steps, conditions.scheduled):
        for seed in range(SEED, SEED + seeds):
            how = LossRun(seed, warmup, steps, conditions.warmup_steps, conditions.free)
            for precision in ("bf16", "fp8"):
                if any(run[:2] == (precision, how) for run in runs):
                    continue
                other = in_precision(space, point, precision)
                if other is None or not conditions.offered(space.values(other), how):
                    return None
                why = f"{precision}, seed {seed}, warmup {warmup}, {steps} steps"
                return Ask(other, how, f"does FP8 learn as bf16? {why}")
    return None


def tested_warmup(conditions: Conditions, steps: int) -> int:
    """The config's warmup, or the longest that a run of so many steps can hold."""
    return min(conditions.warmup_steps, steps // LONGEST)


def _rungs(
    runs: Sequence[Curve], tested: int, steps: int, scheduled: bool
) -> Iterator[tuple[int, int]]:
    """Warmups and how many seeds each gets, as far as the runs so far tell."""
    yield tested, SEEDS
    found = finding(runs)
    if found is None:
        return
    if found.harsher:
        yield from _harsher(found)
        return
    if found.verdict == INCONCLUSIVE:
        yield tested, min(MOST_SEEDS, found.tested.seeds + 1)
    if found.verdict == INCONCLUSIVE or not scheduled:
        return
    known = {other.warmup_steps: other for other in found.others}
    for warmup in _ladder(tested, steps, shorter=found.verdict == INSIDE):
        yield warmup, found.needed
        tried = known.get(warmup)
        if tried is None or tried.seeds < found.needed or tried.verdict == INSIDE:
            return
        if tried.verdict == INCONCLUSIVE and tried.gap > tried.spread:
            yield warmup, min(MOST_SEEDS, tried.seeds + 1)


def _harsher(found: Finding) -> Iterator[tuple[int, int]]:
    """Seeds of a warmup that was cut short, then of the config's own first steps."""
    yield from _more(found.tested)
    if any(found.tested.diverged):
        yield found.given_warmup, SEEDS
        if found.start:
            yield from _more(found.start)


def _more(tested: Compared) -> Iterator[tuple[int, int]]:
    """One seed more, unless what diverges in bf16 as well tells nothing of FP8."""
    if tested.verdict == INCONCLUSIVE and not tested.diverged[1]:
        yield tested.warmup_steps, min(MOST_SEEDS, tested.seeds + 1)


def _ladder(tested: int, steps: int, *, shorter: bool) -> list[int]:
    """Other warmups to try, in order, until one stays inside the spread."""
    if shorter:
        found = [tested // by for by in RUNGS]
        return [n for n in dict.fromkeys(found) if 0 < n < tested]
    base = tested or max(1, steps // 8)
    longer = [base, *(base * by for by in reversed(RUNGS))]
    return [n for n in longer if tested < n <= steps // LONGEST]


class Cost(NamedTuple):
    """What a run takes [s]: before its first step, and each step."""

    start: float
    step: float

    def of(self, steps: int) -> float:
        """A run of so many steps."""
        return self.start + steps * self.step


def cost(space: Space, point: Point, trials: Sequence[Trial]) -> Cost | None:
    """What a run takes at an FP8 setting, half of them in bf16, by its trials."""
    every = (in_precision(space, point, name) for name in ("fp8", "bf16"))
    found = [each for p in every if p and (each := own_cost(space, p, trials))]
    if not found:
        return None
    starts, steps = zip(*found, strict=True)
    return Cost(statistics.fmean(starts), statistics.fmean(steps))


def own_cost(space: Space, point: Point, trials: Sequence[Trial]) -> Cost | None:
    """What a run takes at one setting, by its own trials."""
    told = [
        trial
        for trial in timed(trials)
        if trial.record.ok
        and trial.record.step_ms
        and space.point(trial.record.knobs) == point
    ]
    if not told:
        return None
    return Cost(
        statistics.median(max(0.0, t.record.cost_s - _stepping(t)) for t in told),
        statistics.median(statistics.median(t.record.step_ms) / 1e3 for t in told),
    )


def _stepping(trial: Trial) -> float:
    """The time that a trial spent in steps [s]."""
    return sum(trial.record.all_step_ms or trial.record.step_ms) / 1e3


def steps_in(each: Cost, seconds: float) -> int:
    """The length of runs that fit into a time; 0 where they would be too short.

    With another warmup if that fits, else as many as a verdict needs.
    """
    for runs in (WHOLE, CORE):
        steps = int((USED * seconds / runs - each.start) / max(each.step, 1e-6))
        if steps >= LEAST:
            return min(MOST, steps)
    return 0


def reserve(each: Cost | None, budget: float) -> float:
    """What a search keeps for the comparison [s]: nothing where it would not fit."""
    if each is None or least_budget(each) > budget:
        return 0.0
    return min(SHARE * budget, WHOLE * each.of(MOST) / USED)


def least_budget(each: Cost) -> float:
    """The budget of which the share holds a verdict [s]."""
    return CORE * each.of(LEAST) / (SHARE * USED)
