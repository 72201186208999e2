"""The search loop, within a wall budget, whatever the trials do.

The baseline comes first, then what the sampler proposes, then the best settings
once more in turn, in FP8 and in bf16. Every step follows from the trials so far, so a
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
    """What a display hears: a proposal that starts, or the trial that it became.

    ``number`` is the trial's own, ``left`` what is left of the budget [s].
    """

    number: int
    proposal: PlannedTrial
    trial: Trial | None
    left: float


class Search:
    """One search over a space, from the config's own setting, within a budget [s]."""

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
        """Read the study's trials that count for a process, under this budget."""
        trials = trials_that_count(self.study.trials, process, self.budget.seconds)
        self._counting = History(self.space, self.baseline, trials)
        self._history = self._counting.by(self.objective)
        uncharged = uncharged_seconds(self.study.trials, self.study.process)
        self.budget.uncharged = uncharged
        if self.stage:
            self.budget.reserve = self.stage.reserve(self._history, self._chosen())

    @property
    def _too_late(self) -> bool:
        """Whether no trial would get as far as its model in the time that is left."""
        return self.budget.left <= time_to_model(self.study.trials)

    def run(self) -> SearchOutcome:
        """Search until nothing is gained or the budget is spent; then decide.

        Ctrl-C ends the search, not the program: the outcome is what is known.
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
        """What the outcome left open, and what would settle it."""
        step = self._next_step()
        seconds = self._settling_s() if step == LARGER_BUDGET else 0.0
        why = ""
        if self.stage is not None:
            why = self.stage.not_checked(
                self._history, self._chosen(), stopped=self.interrupted
            )
        return Ending(step, seconds, why)

    def _next_step(self) -> str:
        """What would tell more than the outcome."""
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
        """A budget [s] in which the comparisons get the runs that they lack.

        The search itself goes on with a larger budget, but keeps a quarter of it, or
        one run of each setting, for them. So they get a quarter or more.
        """
        history, budget = self._history, self.budget
        each = sum(typical_cost(history, point) for point in settings(history))
        needed = max(budget.spent, budget.seconds) + (2 * PAIRS + 1) * each
        return whole_budget(needed)

    def _may_go_on(self, _proposal: PlannedTrial) -> bool:
        """Whether no trial has shown that every other fails of the data alike."""
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
        """The config in bf16, where nothing else will be measured in bf16.

        It is not tried if the config itself failed. The confirmation measures what it
        chooses in bf16 too; a rehearsal does not compare precisions.
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
        """Yield the trial until it is done: a second time if it failed by chance."""
        while self._is_due(proposal) and self.space.has(proposal.point):
            yield proposal

    def _is_due(self, proposal: PlannedTrial) -> bool:
        trials = self._history.trials
        own = [trial.record for trial in trials if trial.stage == proposal.stage]
        again = len(own) == 1 and own[0].meaning.retry_once
        return (not own or again) and not self._too_late

    def _searching(self) -> bool:
        """Whether a trial more leaves time for the confirmation, not yet begun.

        The first one is tried whatever it leaves.
        One that a smaller budget led to does not end the search of a larger one.
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
        # a trial more, then the best and the baseline: without these nothing is sure
        trial, needed = (costs[0], sum(costs[:2])) if costs and found else (0.0, 0.0)
        reserve = max(needed, min(sum(costs), self.budget.seconds / 4))
        return self.budget.left_for_speed - trial > reserve

    def _endings(self) -> Iterator[PlannedTrial]:
        """Confirmations, then how FP8 learns; both again if that rejects a setting."""
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
        """Whether all that promises something was seen; ``None`` where time ended it.

        As it was when the search ended by itself, now or before it was killed.
        """
        told = [self._whole, *(trial.searched_all for trial in self.study.trials)]
        return True if True in told else False if False in told else None

    def _run(self, proposal: PlannedTrial, left: float) -> tuple[Record, float]:
        """The record of a trial, and what it was allowed of the time left [s]."""
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
