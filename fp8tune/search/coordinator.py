"""The search loop, within a wall budget, whatever the trials do.

The baseline comes first, then what the sampler proposes, then the best settings
once more in turn, in FP8 and in bf16. Every step follows from the trials so far, so a
search that was killed continues as if it had not been.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from fp8tune.search.budget import (
    FINAL_STAGES,
    counted_matmuls,
    deadline_while_stepping,
    has_ended,
    is_cut_off,
    missed_deadline,
    never_begins,
    time_to_model,
    trial_deadline,
    typical_cost,
    was_cut_short,
    was_given_up,
)
from fp8tune.search.choice import PAIRS, choose, ranked
from fp8tune.search.confirm import again, reason, settings
from fp8tune.search.objective import SPEED, by_objective
from fp8tune.search.outcome import (
    LARGER_BUDGET,
    NOTHING_MORE,
    SAME_COMMAND,
    Ending,
    Outcome,
    bad_data,
    decide,
)
from fp8tune.search.retries import (
    PASSING,
    last_process,
    trials_that_count,
    uncharged_seconds,
)
from fp8tune.search.stability.plan import Conditions
from fp8tune.search.stability.stage import Stage
from fp8tune.search.strategy import PlannedTrial, Strategy, untested_before_answer
from fp8tune.search.study import Study
from fp8tune.trials.record import Record
from fp8tune.trials.runner import CONFIRMED_S, Runner, TrialLimits
from fp8tune.trials.space import Point, Space
from fp8tune.trials.trial import Trial, timed


class Limits(NamedTuple):
    """Wall time [s].

    ``budget`` is for everything, ``write`` of it is kept for the answer.
    """

    budget: float
    write: float = 2.0


class Event(NamedTuple):
    """What a display hears: a proposal that starts, or the trial that it became."""

    proposal: PlannedTrial
    trial: Trial | None
    left: float


class Search:
    """One search over a space, from the config's own setting."""

    def __init__(
        self,
        space: Space,
        baseline: Point,
        runner: Runner,
        strategy: Strategy,
        study: Study,
        limits: Limits,
        watch: Callable[[Event], None] = lambda _event: None,
        objective: str = SPEED,
        conditions: Conditions | None = None,
    ) -> None:
        self.space = space
        self.baseline = baseline
        self.runner = runner
        self.strategy = strategy
        self.study = study
        self.limits = limits
        self.watch = watch
        self.objective = objective
        self.stage = Stage(space, conditions, limits.budget) if conditions else None
        self.interrupted = self._ended = False
        self._whole: bool | None = None
        self._begun = runner.now() - study.spent

    @property
    def left(self) -> float:
        """Seconds of the budget that are left for trials."""
        return self.limits.budget - self.limits.write - self._spent

    @property
    def _spent(self) -> float:
        """Seconds of the budget that trials took."""
        free = uncharged_seconds(self.study.trials, self.study.process)
        return self.runner.now() - self._begun - free

    @property
    def _trials(self) -> Sequence[Trial]:
        """The trials that count, as the objective sees them."""
        return by_objective(self._counting, self.objective)

    @property
    def _counting(self) -> list[Trial]:
        """The trials that count under this budget.

        The final outcome counts the trials as the last process that ran one did. A
        process without time for a trial therefore changes no outcome.
        """
        every = self.study.trials
        now = last_process(every) if self._ended else self.study.process
        known = trials_that_count(every, now)
        budget = self.limits.budget
        return [trial for trial in known if not was_cut_short(trial, budget)]

    @property
    def _too_late(self) -> bool:
        """Whether no trial would get as far as its model in the time that is left."""
        return self.left <= time_to_model(self.study.trials)

    def run(self) -> Outcome:
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
        self._ended = True
        outcome = decide(
            self.space,
            self.baseline,
            self._counting,
            self._spent,
            self.objective,
            self._ending(),
        )
        return outcome._replace(trials=len(self.study.trials))

    def _ending(self) -> Ending:
        """What the outcome left open, and what would settle it."""
        step = self._next_step()
        seconds = self._settling_s() if step == LARGER_BUDGET else 0.0
        why = ""
        if self.stage is not None:
            why = self.stage.not_checked(
                self._trials, self._chosen(), self._spent, stopped=self.interrupted
            )
        return Ending(step, seconds, why)

    def _next_step(self) -> str:
        """What would tell more than the outcome."""
        if bad_data(self._counting):
            return NOTHING_MORE
        if self.interrupted:
            return SAME_COMMAND
        trials = self._trials
        begun = self._has_seen_all() is None or any(map(was_given_up, trials))
        left = begun or again(self.space, self.baseline, trials) is not None
        return LARGER_BUDGET if left else NOTHING_MORE

    def _settling_s(self) -> float:
        """A budget [s] in which the comparisons get the runs that they lack.

        The search itself goes on with a larger budget, but keeps a quarter of it, or
        one run of each setting, for them. So they get a quarter or more.
        """
        trials, spent = timed(self._trials), self._spent
        points = settings(self.space, self.baseline, self._trials)
        each = sum(typical_cost(self.space, trials, point) for point in points)
        needed = max(spent, self.limits.budget) + (2 * PAIRS + 1) * each
        minutes = math.ceil(needed / 60)
        return 60.0 * (minutes if minutes < 10 else 5 * math.ceil(minutes / 5))

    def _may_go_on(self, _proposal: PlannedTrial) -> bool:
        """Whether no trial has shown that every other fails of the data alike."""
        return not bad_data(self._counting)

    def _proposals(self) -> Iterator[PlannedTrial]:
        yield from self._once(PlannedTrial(self.baseline, "baseline", "baseline"))
        while self._searching():
            trials = timed(self._trials)
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
        trials = self._trials
        if any(trial.record.rehearsal for trial in trials):
            return
        bf16 = self.space.in_bf16(self.baseline)
        ran = [trial.record.ok for trial in trials if trial.stage == "baseline"]
        if bf16 is None or (ran and not any(ran)):
            return
        best = ranked(self.space, self.baseline, trials)[:1]
        confirmed = any(trial.stage == "confirm" for trial in trials)
        if not confirmed and best in ([], [self.baseline]):
            yield from self._once(PlannedTrial(bf16, "bf16-baseline", "bf16 baseline"))

    def _once(self, proposal: PlannedTrial) -> Iterator[PlannedTrial]:
        """Once more where that failed of what may pass."""
        while self._is_due(proposal) and self.space.has(proposal.point):
            yield proposal

    def _is_due(self, proposal: PlannedTrial) -> bool:
        own = [t.record for t in self._trials if t.stage == proposal.stage]
        again = len(own) == 1 and own[0].outcome in PASSING
        return (not own or again) and not self._too_late

    def _searching(self) -> bool:
        """Whether a trial more leaves time for the confirmation, not yet begun.

        The first one is tried whatever it leaves.
        One that a smaller budget led to does not end the search of a larger one.
        """
        trials = self._trials
        if self._too_late or has_ended(trials, self.limits.budget):
            return False
        if never_begins(trials):
            return False
        points = settings(self.space, self.baseline, trials)
        clocked = timed(trials)
        costs = [typical_cost(self.space, clocked, point) for point in points]
        found = any(t.stage == "search" and t.record.ok for t in trials)
        # a trial more, then the best and the baseline: without these nothing is sure
        trial, needed = (costs[0], sum(costs[:2])) if costs and found else (0.0, 0.0)
        reserve = max(needed, min(sum(costs), self.limits.budget / 4))
        return self.left - trial > reserve + self._kept()

    def _endings(self) -> Iterator[PlannedTrial]:
        """Confirmations, then how FP8 learns; both again if that rejects a setting."""
        steps = (self._unfinished, self._confirmation, self._left_over, self._compared)
        while proposal := next(filter(None, (step() for step in steps)), None):
            yield proposal

    def _confirmation(self) -> PlannedTrial | None:
        trials = self._trials
        point = again(self.space, self.baseline, trials)
        if point is None:
            return None
        if self.left <= typical_cost(self.space, timed(trials), point) + self._kept():
            return None
        return PlannedTrial(point, "confirm", reason(self.space, point, trials))

    def _left_over(self) -> PlannedTrial | None:
        left = self.left - self._kept()
        return untested_before_answer(
            self.space, self.baseline, self.strategy, self._trials, left
        )

    def _kept(self) -> float:
        """Time to keep for comparing what FP8 and bf16 learn [s]."""
        return self.stage.reserve(self._trials, self._chosen()) if self.stage else 0.0

    def _unfinished(self) -> PlannedTrial | None:
        return self.stage.started(self._trials, self.left) if self.stage else None

    def _compared(self) -> PlannedTrial | None:
        if self.stage is None:
            return None
        return self.stage.next(self._trials, self._chosen(), self.left)

    def _chosen(self) -> Point | None:
        return choose(self.space, self.baseline, self._trials).point

    def _try(self, proposal: PlannedTrial) -> None:
        left = self.left
        self.watch(Event(proposal, None, left))
        number = self.study.ask(proposal.stage, proposal.point)
        try:
            record, limit = self._run(proposal, left)
        except BaseException:
            self.study.lose(number)
            raise
        ends = proposal.stage in FINAL_STAGES
        of_budget = ends or missed_deadline(record, limit)
        trial = self.study.tell(
            number,
            record,
            cut_off=is_cut_off(record, left),
            budget_s=self.limits.budget if of_budget else math.inf,
            searched_all=self._has_seen_all() if ends else None,
        )
        self.watch(Event(proposal, trial, self.left))

    def _has_seen_all(self) -> bool | None:
        """Whether all that promises something was seen; ``None`` where time ended it.

        As it was when the search ended by itself, now or before it was killed.
        """
        told = [self._whole, *(trial.searched_all for trial in self.study.trials)]
        return True if True in told else False if False in told else None

    def _run(self, proposal: PlannedTrial, left: float) -> tuple[Record, float]:
        """The record of a trial, and what it was allowed of the time left [s]."""
        values, trials = self.space.values(proposal.point), self.study.trials
        if proposal.loss_run and self.stage:
            run = proposal.loss_run
            limit = self.stage.limit(trials, proposal.point, run, left)
            return self.runner.train_for_losses(values, run, limit), limit
        limits = self._limits(proposal, left)
        return self.runner.run(values, limits), limits.deadline_s

    def _limits(self, proposal: PlannedTrial, left: float) -> TrialLimits:
        """How long a trial may take of the ``left`` seconds."""
        trials = timed(self.study.trials)
        return TrialLimits(
            trial_deadline(self.space, trials, proposal.point, left),
            deadline_while_stepping(trials, left),
            counted_matmuls(self.space, trials, proposal.point),
            CONFIRMED_S if proposal.stage == "confirm" else 0.0,
        )
