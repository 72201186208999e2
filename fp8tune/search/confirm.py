"""Which settings are measured again at the end, and in what order.

In fresh processes and in turn, so that what drifts hits all alike: the best settings,
the user's own, and the best one's twin in bf16.
"""

from __future__ import annotations

from collections.abc import Sequence

from fp8tune.search.answer import Runs, by_point, is_unfit, ranked, speed_of
from fp8tune.search.space import Point, Space
from fp8tune.search.statistics import verdict
from fp8tune.search.study import Trial

BEST = 3
"""Settings that are confirmed, the given one not counted."""
CLOSE = 0.97
"""Share of the best one's speed from which another may be the best."""
ROUNDS = 2
MOST = 6
"""Runs of the best and the given setting, while it is not clear which is faster."""


def again(space: Space, given: Point, trials: Sequence[Trial]) -> Point | None:
    """The next point to measure again; ``None`` when all is said."""
    found = [trial for trial in trials if trial.stage != "confirm"]
    points = settings(space, given, found)
    if not points or points == [given]:
        return None
    runs = by_point(space, trials)
    for turn in range(ROUNDS):
        for point in points if turn % 2 == 0 else reversed(points):
            if _times(runs, point) <= turn and not _lost(runs, point):
                return point
    return _doubtful(space, given, trials, runs)


def settings(space: Space, given: Point, found: Sequence[Trial]) -> list[Point]:
    """The points to confirm after a search that found these trials, by importance."""
    best = ranked(space, given, found)
    if not best:
        return []
    runs = by_point(space, found)
    fastest = speed_of(runs, best[0])
    near = [
        point
        for point in best[1:BEST]
        if fastest
        and (own := speed_of(runs, point))
        and own.value > CLOSE * fastest.value
    ]
    twin = space.twin(best[0])
    mine = [given] if space.has(given) and not _lost(runs, given) else []
    return list(dict.fromkeys([best[0], *([twin] if twin else []), *mine, *near]))


def _doubtful(
    space: Space, given: Point, trials: Sequence[Trial], runs: Runs
) -> Point | None:
    """The best or the given setting, where it is not yet clear which is faster."""
    best = ranked(space, given, trials)[0]
    fastest, mine = speed_of(runs, best), speed_of(runs, given)
    if not fastest or not mine or verdict(fastest, mine) != "unsure":
        return None
    fewer = min(given, best, key=lambda point: _times(runs, point))
    return fewer if _times(runs, fewer) < MOST else None


def _times(runs: Runs, point: Point) -> int:
    return sum(trial.stage == "confirm" for trial in runs.get(point, []))


def _lost(runs: Runs, point: Point) -> bool:
    """Whether another run of a point is not worth its time: it failed for good."""
    own = runs.get(point, [])
    return is_unfit(own) or sum(not trial.record.ok for trial in own) > 1
