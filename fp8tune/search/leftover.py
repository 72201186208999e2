"""What is tried where few settings are left, before the given one is called the best."""

from __future__ import annotations

from collections.abc import Sequence

from fp8tune.search.answer import answer
from fp8tune.search.confirm import ROUNDS
from fp8tune.search.deadline import typical
from fp8tune.search.space import Point, Space
from fp8tune.search.strategy import Proposal, Strategy
from fp8tune.search.study import Trial, timed


def left_over(
    space: Space,
    given: Point,
    strategy: Strategy,
    trials: Sequence[Trial],
    left: float,
) -> Proposal | None:
    """The next of few settings left, if the given one would be called the best now.

    Where ``left`` seconds are enough to try it and to measure both again.
    """
    found = answer(space, given, trials, 0.0)
    if found.chosen != given or found.verdict != "same":
        return None
    proposal = strategy.left(timed(trials))
    if proposal is None:
        return None
    cost = typical(space, timed(trials), proposal.point)
    return proposal if left > (1 + 2 * ROUNDS) * cost else None
