"""An order: a trial that the search has planned, with all that its run needs."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from fp8tune.trials.record import LossRun, Record
from fp8tune.trials.runner import Runner, TrialLimits
from fp8tune.trials.trial import FINAL_STAGES


class Order(NamedTuple):
    """A trial to run.

    ``knobs`` maps config keys to values; ``reason`` says in a few words why it runs.
    With a ``loss_run`` it is trained that way and not timed. ``left_s`` is what was
    left of the budget of ``budget_s`` seconds when it was planned. ``searched_all``,
    ``worker`` and ``at_s`` are those of the ``Trial``.
    """

    knobs: dict[str, Any]
    stage: str
    reason: str
    limits: TrialLimits
    left_s: float
    budget_s: float
    loss_run: LossRun | None = None
    searched_all: bool | None = None
    at_s: float | None = None
    worker: str = ""

    def run(self, runner: Runner) -> Record:
        """Run the trial; it returns within its limits."""
        if self.loss_run:
            deadline_s = self.limits.deadline_s
            return runner.train_for_losses(self.knobs, self.loss_run, deadline_s)
        return runner.run(self.knobs, self.limits)

    def place(self, record: Record) -> dict[str, Any]:
        """Return the place of its trial in the study, as fields of ``Trial``."""
        late = not record.ok and record.cost_s >= self.limits.deadline_s
        of_budget = self.stage in FINAL_STAGES or late
        return {
            "cut_off": record.meaning.if_given_up and record.cost_s >= self.left_s,
            "budget_s": self.budget_s if of_budget else math.inf,
            "searched_all": self.searched_all,
            "at_s": self.at_s,
            "worker": self.worker,
        }
