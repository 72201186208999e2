"""What to try next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from fp8tune.trials.loss_run import LossRun
from fp8tune.trials.space import Point
from fp8tune.trials.trial import Trial


class Proposal(NamedTuple):
    """A point to try, the stage that it belongs to, and why, in a few words.

    With a ``loss_run`` it is trained that way and not timed.
    """

    point: Point
    stage: str
    reason: str
    loss_run: LossRun | None = None


class Strategy(Protocol):
    """Proposes trials.

    The same history gets the same proposal, so that a search that was killed goes on
    as if it had not been.
    """

    def propose(self, trials: Sequence[Trial]) -> Proposal | None:
        """The next trial, or ``None`` where none is worth its risk."""
        ...

    def left(self, trials: Sequence[Trial]) -> Proposal | None:
        """One of few settings left, to be tried before the given is called the best."""
        ...

    def leaves(self, trials: Sequence[Trial]) -> bool:
        """Whether what is not worth its risk promises something."""
        ...
