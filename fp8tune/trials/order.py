"""A trial that a search has planned, and the order to run it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from fp8tune.trials.record import LossRun, Record
from fp8tune.trials.runner import Runner, TrialLimits
from fp8tune.trials.space import Point
from fp8tune.trials.trial import FINAL_STAGES


class PlannedTrial(NamedTuple):
    """A setting to try, the stage of the search, and the reason in a few words.

    With a ``loss_run`` it is trained that way and not timed. Once it runs, ``worker``
    and ``at_s`` are those of the ``Trial``. ``gain`` is what a proposal is expected to
    gain (log of tokens/s).
    """

    point: Point
    stage: str
    reason: str
    loss_run: LossRun | None = None
    worker: str = ""
    at_s: float | None = None
    gain: float = math.inf

    @property
    def is_final(self) -> bool:
        """Whether the search proposes nothing new after it."""
        return self.stage in FINAL_STAGES


class Order(NamedTuple):
    """A planned trial with all that its run needs.

    ``knobs`` maps config keys to values. ``left_s`` is what was left of the budget of
    ``budget_s`` seconds when it was planned, ``searched_all`` is that of the ``Trial``.
    """

    planned: PlannedTrial
    knobs: dict[str, Any]
    limits: TrialLimits
    left_s: float
    budget_s: float
    searched_all: bool | None = None

    def run(self, runner: Runner) -> Record:
        """Run the trial; it returns within its limits."""
        if how := self.planned.loss_run:
            return runner.train_for_losses(self.knobs, how, self.limits.deadline_s)
        return runner.run(self.knobs, self.limits)

    def place(self, record: Record) -> dict[str, Any]:
        """Return the place of its trial in the study, as fields of ``Trial``."""
        late = not record.ok and record.cost_s >= self.limits.deadline_s
        return {
            "cut_off": record.meaning.if_given_up and record.cost_s >= self.left_s,
            "budget_s": self.budget_s if self.planned.is_final or late else math.inf,
            "searched_all": self.searched_all,
            "at_s": self.planned.at_s,
            "worker": self.planned.worker,
        }
