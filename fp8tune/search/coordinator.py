"""The search loop, within a wall budget, whatever the trials do.

The user's config and its bf16 twin come first, then what the strategy proposes, then
the best settings once more in turn.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import NamedTuple

from fp8tune.search.answer import Answer, answer, ranked
from fp8tune.search.runner import Runner
from fp8tune.search.space import Point, Space
from fp8tune.search.strategy import Proposal, Strategy
from fp8tune.search.study import Study, Trial

CONFIRMED = 3
"""Settings that are measured again at the end, the user's own among them."""


class Limits(NamedTuple):
    """Wall time [s].

    ``budget`` is for everything, ``write`` of it is kept for the answer, ``trial`` is
    the longest that a trial may take while nothing is known of its cost.
    """

    budget: float
    write: float = 2.0
    trial: float = 1800.0


class Event(NamedTuple):
    """What a display hears: a proposal that starts, or the trial that it became."""

    proposal: Proposal
    trial: Trial | None
    left: float


class Search:
    """One search over a space, from a given point."""

    def __init__(
        self,
        space: Space,
        given: Point,
        runner: Runner,
        strategy: Strategy,
        study: Study,
        limits: Limits,
        watch: Callable[[Event], None] = lambda _event: None,
    ) -> None:
        self.space = space
        self.given = given
        self.runner = runner
        self.strategy = strategy
        self.study = study
        self.limits = limits
        self.watch = watch
        self.interrupted = False
        self._begun = runner.now() - study.spent

    @property
    def left(self) -> float:
        """Seconds of the budget that are left."""
        return self.limits.budget - (self.runner.now() - self._begun)

    def run(self) -> Answer:
        """Search until nothing is gained or the budget is spent; then answer.

        Ctrl-C ends the search, not the program: the answer is what is known.
        """
        try:
            for proposal in self._proposals():
                self._try(proposal)
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            self.runner.close()
        seconds = self.limits.budget - self.left
        return answer(self.space, self.given, self.study.trials, seconds)

    def _proposals(self) -> Iterator[Proposal]:
        yield from self._first()
        while self.left > self._reserve():
            proposal = self.strategy.propose(self.study.trials)
            if proposal is None:
                break
            yield proposal
        yield from self._confirmations()

    def _first(self) -> Iterator[Proposal]:
        """The user's config and its bf16 twin, unless a resumed study has them."""
        yield from self._once(Proposal(self.given, "given", "your config"))
        twin = self.space.twin(self.given)
        if twin is not None:
            yield from self._once(Proposal(twin, "twin", "the same in bf16"))

    def _once(self, proposal: Proposal) -> Iterator[Proposal]:
        if all(trial.stage != proposal.stage for trial in self.study.trials):
            yield proposal

    def _confirmations(self) -> Iterator[Proposal]:
        """The best settings, the given one and the best one's bf16 twin, in turn."""
        best = ranked(self.space, self.given, self.study.trials)[:CONFIRMED]
        points = dict.fromkeys([*best, self.given] if best else [])
        twin = self.space.twin(best[0]) if best else None
        if len(points) < 2 and twin is None:
            return
        for point in [*points, *([twin] if twin else [])]:
            if not self._confirmed(point) and self.left > self._typical():
                yield Proposal(point, "confirm", "measured again")

    def _confirmed(self, point: Point) -> bool:
        return any(
            trial.stage == "confirm" and self.space.point(trial.record.knobs) == point
            for trial in self.study.trials
        )

    def _try(self, proposal: Proposal) -> None:
        deadline = min(self.left - self.limits.write, self._deadline())
        if deadline <= 0:
            return
        self.watch(Event(proposal, None, self.left))
        record = self.runner.run(dict(proposal.point), deadline)
        trial = self.study.add(proposal.stage, record)
        self.watch(Event(proposal, trial, self.left))

    def _typical(self) -> float:
        """Median cost of the trials that measured something [s]; 0 before the first."""
        costs = [trial.record.cost_s for trial in self.study.trials if trial.record.ok]
        return statistics.median(costs) if costs else 0.0

    def _deadline(self) -> float:
        """Three times what trials take; before that, half of the budget at most."""
        typical = self._typical()
        if typical:
            return max(3 * typical, 60.0)
        return min(self.limits.trial, self.limits.budget / 2)

    def _reserve(self) -> float:
        """Time for confirmation and answer: a quarter of the budget at most."""
        wanted = (CONFIRMED + 2) * self._typical()
        return self.limits.write + min(wanted, self.limits.budget / 4)
