"""The stage of a search that compares losses: what it does next, or why it cannot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fp8tune.search.stability.curve import Curve, curve
from fp8tune.search.stability.finding import belongs, curves
from fp8tune.search.stability.plan import (
    CORE,
    LEAST,
    SHARE,
    USED,
    Ask,
    Conditions,
    Cost,
    cost,
    own_cost,
    reserve,
    steps_in,
    wanted,
)
from fp8tune.search.strategy import PlannedTrial
from fp8tune.trials.space import Point, Space
from fp8tune.trials.trial import Trial, timed

LOST = 2
"""Runs that may fail otherwise than by diverging, until no more are tried."""
SLACK, SHORT = 3.0, 60.0
"""How much longer than expected a run may take, and what any may take [s]."""


class Stage(NamedTuple):
    """The comparison of a search; ``budget`` is the whole search's [s]."""

    space: Space
    conditions: Conditions
    budget: float

    def reserve(self, trials: Sequence[Trial], point: Point | None) -> float:
        """Time to keep for it while the search goes on [s]."""
        if point is None or not self._applies(point) or self.conditions.refusal:
            return 0.0
        if self._failure(trials, point):
            return 0.0
        runs = curves(self.space, trials).get(point, [])
        each = cost(self.space, point, trials)
        if runs and each:
            return self._missing(trials, point, runs, each)
        return reserve(each, self.budget)

    def begun(self, trials: Sequence[Trial], left: float) -> PlannedTrial | None:
        """The next run of a comparison that is not finished."""
        points = list(curves(self.space, trials))
        made = (self.next(trials, point, left) for point in points)
        return next((proposal for proposal in made if proposal), None)

    def next(
        self, trials: Sequence[Trial], point: Point | None, left: float
    ) -> PlannedTrial | None:
        """The next run at a setting; ``None`` if none is wanted or there is no time."""
        ask = self._ask(trials, point, left)
        if ask is None or left <= self._likely(trials, ask):
            return None
        return PlannedTrial(ask.point, "stability", ask.reason, ask.course)

    def limit(
        self, trials: Sequence[Trial], proposal: PlannedTrial, left: float
    ) -> float:
        """Seconds until a run is given up, of ``left`` that it may have at most."""
        how = proposal.loss_run
        if how is None:
            return left
        likely = self._likely(trials, Ask(proposal.point, how, ""))
        return min(left, SHORT + SLACK * likely)

    def unchecked(
        self,
        trials: Sequence[Trial],
        point: Point | None,
        spent: float,
        *,
        stopped: bool,
    ) -> str:
        """Why an FP8 setting was not compared to the end; ``""`` where it was.

        ``spent`` is what all the search's trials took [s].
        """
        if point is None or not self._applies(point):
            return ""
        if self.conditions.refusal:
            return self.conditions.refusal
        if why := self._failure(trials, point):
            return why
        runs = curves(self.space, trials).get(point, [])
        steps = self.conditions.steps or LEAST
        if wanted(self.space, point, runs, self.conditions, steps) is None:
            return "" if runs else "no run of it is recorded"
        if stopped:
            return "stopped; the same command goes on"
        each = cost(self.space, point, trials)
        if each is None:
            return "no trial tells how long its runs take"
        other = spent + self._beside(trials)
        minutes = math.ceil(self._enough(trials, point, runs, each, other) / 60)
        return f"no time{' to end' if runs else ''}; give --budget {minutes}m or more"

    def _beside(self, trials: Sequence[Trial]) -> float:
        """What else the same command does with a larger budget [s].

        It confirms anew, and begins nothing that would leave too little for the
        comparison, but for one trial.
        """
        again = [
            trial.record
            for trial in trials
            if trial.stage == "confirm" and trial.budget_s == self.budget
        ]
        longest = max((trial.record.cost_s for trial in timed(trials)), default=0.0)
        return sum(record.cost_s for record in again) + longest

    def _enough(
        self,
        trials: Sequence[Trial],
        point: Point,
        runs: Sequence[Curve],
        each: Cost,
        other: float,
    ) -> float:
        """A budget that leaves enough for a verdict beside ``other`` seconds [s]."""
        missing = self._missing(trials, point, runs, each)
        if runs:
            return max(self.budget + 1, other + missing)
        kept = min(other / (1 - SHARE), other + reserve(each, math.inf))
        return max(self.budget + 1, kept, missing / SHARE)

    def _missing(
        self, trials: Sequence[Trial], point: Point, runs: Sequence[Curve], each: Cost
    ) -> float:
        """Time for the runs that are wanted, if they come out as those before [s]."""
        steps = self.conditions.steps or LEAST
        made = [*runs]
        while ask := wanted(self.space, point, made, self.conditions, steps):
            precision = str(self.space.value(ask.point, "precision"))
            flat = (1.0,) * ask.course.steps
            like = [run for run in made if run.precision == precision]
            like = like or [Curve(precision, ask.course, flat, flat)]
            made.append(like[-1]._replace(how=ask.course))
        own = [
            trial.record.cost_s
            for trial in trials
            if trial.stage == "stability" and belongs(self.space, trial) == point
        ]
        likely = max([each.of(runs[0].how.steps if runs else steps), *own])
        return (len(made) - len(runs)) * likely / USED

    def _applies(self, point: Point) -> bool:
        return bool(self.space.value(point, "precision") == "fp8")

    def _ask(
        self, trials: Sequence[Trial], point: Point | None, left: float
    ) -> Ask | None:
        if point is None or not self._applies(point) or self.conditions.refusal:
            return None
        if self._failure(trials, point):
            return None
        runs = curves(self.space, trials).get(point, [])
        steps = self.conditions.steps
        if not runs and not steps:
            steps = self._steps(trials, point, left)
        if not runs and not steps:
            return None
        return wanted(self.space, point, runs, self.conditions, steps)

    def _steps(self, trials: Sequence[Trial], point: Point, left: float) -> int:
        """The length of runs at a setting; 0 where there is no time for a verdict."""
        each = cost(self.space, point, trials)
        if each is None:
            return 0
        steps = steps_in(each, min(left, SHARE * self.budget))
        return steps or (LEAST if CORE * each.of(LEAST) <= USED * left else 0)

    def _likely(self, trials: Sequence[Trial], ask: Ask) -> float:
        """What a run takes, by those of its setting, else by its trials [s]."""
        own = [
            trial.record.cost_s
            for trial in trials
            if trial.stage == "stability"
            and self.space.point(trial.record.knobs) == ask.point
            and _is_whole(trial)
        ]
        each = own_cost(self.space, ask.point, trials)
        each = each or cost(self.space, ask.point, trials) or Cost(0.0, 0.0)
        return max(own) if own else each.of(ask.course.steps)

    def _failure(self, trials: Sequence[Trial], point: Point) -> str:
        """Why no more runs are tried at a setting; ``""`` where they may be."""
        lost = [
            trial.record
            for trial in trials
            if trial.stage == "stability"
            and belongs(self.space, trial) == point
            and trial.record.loss_run is not None
            and not _is_whole(trial)
        ]
        if lost and (lost[-1].outcome == "oom" or len(lost) >= LOST):
            said = lost[-1].message
            why = f": {said}" if said else ""
            return f"a run ended with `{lost[-1].outcome}`{why}"
        return ""


def _is_whole(trial: Trial) -> bool:
    """Whether a run can be compared: it came to its end, or diverged."""
    return curve(trial.record, "") is not None
