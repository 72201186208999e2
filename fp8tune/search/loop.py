"""The search loop: keeps to the time budget whatever the trials do.

The baseline comes first, then the sampler's proposals, then confirmation runs of the
best settings, in FP8 and in bf16. Every step follows from the trials so far, so that a
search that was killed continues as if it had not been.

Several processes may search one study: each runs this loop, and trials that run in
another process count as taken. Proposals run at the same time as the baseline and each
other. Confirmation runs begin when these have ended. The runs that are compared follow
each other on one GPU; each GPU adds pairs of its own. Loss runs come last, but those of
a leading setting whose FP8 the search changed come before proposals of little gain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from fp8tune.search.answer.answer import (
    LARGER_BUDGET,
    NOTHING_MORE,
    SAME_COMMAND,
    Answer,
    Ending,
    bad_data,
)
from fp8tune.search.answer.choice import PAIRS, choose
from fp8tune.search.answer.decide import decide
from fp8tune.search.budget import (
    Budget,
    never_begins,
    time_to_model,
    trial_limits,
    typical_cost,
    whole_budget,
)
from fp8tune.search.confirm import again, reason, settings
from fp8tune.search.history import History
from fp8tune.search.losses.loss_runs import Conditions, Stage, compares_losses
from fp8tune.search.objective import SPEED
from fp8tune.search.pool import Ended, Pool
from fp8tune.search.strategy import Strategy
from fp8tune.search.study import Study
from fp8tune.trials.order import Order, PlannedTrial
from fp8tune.trials.runner import CONFIRMED_S, TrialLimits
from fp8tune.trials.space import Point, Space
from fp8tune.trials.trial import (
    Trial,
    charged_seconds,
    last_process,
    trials_that_count,
    uncharged_seconds,
)

OVERRUN_S = 120.0
"""How much longer than the budget the last trials of other processes may take [s]."""

SMALL = 0.03
"""Expected gain (log of tokens/s) of a proposal before which a leading setting's losses
are compared. On 16 simulated landscapes (seeds 900000 to 900015 of
``benchmarks.search.time_to_best``) 95 % of the best correct speed was reached after 24
min with it (median), after 28 with 0.01 and after 48 with all losses at the end; with
0.1 answers got worse."""


class Event(NamedTuple):
    """An event for the display: a trial starts, or has ended.

    ``number`` is the trial's number, ``left`` what is left of the budget [s]. A trial
    that was ``lost`` does not count: its process died.
    """

    number: int
    proposal: PlannedTrial
    trial: Trial | None
    left: float
    lost: bool = False


class Search:
    """One search over a space, starting from the baseline, within a budget [s].

    ``pool`` runs its trials and stores them in ``study``.
    """

    def __init__(
        self,
        space: Space,
        baseline: Point,
        pool: Pool,
        strategy: Strategy,
        study: Study,
        budget_s: float,
        watch: Callable[[Event], None] = lambda _event: None,
        objective: str = SPEED,
        conditions: Conditions | None = None,
    ) -> None:
        self.space = space
        self.baseline = baseline
        self.pool = pool
        self.strategy = strategy
        self.study = study
        self.budget = Budget(budget_s, pool.now, study.spent)
        self.watch = watch
        self.objective = objective
        self.stage = Stage(conditions, self.budget) if conditions else None
        self.compares_losses = compares_losses(conditions)
        self.interrupted = False
        self.running: dict[int, PlannedTrial] = {}
        self._whole: bool | None = None
        self._search_is_over = False
        self._take_up(study.process)

    def _take_up(self, process: int) -> None:
        """Read the study's trials that count for a process with this budget."""
        trials = trials_that_count(self.study.trials, process, self.budget.seconds)
        self._counting = History(self.space, self.baseline, trials)
        self._history = self._counting.by(self.objective)
        uncharged = uncharged_seconds(self.study.trials, self.study.process)
        self.budget.uncharged = uncharged
        if self.pool.side_by_side:
            self.budget.at_least(self._spent_by_all())
        if self.stage:
            self.budget.reserve = self.stage.reserve(self._history, self._chosen())

    def _spent_by_all(self) -> float:
        """Return the search time that the trials of all processes show [s]."""
        own = (t for t in self.study.trials if t.process == self.study.process)
        ended = (t.at_s + t.record.cost_s for t in own if t.at_s is not None)
        begun = (planned.at_s or 0.0 for planned in self.study.running.values())
        return max(*ended, *begun, 0.0, 0.0)

    @property
    def _too_late(self) -> bool:
        """Whether the time left is too short for a trial to build its model."""
        return self.budget.left <= time_to_model(self.study.trials)

    def run(self) -> Answer:
        """Search until no gain is expected or the budget is spent; return the outcome.

        Ctrl-C ends the search, not the program: the outcome is what is known by then.
        """
        try:
            self._take(self.pool.begin())
            while self._go_on():
                pass
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            self.pool.close()
        return self.outcome()

    def outcome(self) -> Answer:
        """Return what the trials so far say.

        They count as for the last process that ran one. A process without time for a
        trial therefore changes no outcome.
        """
        trials = self.study.trials
        self._take_up(last_process(trials))
        spent = charged_seconds(trials)
        history = self._counting.choosing(proven_only=self.compares_losses)
        outcome = decide(history, spent, self.objective, self._ending())
        return outcome._replace(trials=len(trials))

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

    def _go_on(self) -> bool:
        """Start a trial or wait for one to end; return whether there may be more."""
        worker = self.pool.idle()
        waits = worker is None and bool(self.running)
        planned = None if waits else self._next(worker or "")
        if planned and worker is not None:
            self._start(planned, worker)
        elif planned or (self.running and self.budget.left > -OVERRUN_S):
            self._take(self.pool.wait())
        else:
            return False
        return True

    def _next(self, worker: str) -> PlannedTrial | None:
        """Return the trial to start now; ``None`` if there is none yet, or none left.

        Nothing can succeed if the data itself is wrong.
        """
        if bad_data(self._counting.trials):
            return None
        baseline = PlannedTrial(self.baseline, "baseline", "baseline")
        if self._is_due(baseline):
            return baseline
        return self._searched() or self._ending_run(worker)

    def _searched(self) -> PlannedTrial | None:
        """Return the sampler's proposal; once there is none, the search is over."""
        if self._search_is_over:
            return None
        if self._searching():
            trials = self._history.timed
            rejects = self._history.is_rejected
            if proposal := self.strategy.propose(trials, rejects):
                small = proposal.gain < SMALL
                return (small and self._proving()) or proposal
            if self.running:  # how these end may change that
                return None
            self._whole = not self.strategy.has_risky_gain(trials)
        self._search_is_over = True
        return None

    def _bf16_baseline(self) -> PlannedTrial | None:
        """Return the config in bf16, if nothing else will be measured in bf16.

        Not if the config itself failed. The confirmation measures the chosen setting in
        bf16 too, and a rehearsal does not compare precisions.
        """
        history = self._history
        if history.is_rehearsal:
            return None
        bf16 = self.space.in_bf16(self.baseline)
        ran = [trial.record.ok for trial in history.trials if trial.stage == "baseline"]
        if bf16 is None or (ran and not any(ran)):
            return None
        if any(trial.stage == "confirm" for trial in history.trials):
            return None
        planned = PlannedTrial(bf16, "bf16-baseline", "bf16 baseline")
        alone = history.ranked[:1] in ([], [self.baseline])
        if not alone or self.budget.left_for_speed <= typical_cost(history, bf16):
            return None
        return planned if self._is_due(planned) else None

    def _is_due(self, planned: PlannedTrial) -> bool:
        """Return whether a baseline has not run, or failed once and may now succeed."""
        if not self.space.has(planned.point) or self._too_late:
            return False
        stage, trials = planned.stage, self._history.trials
        if any(running.stage == stage for running in self.running.values()):
            return False
        own = [trial.record for trial in trials if trial.stage == stage]
        return not own or (len(own) == 1 and own[0].meaning.retry_once)

    def _searching(self) -> bool:
        """Return whether one more trial leaves time for the confirmation.

        The first trial runs in any case. A confirmation that started under a smaller
        budget does not end the search of a larger one.
        """
        history = self._history
        ended = any(
            trial.stage == "confirm" and trial.budget_s >= self.budget.seconds
            for trial in history.trials
        ) or any(running.stage == "confirm" for running in self.running.values())
        if ended or self._too_late or never_begins(history.trials):
            return False
        costs = [typical_cost(history, point) for point in settings(history)]
        found = any(t.stage == "search" and t.record.ok for t in history.trials)
        # one more trial, then the best and the baseline: a verdict needs these
        trial, needed = (costs[0], sum(costs[:2])) if costs and found else (0.0, 0.0)
        reserve = max(needed, min(sum(costs), self.budget.seconds / 4))
        if PAIRS * needed > self.budget.seconds / 2:  # too little time for a verdict
            reserve = 0.0
        return self.budget.left_for_speed - trial > reserve

    def _ending_run(self, worker: str) -> PlannedTrial | None:
        """Return a confirmation or loss run; these may reject a setting and go on.

        While trials run, only others of their kind start.
        """
        if not self._search_is_over:
            return None
        stages = {planned.stage for planned in self.running.values()}
        if stages == {"confirm"}:
            return self._confirmation(worker)
        if stages:
            return self._unfinished() if stages == {"stability"} else None
        return (
            self._bf16_baseline()
            or self._unfinished()
            or self._confirmation(worker)
            or self._left_over()
            or self._compared()
        )

    def _confirmation(self, worker: str) -> PlannedTrial | None:
        history = self._history
        if worker or self.running:
            trials = [*self._counting.trials, *self._taken()]
            history = History(self.space, self.baseline, trials, worker)
            history = history.by(self.objective)
        point = again(history)
        if point is None:
            return None
        if self.budget.left_for_speed <= typical_cost(history, point):
            return None
        return PlannedTrial(point, "confirm", reason(history, point))

    def _taken(self) -> Iterator[Trial]:
        """Yield the confirmation runs of other processes, as if they had ended."""
        for number, planned in self.running.items():
            worker = planned.worker
            if known := self._counting.runs(planned.point).succeeded:
                yield Trial(
                    number,
                    "confirm",
                    known[-1],
                    process=self.study.process,
                    budget_s=self.budget.seconds,
                    position=sum(t.worker == worker for t in self.study.trials),
                    worker=worker,
                )

    def _left_over(self) -> PlannedTrial | None:
        """Return the next of the few settings left if the baseline would be the best.

        The time left must allow as many repeats as the baseline had, and one more of
        both; otherwise a conclusive answer could become inconclusive. None is tried if
        the machine's speed changed, because it would be compared with earlier runs.
        """
        history, chosen = self._history, choose(self._history)
        if history.speed_changed or chosen[:2] != (self.baseline, "same"):
            return None
        planned = self.strategy.propose_untested(history.timed)
        if planned is None:
            return None
        cost = typical_cost(history, planned.point)
        repeats = len(history.runs(self.baseline).confirmed)
        enough = self.budget.left_for_speed > (1 + 2 * repeats) * cost
        return planned if enough else None

    def _proving(self) -> PlannedTrial | None:
        """Return a loss run of the best setting, if the search changed its FP8."""
        unproven = self._history.is_unproven(self._chosen())
        return self._unfinished() or (self._compared() if unproven else None)

    def _unfinished(self) -> PlannedTrial | None:
        running = [planned for planned in self.running.values() if planned.loss_run]
        return self.stage.started(self._history, running) if self.stage else None

    def _compared(self) -> PlannedTrial | None:
        return self.stage.next(self._history, self._chosen()) if self.stage else None

    def _chosen(self) -> Point | None:
        return choose(self._history).point

    def _start(self, planned: PlannedTrial, worker: str) -> None:
        at_s = self.budget.spent if self.pool.side_by_side else None
        planned = planned._replace(worker=worker, at_s=at_s)
        self._has_begun(self.pool.start(self._order(planned)), planned)

    def _has_begun(self, number: int, planned: PlannedTrial) -> None:
        self.running[number] = planned
        self.watch(Event(number, planned, None, self.budget.left))

    def _take(self, ended: Ended) -> None:
        """Take up trials that ended, and those that other processes began."""
        self._take_up(self.study.process)
        for number, trial in ended.items():
            planned = self.running.pop(number, None)
            if trial:
                point = self.space.point(trial.record.knobs)
                planned = planned or PlannedTrial(point, trial.stage, "")
            if planned:
                left = self.budget.left
                self.watch(Event(number, planned, trial, left, lost=trial is None))
        for number, planned in self.study.running.items():
            if number not in self.running:
                self._has_begun(number, planned)

    def _has_seen_all(self) -> bool | None:
        """Return whether every promising setting was tried; ``None`` if time ran out.

        This is the state when the search ended by itself, now or before it was killed.
        """
        seen = [self._whole, *(trial.searched_all for trial in self.study.trials)]
        return True if True in seen else False if False in seen else None

    def _order(self, planned: PlannedTrial) -> Order:
        """Return the order of a trial with its limits."""
        left, point = self.budget.left, planned.point
        history = History(self.space, self.baseline, self.study.trials)
        if planned.loss_run and self.stage:
            deadline_s = self.stage.limit(history, point, planned.loss_run, left)
            limits = TrialLimits(deadline_s)
        else:
            limits = trial_limits(history, point, left)
        if planned.stage == "confirm":
            limits = limits._replace(least_s=CONFIRMED_S)
        return Order(
            planned,
            self.space.values(point),
            limits,
            left,
            self.budget.seconds,
            searched_all=self._has_seen_all() if planned.is_final else None,
        )
