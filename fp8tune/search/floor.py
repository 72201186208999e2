"""How slow a trial must be to end before its full sample."""

from __future__ import annotations

from collections.abc import Sequence

from fp8tune.search.answer import ranked
from fp8tune.search.runs import by_point, is_unfit, speed_of
from fp8tune.search.space import Point, Space
from fp8tune.search.study import Trial

SHARE = 0.95
"""Of the best one's lower bound. The rest is for what a run differs from the next one
by, and keeps what the confirmation may want (``confirm.CLOSE``) measured in full."""


def floor(space: Space, given: Point, trials: Sequence[Trial]) -> float:
    """Tokens/s below which a trial that searches need not go on; 0 for none.

    Nothing ends early for a setting that may have to give way itself.
    """
    runs = by_point(space, trials)
    best = next(iter(ranked(space, given, trials)), None)
    found = speed_of(runs, best)
    if best is None or found is None or is_unfit(runs[best]):
        return 0.0
    return SHARE * found.low
