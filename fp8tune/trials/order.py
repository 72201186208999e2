"""An order: a trial that the search has planned, with all that a worker needs for it.

It travels through the storage as JSON, to whichever process runs the trial.
"""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

from fp8tune.trials.record import BadRecord, LossRun, Record, is_number
from fp8tune.trials.runner import Runner, TrialLimits
from fp8tune.trials.trial import FINAL_STAGES, STAGES


class Order(NamedTuple):
    """A trial to run.

    ``knobs`` maps config keys to values; ``reason`` says in a few words why it runs.
    With a ``loss_run`` it is trained that way and not timed. ``left_s`` is what was
    left of the budget of ``budget_s`` seconds when it was planned. ``process`` and
    ``searched_all`` are those of the ``Trial``. ``at_s`` is the search time at which it
    was planned, if other trials may run at the same time. ``worker`` names the only
    worker that may run it, ``""`` for any.
    """

    knobs: dict[str, Any]
    stage: str
    reason: str
    limits: TrialLimits
    left_s: float
    budget_s: float
    loss_run: LossRun | None = None
    process: int = 0
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
        }

    def line(self) -> str:
        """Return the order as JSON."""
        return json.dumps(self._asdict(), allow_nan=False)


def parse_order(line: str) -> Order:
    """Return the order in a line of JSON; raises ``BadRecord``."""
    try:
        fields = json.loads(line)
        run = fields.pop("loss_run")
        deadline_s, stepping_s, matmuls, least_s = fields.pop("limits")
        order = Order(
            **fields,
            limits=TrialLimits(deadline_s, stepping_s, int(matmuls), least_s),
            loss_run=LossRun(*run) if run else None,
        )
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise BadRecord(f"not an order ({type(error).__name__}: {error})") from None
    numbers = order.left_s, order.budget_s, order.limits.deadline_s
    if order.stage not in STAGES or not all(map(is_number, numbers)):
        raise BadRecord(f"not an order of stage {order.stage!r}")
    return order
