"""What is tried of the last few settings, before the given one is called the best."""

from __future__ import annotations

from collections.abc import Sequence

from fp8tune.search.choice import choose
from fp8tune.search.deadline import typical
from fp8tune.search.drift import told
from fp8tune.search.runs import by_point, confirmed
from fp8tune.search.strategy import Proposal, Strategy
from fp8tune.trials.space import Point, Space
from fp8tune.trials.trial import Trial, timed


def left_over(
    space: Space,
    given: Point,
    strategy: Strategy,
    trials: Sequence[Trial],
    left: float,
) -> Proposal | None:
    """The next of few settings left, if the given one would be called the best now.

    Where ``left`` seconds are enough to try it and to measure both as often as the
    given one was: else a sure answer would become inconclusive. Not on a GPU that
    changed its speed: it would be compared with what ran before that.
    """
    runs = by_point(space, trials)
    if told(runs):
        return None
    chosen = choose(space, given, trials)
    if chosen.point != given or chosen.verdict != "same":
        return None
    proposal = strategy.left(timed(trials))
    if proposal is None:
        return None
    cost = typical(space, timed(trials), proposal.point)
    times = len(confirmed(runs[given]))
    return proposal if left > (1 + 2 * times) * cost else None
