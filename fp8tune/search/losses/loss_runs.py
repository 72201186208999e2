"""The last stage of a search: loss runs in FP8 and bf16 at the chosen setting.

Pairs of bf16 and FP8 run seed by seed at the config's warmup, with more seeds while the
verdict is inconclusive. Then shorter warmups follow while FP8 stays inside the spread
of bf16 seeds, or longer ones until it does.

A warmup longer than half a run is shortened to half a run, which is harsher. If FP8 or
bf16 diverges with it, pairs follow over the config's own first steps, the start of its
real warmup: a run that diverges there diverges in the config's own run too. If nothing
diverges with the shorter warmup, those pairs would show nothing new.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple, TypeGuard

from fp8tune.config.reader import Config
from fp8tune.estimate.whole import why_unknown
from fp8tune.job import Unknown
from fp8tune.search.budget import Budget, whole_budget
from fp8tune.search.history import History
from fp8tune.search.knobs import warmup_names
from fp8tune.search.losses.compare import (
    MAX_SEEDS,
    SEEDS,
    Comparison,
    LossCurve,
    LossVerdict,
    loss_curve,
)
from fp8tune.search.losses.findings import (
    WARMUP_PAIRS,
    Stability,
    assess,
    compared,
    curves_at,
    loss_trials,
)
from fp8tune.trials.order import PlannedTrial
from fp8tune.trials.record import LossRun, Record
from fp8tune.trials.space import Point, Space

FIRST_SEED = 42
MIN_STEPS, MAX_STEPS = 24, 200  # of a run
BUDGET_SHARE = 0.25  # of the budget, for all loss runs together
PLANNED_SHARE = 0.8  # of that time is planned: some runs take longer
VERDICT_RUNS = 2 * SEEDS
USUAL_RUNS = VERDICT_RUNS + 2 * WARMUP_PAIRS  # with one more warmup
STEPS_PER_WARMUP = 2  # at least, so that most of a run is at the peak learning rate
WARMUP_FACTORS = (4, 2)  # divide the config's warmup for shorter ones, else multiply
MAX_FAILED_RUNS = 2  # of a setting, divergence aside, end its loss runs
SLACK, MIN_LIMIT = 3.0, 60.0  # limit: times expected; at least [s]


class Conditions(NamedTuple):
    """Whether, and how, a search can compare losses.

    ``refusal`` says why it cannot. ``steps`` is the length of every run if it is fixed.
    ``can_run`` tells which runs exist if not all do. Without a learning rate schedule
    (``scheduled``) there is no other warmup to try.
    """

    warmup_steps: int
    may_change_warmup: bool = False
    refusal: str = ""
    steps: int = 0
    can_run: Callable[[dict[str, Any], LossRun], bool] = lambda _knobs, _run: True
    scheduled: bool = True


def compares_losses(conditions: Conditions | None) -> bool:
    """Return whether a search compares losses at the end, if it comes to that."""
    return conditions is not None and not conditions.refusal


def conditions_for_trials(
    config: Config, allow: Sequence[str], ranks: int
) -> Conditions:
    """Return the conditions for real trials that each run one of ``ranks`` ranks."""
    refusal = ""
    if ranks > 1:
        refusal = (
            f"a trial runs one of {ranks} ranks, whose losses are not the whole run's; "
            "compare the run with the same in bf16 on all GPUs"
        )
    try:
        steps: int = config.job["warmup_steps"]
        if config.job.find("schedule") == "none":
            return Conditions(0, refusal=refusal, scheduled=False)
    except Unknown as missing:
        why = why_unknown("warmup_steps", config) or f"{missing} is not known"
        return Conditions(0, refusal=refusal or why)
    may_change = not set(warmup_names(config.trainer)).isdisjoint(allow)
    return Conditions(steps, may_change, refusal)


def conditions_for_replay(
    config: Config,
    loss_records: Sequence[Record],
    allow: Sequence[str],
    can_run: Callable[[dict[str, Any], LossRun], bool],
) -> Conditions | None:
    """Return the conditions for a replay; ``None`` without recorded loss runs."""
    steps = next((r.loss_run.steps for r in loss_records if r.loss_run), 0)
    conditions = conditions_for_trials(config, allow, ranks=1)
    return conditions._replace(steps=steps, can_run=can_run) if steps else None


class NextRun(NamedTuple):
    """A loss run to make, in one precision."""

    precision: str
    point: Point
    loss_run: LossRun


def next_run(
    space: Space,
    point: Point,
    curves: Sequence[LossCurve],
    conditions: Conditions,
    steps: int,
    running: Collection[tuple[str, LossRun]] = (),
) -> NextRun | None:
    """Return the next run at an FP8 setting; ``None`` if none is needed.

    ``steps`` is the length of runs if there is no run yet. While some are ``running``
    (precision and run), there may be none until these have ended.
    """
    steps = curves[0].loss_run.steps if curves else steps
    done = {(curve.precision, curve.loss_run) for curve in curves}
    done.update(running)
    for warmup, seeds in _warmups_and_seeds(curves, conditions, steps):
        for seed in range(FIRST_SEED, FIRST_SEED + seeds):
            config = conditions.warmup_steps, conditions.may_change_warmup
            run = LossRun(seed, warmup, steps, *config)
            for precision in ("fp8", "bf16"):
                if (precision, run) in done:
                    continue
                setting = space.in_precision(point, precision)
                if not setting or not conditions.can_run(space.values(setting), run):
                    return None
                return NextRun(precision, setting, run)
        if any(run.warmup_steps == warmup for _, run in running):
            return None
    return None


def _warmups_and_seeds(
    curves: Sequence[LossCurve], conditions: Conditions, steps: int
) -> Iterator[tuple[int, int]]:
    """Yield the warmups to run with their numbers of seeds, as far as known by now."""
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
    """Yield seeds for the shortened warmup, then for the config's own first steps."""
    yield from _one_more_seed(result.tested)
    if any(result.tested.diverged):
        yield result.config_warmup, SEEDS
        if result.first_steps:
            yield from _one_more_seed(result.first_steps)


def _one_more_seed(tested: Comparison) -> Iterator[tuple[int, int]]:
    """Yield another seed, unless bf16 diverges too: then FP8 is not the cause."""
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
    """The time of a run: before its first step, and per step [s]."""

    start: float
    step: float

    def seconds(self, steps: int) -> float:
        """Return the time of a run of ``steps`` steps [s]."""
        return self.start + steps * self.step


def pair_cost(history: History, point: Point) -> RunCost | None:
    """Return the mean cost of a run at an FP8 setting and its bf16 counterpart."""
    settings = (history.space.in_precision(point, name) for name in ("fp8", "bf16"))
    costs = [cost for p in settings if p and (cost := run_cost(history, p))]
    return RunCost(*map(statistics.fmean, zip(*costs, strict=True))) if costs else None


def run_cost(history: History, point: Point) -> RunCost | None:
    """Return the median cost of a run at one setting, by its timed trials."""
    records = [record for record in history.runs(point).succeeded if record.step_ms]
    if not records:
        return None
    stepping = [sum(r.all_step_ms or r.step_ms) / 1e3 for r in records]
    starts = (max(0.0, r.cost_s - s) for r, s in zip(records, stepping, strict=True))
    steps = (statistics.median(r.step_ms) / 1e3 for r in records)
    return RunCost(statistics.median(starts), statistics.median(steps))


def run_length(cost: RunCost | None, left: float, budget: float) -> int:
    """Return the steps of each run; 0 if the time left is too short for a verdict.

    Runs take their share of the budget: enough for one more warmup if that fits, else
    for a verdict. Runs of the fewest steps may take all the time left.
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
    """Return the time reserved for loss runs [s]; 0 if they do not fit."""
    share = BUDGET_SHARE * budget
    if cost is None or VERDICT_RUNS * cost.seconds(MIN_STEPS) > PLANNED_SHARE * share:
        return 0.0
    return min(share, USUAL_RUNS * cost.seconds(MAX_STEPS) / PLANNED_SHARE)


def enough(cost: RunCost, remaining: float, other: float, *, started: bool) -> float:
    """Return a budget for the remaining runs and ``other`` trials [s]."""
    if started:
        return other + remaining
    kept = min(other / (1 - BUDGET_SHARE), other + reserve(cost, math.inf))
    return max(kept, remaining / BUDGET_SHARE)


class Stage(NamedTuple):
    """The loss runs of a search."""

    conditions: Conditions
    budget: Budget

    def reserve(self, history: History, point: Point | None) -> float:
        """Return the time to reserve for loss runs during the search [s]."""
        if not _is_fp8(point, history) or self._obstacle(history, point):
            return 0.0
        cost = pair_cost(history, point)
        if cost and _curves(history, point):
            return self._remaining(history, point, cost)
        return reserve(cost, self.budget.seconds)

    def started(
        self, history: History, running: Sequence[PlannedTrial] = ()
    ) -> PlannedTrial | None:
        """Return the next run of an unfinished comparison, beside those running."""
        space = history.space
        settings = compared(space, history.trials)
        settings += [p.point for p in running if _is_fp8(p.point, history)]
        runs = (self.next(history, point, running) for point in dict.fromkeys(settings))
        return next((run for run in runs if run), None)

    def next(
        self,
        history: History,
        point: Point | None,
        running: Sequence[PlannedTrial] = (),
    ) -> PlannedTrial | None:
        """Return the next run at a setting; ``None`` if none is needed or none fits."""
        if not _is_fp8(point, history) or self._obstacle(history, point):
            return None
        curves, steps = _curves(history, point), self.conditions.steps
        now = _running_at(history.space, point, running)
        if now:
            steps = now[0][1].steps
        if not curves and not steps:
            cost = pair_cost(history, point)
            steps = run_length(cost, self.budget.left, self.budget.seconds)
            if not steps:
                return None
        run = next_run(history.space, point, curves, self.conditions, steps, now)
        if run is None:
            return None
        if self.budget.left <= self._expected(history, run.point, run.loss_run):
            return None
        seed, warmup, steps, *_ = run.loss_run
        how = f"{run.precision}, seed {seed}, warmup {warmup}, {steps} steps"
        reason = f"does FP8 learn as bf16? {how}"
        return PlannedTrial(run.point, "stability", reason, run.loss_run)

    def limit(self, history: History, point: Point, run: LossRun, left: float) -> float:
        """Return the time limit of a run, at most the time left [s]."""
        return min(left, MIN_LIMIT + SLACK * self._expected(history, point, run))

    def not_checked(
        self, history: History, point: Point | None, *, stopped: bool
    ) -> tuple[str, float]:
        """Return why an FP8 setting was not fully compared; ``""`` if it was.

        Also returns a budget that is enough [s], if the time was too short, else 0.
        """
        if not _is_fp8(point, history):
            return "", 0.0
        if obstacle := self._obstacle(history, point):
            return obstacle, 0.0
        curves = _curves(history, point)
        steps = self.conditions.steps or MIN_STEPS
        if next_run(history.space, point, curves, self.conditions, steps) is None:
            return "" if curves else "no loss run is recorded", 0.0
        if stopped:
            return "stopped; the same command continues", 0.0
        cost = pair_cost(history, point)
        if cost is None:
            return "the time of its runs is unknown", 0.0
        # the same command with a larger budget confirms again and may add one trial
        confirmed = sum(
            trial.record.cost_s
            for trial in history.trials
            if trial.stage == "confirm" and trial.budget_s == self.budget.seconds
        )
        longest = max((trial.record.cost_s for trial in history.timed), default=0.0)
        remaining = self._remaining(history, point, cost)
        other, started = self.budget.spent + confirmed + longest, bool(curves)
        needed = enough(cost, remaining, other, started=started)
        budget_s = whole_budget(max(self.budget.seconds + 1, needed))
        return f"no time{' for its other runs' * started}", budget_s

    def _obstacle(self, history: History, point: Point) -> str:
        """Return why no run is possible at an FP8 setting, else ``""``."""
        if self.conditions.refusal:
            return self.conditions.refusal
        runs = [record for record in _records(history, point) if record.loss_run]
        failed = [record for record in runs if loss_curve(record, "") is None]
        if not failed:
            return ""
        outcome, message = failed[-1].outcome, failed[-1].message
        if outcome != "oom" and len(failed) < MAX_FAILED_RUNS:
            return ""
        if failed[-1].ok:
            return "a run printed fewer losses than it has steps"
        return f"a run ended with `{outcome}`{f': {message}' if message else ''}"

    def _expected(self, history: History, point: Point, run: LossRun) -> float:
        """Return the expected time of a run [s], from earlier runs or trials.

        That of the slowest setting where its own has not run.
        """
        earlier = [
            trial.record.cost_s
            for trial in history.trials
            if trial.stage == "stability"
            and history.point_of(trial) == point
            and loss_curve(trial.record, "")
        ]
        if earlier:
            return max(earlier)
        if cost := run_cost(history, point) or pair_cost(history, point):
            return cost.seconds(run.steps)
        others = filter(None, (run_cost(history, p) for p in history.settings))
        return max((cost.seconds(run.steps) for cost in others), default=0.0)

    def _remaining(self, history: History, point: Point, cost: RunCost) -> float:
        """Return the time of the runs still needed [s], judged by the last ones."""
        curves = _curves(history, point)
        steps = self.conditions.steps or MIN_STEPS
        steps = curves[0].loss_run.steps if curves else steps
        every = [*curves]
        while run := next_run(history.space, point, every, self.conditions, steps):
            flat = (1.0,) * steps
            like = [curve for curve in every if curve.precision == run.precision]
            like = like or [LossCurve(run.precision, run.loss_run, flat, flat)]
            every.append(like[-1]._replace(loss_run=run.loss_run))
        costs = [record.cost_s for record in _records(history, point)]
        each = max([cost.seconds(steps), *costs])
        return (len(every) - len(curves)) * each / PLANNED_SHARE


def _is_fp8(point: Point | None, history: History) -> TypeGuard[Point]:
    return point is not None and history.space.value(point, "precision") == "fp8"


def _running_at(
    space: Space, point: Point, running: Sequence[PlannedTrial]
) -> list[tuple[str, LossRun]]:
    """Return precision and run of the loss runs that an FP8 setting has running."""
    return [
        (str(space.value(planned.point, "precision")), planned.loss_run)
        for planned in running
        if planned.loss_run
        and planned.point in (point, space.in_precision(point, "bf16"))
    ]


def _curves(history: History, point: Point) -> list[LossCurve]:
    return curves_at(history.space, history.trials, point)


def _records(history: History, point: Point) -> list[Record]:
    """Return the records of all loss runs of an FP8 setting."""
    trials = loss_trials(history.space, history.trials, point)
    return [trial.record for trial in trials]
