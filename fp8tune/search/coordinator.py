"""The search loop: keeps to the time budget whatever the trials do.

The baseline comes first, then the sampler's proposals, then confirmation runs of the
best settings, in FP8 and in bf16. Every step follows from the trials so far, so that a
search that was killed continues as if it had not been.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import NamedTuple

from fp8tune.search.budget import (
    Budget,
    is_cut_off,
    never_begins,
    time_to_model,
    trial_limits,
    typical_cost,
    whole_budget,
)
from fp8tune.search.choice import PAIRS, choose
from fp8tune.search.confirm import again, reason, settings
from fp8tune.search.history import History
from fp8tune.search.objective import SPEED
from fp8tune.search.outcome import (
    LARGER_BUDGET,
    NOTHING_MORE,
    SAME_COMMAND,
    Ending,
    SearchOutcome,
    bad_data,
    decide,
)
from fp8tune.search.stability.loss_runs import Conditions, Stage
from fp8tune.search.strategy import PlannedTrial, Strategy, untested_before_answer
from fp8tune.search.study import Study
from fp8tune.trials.record import Record
from fp8tune.trials.runner import CONFIRMED_S, Runner
from fp8tune.trials.space import Point, Space
from fp8tune.trials.trial import (
    FINAL_STAGES,
    Trial,
    last_process,
    trials_that_count,
    uncharged_seconds,
)


class Event(NamedTuple):
    """An event for the display: a trial starts, or has ended.

    ``number`` is the trial's number, ``left`` what is left of the budget [s].
    """

    number: int
    proposal: PlannedTrial
    trial: Trial | None
    left: float


class Search:
    """One search over a space, starting from the baseline, within a budget [s]."""

    def __init__(
        self,
        space: Space,
        baseline: Point,
        runner: Runner,
        strategy: Strategy,
        study: Study,
        budget_s: float,
        watch: Callable[[Event], None] = lambda _event: None,
        objective: str = SPEED,
        conditions: Conditions | None = None,
    ) -> None:
        self.space = space
        self.baseline = baseline
        self.runner = runner
        self.strategy = strategy
        self.study = study
        self.budget = Budget(budget_s, runner.now, study.spent)
        self.watch = watch
        self.objective = objective
        self.stage = Stage(conditions, self.budget) if conditions else None
        self.interrupted = False
        self._whole: bool | None = None
        self._take_up(study.process)

    def _take_up(self, process: int) -> None:
        """Read the study's trials that count for a process with this budget."""
        trials = trials_that_count(self.study.trials, process, self.budget.seconds)
        self._counting = History(self.space, self.baseline, trials)
        self._history = self._counting.by(self.objective)
        uncharged = uncharged_seconds(self.study.trials, self.study.process)
        self.budget.uncharged = uncharged
        if self.stage:
            self.budget.reserve = self.stage.reserve(self._history, self._chosen())

    @property
    def _too_late(self) -> bool:
        """Whether the time left is too short for a trial to build its model."""
        return self.budget.left <= time_to_model(self.study.trials)

    def run(self) -> SearchOutcome:
        """Search until no gain is expected or the budget is spent; return the outcome.

        Ctrl-C ends the search, not the program: the outcome is what is known by then.
        """
        try:
            for proposal in takewhile(self._may_go_on, self._proposals()):
                self._try(proposal)
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            self.runner.close()
        # The outcome counts the trials as the last process that ran one did. A process
        # without time for a trial therefore changes no outcome.
        self._take_up(last_process(self.study.trials))
        ending = self._ending()
        outcome = decide(self._counting, self.budget.spent, self.objective, ending)
        return outcome._replace(trials=len(self.study.trials))

    def _ending(self) -> Ending:
        """Return what the outcome leaves open, and what would settle it."""
        step = self._next_step()
        seconds = self._settling_s() if step == LARGER_BUDGET else 0.0
        why, enough = "", 0.0
        if self.stage is not None:
            why, enough = self.stage.not_checked(
                self._history, self._chosen(), stopped=self.interrupted
            )
        return Ending(step, seconds, why, enough)

    def _next_step(self) -> str:
        """Return what would find more: same command, larger budget, or nothing."""
        history = self._history
        if bad_data(history.trials):
            return NOTHING_MORE
        if self.interrupted:
            return SAME_COMMAND
        begun = self._has_seen_all() is None
        begun = begun or any(trial.was_given_up for trial in history.trials)
        left = begun or again(history) is not None
        return LARGER_BUDGET if left else NOTHING_MORE

    def _settling_s(self) -> float:
        """Return a budget [s] in which the comparisons get the runs that they lack.

        With a larger budget the search itself continues, but keeps at least a quarter
        of the budget, or one run of each setting, for the comparisons.
        """
        history, budget = self._history, self.budget
        each = sum(typical_cost(history, point) for point in settings(history))
        needed = max(budget.spent, budget.seconds) + (2 * PAIRS + 1) * each
        return whole_budget(needed)

    def _may_go_on(self, _proposal: PlannedTrial) -> bool:
        """Return whether trials can still succeed: not if the data itself is wrong."""
        return not bad_data(self._counting.trials)

    def _proposals(self) -> Iterator[PlannedTrial]:
        yield from self._once(PlannedTrial(self.baseline, "baseline", "baseline"))
        while self._searching():
            trials = self._history.timed
            proposal = self.strategy.propose(trials)
            if proposal is None:
                self._whole = not self.strategy.has_risky_gain(trials)
                break
            yield proposal
        yield from self._bf16_baseline()
        yield from self._endings()

    def _bf16_baseline(self) -> Iterator[PlannedTrial]:
        """Yield the config in bf16, if nothing else will be measured in bf16.

        Not if the config itself failed. The confirmation measures the chosen setting in
        bf16 too, and a rehearsal does not compare precisions.
        """
        history = self._history
        if history.is_rehearsal:
            return
        bf16 = self.space.in_bf16(self.baseline)
        ran = [trial.record.ok for trial in history.trials if trial.stage == "baseline"]
        if bf16 is None or (ran and not any(ran)):
            return
        confirmed = any(trial.stage == "confirm" for trial in history.trials)
        if not confirmed and history.ranked[:1] in ([], [self.baseline]):
            yield from self._once(PlannedTrial(bf16, "bf16-baseline", "bf16 baseline"))

    def _once(self, proposal: PlannedTrial) -> Iterator[PlannedTrial]:
        """Yield a trial, and retry it once if it failed for a reason that may pass."""
        while self._is_due(proposal) and self.space.has(proposal.point):
            yield proposal

    def _is_due(self, proposal: PlannedTrial) -> bool:
        trials = self._history.trials
        own = [trial.record for trial in trials if trial.stage == proposal.stage]
        again = len(own) == 1 and own[0].meaning.retry_once
        return (not own or again) and not self._too_late

    def _searching(self) -> bool:
        """Return whether one more trial leaves time for the confirmation.

        The first trial runs in any case. A confirmation that started under a smaller
        budget does not end the search of a larger one.
        """
        history = self._history
        ended = any(
            trial.stage in FINAL_STAGES and trial.budget_s >= self.budget.seconds
            for trial in history.trials
        )
        if ended or self._too_late or never_begins(history.trials):
            return False
        costs = [typical_cost(history, point) for point in settings(history)]
        found = any(t.stage == "search" and t.record.ok for t in history.trials)
        # one more trial, then the best and the baseline: a verdict needs these
        trial, needed = (costs[0], sum(costs[:2])) if costs and found else (0.0, 0.0)
        reserve = max(needed, min(sum(costs), self.budget.seconds / 4))
        return self.budget.left_for_speed - trial > reserve

    def _endings(self) -> Iterator[PlannedTrial]:
        """Yield confirmations, then loss runs; both again if these reject a setting."""
        steps = (self._unfinished, self._confirmation, self._left_over, self._compared)
        while proposal := next(filter(None, (step() for step in steps)), None):
            yield proposal

    def _confirmation(self) -> PlannedTrial | None:
        history = self._history
        point = again(history)
        if point is None:
            return None
        if self.budget.left_for_speed <= typical_cost(history, point):
            return None
        return PlannedTrial(point, "confirm", reason(history, point))

    def _left_over(self) -> PlannedTrial | None:
        return untested_before_answer(self._history, self.strategy, self.budget)

    def _unfinished(self) -> PlannedTrial | None:
        return self.stage.started(self._history) if self.stage else None

    def _compared(self) -> PlannedTrial | None:
        return self.stage.next(self._history, self._chosen()) if self.stage else None

    def _chosen(self) -> Point | None:
        return choose(self._history).point

    def _try(self, proposal: PlannedTrial) -> None:
        left = self.budget.left
        number = self.study.ask(proposal.stage, proposal.point)
        try:
            self.watch(Event(number, proposal, None, left))
            record, limit = self._run(proposal, left)
        except BaseException:
            self.study.lose(number)
            raise
        ends = proposal.stage in FINAL_STAGES
        of_budget = ends or (not record.ok and record.cost_s >= limit)
        trial = self.study.tell(
            number,
            record,
            cut_off=is_cut_off(record, left),
            budget_s=self.budget.seconds if of_budget else math.inf,
            searched_all=self._has_seen_all() if ends else None,
        )
        self._take_up(self.study.process)
        self.watch(Event(number, proposal, trial, self.budget.left))

    def _has_seen_all(self) -> bool | None:
        """Return whether every promising setting was tried; ``None`` if time ran out.

        This is the state when the search ended by itself, now or before it was killed.
        """
        seen = [self._whole, *(trial.searched_all for trial in self.study.trials)]
        return True if True in seen else False if False in seen else None

    def _run(self, proposal: PlannedTrial, left: float) -> tuple[Record, float]:
        """Run a trial; return its record and its time limit [s]."""
        values = self.space.values(proposal.point)
        history = History(self.space, self.baseline, self.study.trials)
        if proposal.loss_run and self.stage:
            run = proposal.loss_run
            limit = self.stage.limit(history, proposal.point, run, left)
            return self.runner.train_for_losses(values, run, limit), limit
        limits = trial_limits(history, proposal.point, left)
        if proposal.stage == "confirm":
            limits = limits._replace(least_s=CONFIRMED_S)
        return self.runner.run(values, limits), limits.deadline_s
