"""Which loss run comes next, how long loss runs are, and what time they take.

Pairs of bf16 and FP8 run seed by seed at the config's warmup, with more seeds while
the verdict is inconclusive. Then shorter warmups follow while FP8 stays inside the
spread of bf16 seeds, or longer ones until it does.

A warmup longer than half a run is cut to that, which is harsher. If FP8 or bf16
diverges under it, pairs follow over the config's own first steps, the start of its true
warmup: what diverges there diverges in the config's own run too. If nothing diverges
under the shorter warmup, those pairs would show nothing new.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from fp8tune.job import Unknown
from fp8tune.search.history import History
from fp8tune.search.plan import TrainConfig, warmup_names
from fp8tune.search.stability.compare import (
    MAX_SEEDS,
    SEEDS,
    Comparison,
    LossCurve,
    LossVerdict,
)
from fp8tune.search.stability.findings import (
    WARMUP_PAIRS,
    Stability,
    assess,
)
from fp8tune.trials.loss_run import LossRun
from fp8tune.trials.record import Record
from fp8tune.trials.space import Point, Space

FIRST_SEED = 42
MIN_STEPS, MAX_STEPS = 24, 200  # of a run
BUDGET_SHARE = 0.25  # of the budget, for all loss runs together
PLANNED_SHARE = 0.8  # of that time is planned: some runs take longer than others
VERDICT_RUNS = 2 * SEEDS
USUAL_RUNS = VERDICT_RUNS + 2 * WARMUP_PAIRS  # with one more warmup
STEPS_PER_WARMUP = 2  # at least, so that most of a run is at the peak learning rate
WARMUP_FACTORS = (4, 2)  # divide the config's warmup for shorter ones, else multiply


class Conditions(NamedTuple):
    """Whether and how a search can compare losses.

    ``refusal`` says why it cannot. ``steps`` is the length of every run where it is
    fixed, and ``can_run`` tells which runs exist where not all do. Without a learning
    rate schedule (``scheduled``) there is no other warmup to try.
    """

    warmup_steps: int
    may_change_warmup: bool = False
    refusal: str = ""
    steps: int = 0
    can_run: Callable[[dict[str, Any], LossRun], bool] = lambda _knobs, _run: True
    scheduled: bool = True


def conditions_for_trials(
    config: TrainConfig, allow: Sequence[str], ranks: int
) -> Conditions:
    """Return the conditions of trials that run one of so many ranks."""
    refusal = ""
    if ranks > 1:
        refusal = (
            f"a trial is one of {ranks} ranks, whose losses are not the run's; compare "
            "the run with the same in bf16 on all GPUs"
        )
    try:
        steps: int = config.job["warmup_steps"]
        if config.job["schedule"] == "none":
            return Conditions(0, refusal=refusal, scheduled=False)
    except Unknown as missing:
        return Conditions(0, refusal=refusal or f"{missing} is not known")
    may_change = not set(warmup_names(config.trainer)).isdisjoint(allow)
    return Conditions(steps, may_change, refusal)


def conditions_for_replay(
    config: TrainConfig,
    loss_records: Sequence[Record],
    allow: Sequence[str],
    can_run: Callable[[dict[str, Any], LossRun], bool],
) -> Conditions | None:
    """Return the conditions of a replay; ``None`` without recorded loss runs."""
    steps = next((r.loss_run.steps for r in loss_records if r.loss_run), 0)
    conditions = conditions_for_trials(config, allow, ranks=1)
    return conditions._replace(steps=steps, can_run=can_run) if steps else None


class NextRun(NamedTuple):
    """A loss run to make, at a setting of that precision."""

    precision: str
    point: Point
    loss_run: LossRun


def next_run(
    space: Space,
    point: Point,
    curves: Sequence[LossCurve],
    conditions: Conditions,
    steps: int,
) -> NextRun | None:
    """Return the run to make after these at an FP8 setting; ``None`` if none is needed.

    ``steps`` is the length of runs if there is no run yet.
    """
    steps = curves[0].loss_run.steps if curves else steps
    done = {(curve.precision, curve.loss_run) for curve in curves}
    for warmup, seeds in _warmups_and_seeds(curves, conditions, steps):
        for seed in range(FIRST_SEED, FIRST_SEED + seeds):
            config = conditions.warmup_steps, conditions.may_change_warmup
            run = LossRun(seed, warmup, steps, *config)
            for precision in ("bf16", "fp8"):
                if (precision, run) in done:
                    continue
                setting = space.in_precision(point, precision)
                if not setting or not conditions.can_run(space.values(setting), run):
                    return None
                return NextRun(precision, setting, run)
    return None


def _warmups_and_seeds(
    curves: Sequence[LossCurve], conditions: Conditions, steps: int
) -> Iterator[tuple[int, int]]:
    """Yield the warmups to run and how many seeds each, as far as is known by now."""
    tested = min(conditions.warmup_steps, steps // STEPS_PER_WARMUP)
    tested = curves[0].loss_run.warmup_steps if curves else tested
    yield tested, SEEDS
    result = assess(curves)
    if result is None:
        return
    if result.is_cut:
        yield from _first_steps(result)
    elif result.verdict == LossVerdict.INCONCLUSIVE:
        yield tested, min(MAX_SEEDS, result.tested.seeds + 1)
    elif conditions.scheduled:
        yield from _other_warmups(result, steps)


def _first_steps(result: Stability) -> Iterator[tuple[int, int]]:
    """Yield seeds for the shorter warmup, then for the config's own first steps."""
    yield from _one_more_seed(result.tested)
    if any(result.tested.diverged):
        yield result.config_warmup, SEEDS
        if result.first_steps:
            yield from _one_more_seed(result.first_steps)


def _one_more_seed(tested: Comparison) -> Iterator[tuple[int, int]]:
    """Yield another seed, unless bf16 diverges too: then FP8 is not to blame."""
    if tested.verdict == LossVerdict.INCONCLUSIVE and not tested.diverged[1]:
        yield tested.warmup_steps, min(MAX_SEEDS, tested.seeds + 1)


def _other_warmups(result: Stability, steps: int) -> Iterator[tuple[int, int]]:
    """Yield shorter or longer warmups until one stays inside the spread."""
    tested, needed = result.tested.warmup_steps, result.pairs_needed
    if result.verdict == LossVerdict.INSIDE:
        warmups = [n for by in WARMUP_FACTORS if 0 < (n := tested // by) < tested]
    else:
        base = tested or max(1, steps // 8)
        longer = [base, *(base * by for by in reversed(WARMUP_FACTORS))]
        warmups = [n for n in longer if tested < n <= steps // STEPS_PER_WARMUP]
    known = {other.warmup_steps: other for other in result.others}
    for warmup in dict.fromkeys(warmups):
        yield warmup, needed
        tried = known.get(warmup)
        if tried is None or tried.seeds < needed or tried.verdict == LossVerdict.INSIDE:
            return
        if tried.verdict == LossVerdict.INCONCLUSIVE and tried.gap > tried.spread:
            yield warmup, min(MAX_SEEDS, tried.seeds + 1)


class RunCost(NamedTuple):
    """Seconds before a run's first step, and of each step."""

    start: float
    step: float

    def seconds(self, steps: int) -> float:
        """Return the time of a run of so many steps [s]."""
        return self.start + steps * self.step


def pair_cost(history: History, point: Point) -> RunCost | None:
    """Return the mean cost of a run at an FP8 setting and its bf16 counterpart."""
    settings = (history.space.in_precision(point, name) for name in ("fp8", "bf16"))
    costs = [cost for p in settings if p and (cost := run_cost(history, p))]
    return RunCost(*map(statistics.fmean, zip(*costs, strict=True))) if costs else None


def run_cost(history: History, point: Point) -> RunCost | None:
    """Return the median cost of a run at one setting, by its timed trials."""
    records = [
        trial.record
        for trial in history.runs(point)
        if trial.record.ok and trial.record.step_ms
    ]
    if not records:
        return None
    stepping = [sum(r.all_step_ms or r.step_ms) / 1e3 for r in records]
    starts = (max(0.0, r.cost_s - s) for r, s in zip(records, stepping, strict=True))
    steps = (statistics.median(r.step_ms) / 1e3 for r in records)
    return RunCost(statistics.median(starts), statistics.median(steps))


def run_length(cost: RunCost | None, left: float, budget: float) -> int:
    """Return the steps of each run; 0 if the time left [s] is too short for a verdict.

    Runs take their share of the budget: with one more warmup if that fits, else as many
    as a verdict needs. Runs of the fewest steps may take all the time left.
    """
    if cost is None:
        return 0
    seconds = PLANNED_SHARE * min(left, BUDGET_SHARE * budget)
    for runs in (USUAL_RUNS, VERDICT_RUNS):
        steps = int((seconds / runs - cost.start) / max(cost.step, 1e-6))
        if steps >= MIN_STEPS:
            return min(MAX_STEPS, steps)
    shortest = VERDICT_RUNS * cost.seconds(MIN_STEPS)
    return MIN_STEPS if shortest <= PLANNED_SHARE * left else 0


def reserve(cost: RunCost | None, budget: float) -> float:
    """Return the time that a search keeps for loss runs [s]; 0 if they do not fit."""
    share = BUDGET_SHARE * budget
    if cost is None or VERDICT_RUNS * cost.seconds(MIN_STEPS) > PLANNED_SHARE * share:
        return 0.0
    return min(share, USUAL_RUNS * cost.seconds(MAX_STEPS) / PLANNED_SHARE)


def enough(cost: RunCost, remaining: float, other: float, *, started: bool) -> float:
    """Return a budget that holds the remaining runs and ``other`` trials [s]."""
    if started:
        return other + remaining
    kept = min(other / (1 - BUDGET_SHARE), other + reserve(cost, math.inf))
    return max(kept, remaining / BUDGET_SHARE)
