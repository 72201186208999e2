"""The last stage of a search: loss runs in FP8 and bf16 at the chosen setting."""

from __future__ import annotations

import math
from typing import NamedTuple, TypeGuard

from fp8tune.search.history import History
from fp8tune.search.stability import plan
from fp8tune.search.stability.compare import LossCurve, loss_curve
from fp8tune.search.stability.findings import curves_by_setting, fp8_setting
from fp8tune.search.strategy import PlannedTrial
from fp8tune.trials.loss_run import LossRun
from fp8tune.trials.record import Record
from fp8tune.trials.space import Point, Space

MAX_FAILED_RUNS = 2  # other than by divergence, before no more are made at a setting
SLACK, MIN_LIMIT = 3.0, 60.0  # times its expected time; seconds that any run may take


class Stage(NamedTuple):
    """The loss runs of a search whose whole budget is ``budget`` [s]."""

    space: Space
    conditions: plan.Conditions
    budget: float

    def reserve(self, history: History, point: Point | None) -> float:
        """Return the time to keep for loss runs while the search goes on [s]."""
        if not self._is_fp8(point) or self._obstacle(history, point):
            return 0.0
        cost = plan.pair_cost(history, point)
        if cost and self._curves(history, point):
            return self._remaining(history, point, cost)
        return plan.reserve(cost, self.budget)

    def started(self, history: History, left: float) -> PlannedTrial | None:
        """Return the next run of a comparison that was started and is not finished."""
        settings = curves_by_setting(history.space, history.trials)
        runs = (self.next(history, point, left) for point in settings)
        return next((run for run in runs if run), None)

    def next(
        self, history: History, point: Point | None, left: float
    ) -> PlannedTrial | None:
        """Return the next run at a setting; ``None`` if none is needed or none fits."""
        if not self._is_fp8(point) or self._obstacle(history, point):
            return None
        curves, steps = self._curves(history, point), self.conditions.steps
        if not curves and not steps:
            cost = plan.pair_cost(history, point)
            steps = plan.run_length(cost, left, self.budget)
            if not steps:
                return None
        run = plan.next_run(self.space, point, curves, self.conditions, steps)
        if run is None or left <= self._expected(history, run.point, run.loss_run):
            return None
        seed, warmup, steps, *_ = run.loss_run
        how = f"{run.precision}, seed {seed}, warmup {warmup}, {steps} steps"
        reason = f"does FP8 learn as bf16? {how}"
        return PlannedTrial(run.point, "stability", reason, run.loss_run)

    def limit(self, history: History, point: Point, run: LossRun, left: float) -> float:
        """Return after how long a run is stopped, of the time left [s]."""
        return min(left, MIN_LIMIT + SLACK * self._expected(history, point, run))

    def not_checked(
        self,
        history: History,
        point: Point | None,
        spent: float,
        *,
        stopped: bool,
    ) -> str:
        """Return why an FP8 setting was not compared to the end; ``""`` if it was.

        ``spent`` is the time of all trials of the search [s].
        """
        if not self._is_fp8(point):
            return ""
        if obstacle := self._obstacle(history, point):
            return obstacle
        curves = self._curves(history, point)
        steps = self.conditions.steps or plan.MIN_STEPS
        if plan.next_run(self.space, point, curves, self.conditions, steps) is None:
            return "" if curves else "no run of it is recorded"
        if stopped:
            return "stopped; the same command goes on"
        cost = plan.pair_cost(history, point)
        if cost is None:
            return "no trial shows how long its runs take"
        # the same command with a larger budget confirms again and may add one trial
        confirmed = sum(
            trial.record.cost_s
            for trial in history.trials
            if trial.stage == "confirm" and trial.budget_s == self.budget
        )
        longest = max((trial.record.cost_s for trial in history.timed), default=0.0)
        remaining = self._remaining(history, point, cost)
        other, started = spent + confirmed + longest, bool(curves)
        enough = plan.enough(cost, remaining, other, started=started)
        minutes = math.ceil(max(self.budget + 1, enough) / 60)
        return f"no time{' to end' * started}; give --budget {minutes}m or more"

    def _is_fp8(self, point: Point | None) -> TypeGuard[Point]:
        return point is not None and self.space.value(point, "precision") == "fp8"

    def _curves(self, history: History, point: Point) -> list[LossCurve]:
        return curves_by_setting(history.space, history.trials).get(point, [])

    def _records(self, history: History, point: Point) -> list[Record]:
        """Return the records of all loss runs that were made for an FP8 setting."""
        return [
            trial.record
            for trial in history.trials
            if trial.stage == "stability" and fp8_setting(self.space, trial) == point
        ]

    def _obstacle(self, history: History, point: Point) -> str:
        """Return why no run is made at an FP8 setting; ``""`` if runs are possible."""
        if self.conditions.refusal:
            return self.conditions.refusal
        runs = [record for record in self._records(history, point) if record.loss_run]
        failed = [record for record in runs if loss_curve(record, "") is None]
        if not failed:
            return ""
        outcome, message = failed[-1].outcome, failed[-1].message
        if outcome != "oom" and len(failed) < MAX_FAILED_RUNS:
            return ""
        return f"a run ended with `{outcome}`{f': {message}' if message else ''}"

    def _expected(self, history: History, point: Point, run: LossRun) -> float:
        """Return the expected time of a run: as earlier ones, else by trials [s]."""
        earlier = [
            trial.record.cost_s
            for trial in history.trials
            if trial.stage == "stability"
            and history.point_of(trial) == point
            and loss_curve(trial.record, "")
        ]
        if earlier:
            return max(earlier)
        cost = plan.run_cost(history, point)
        cost = cost or plan.pair_cost(history, point)
        return cost.seconds(run.steps) if cost else 0.0

    def _remaining(self, history: History, point: Point, cost: plan.RunCost) -> float:
        """Return the time of runs still needed, if they go like the last ones [s]."""
        curves = self._curves(history, point)
        steps = self.conditions.steps or plan.MIN_STEPS
        steps = curves[0].loss_run.steps if curves else steps
        every = [*curves]
        while run := plan.next_run(self.space, point, every, self.conditions, steps):
            flat = (1.0,) * steps
            like = [curve for curve in every if curve.precision == run.precision]
            like = like or [LossCurve(run.precision, run.loss_run, flat, flat)]
            every.append(like[-1]._replace(loss_run=run.loss_run))
        costs = [record.cost_s for record in self._records(history, point)]
        each = max([cost.seconds(steps), *costs])
        return (len(every) - len(curves)) * each / plan.PLANNED_SHARE
