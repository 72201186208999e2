"""Which settings that ran may not be chosen all the same, and why."""

from __future__ import annotations

from fp8tune.search.outcome import Outcome
from fp8tune.search.stability.finding import lesson
from fp8tune.search.wording import FAILURES
from fp8tune.trials.space import Point, Space


def unfit(space: Space, found: Outcome, point: Point) -> str:
    """Why a setting that ran is not sound; ``""`` where nothing speaks against it."""
    if why := found.memory_shortage.get(point):
        return why
    if how := found.broken.get(point):
        return f"failed in another run: {FAILURES[how]}"
    diverges = {lesson(space, wrong) for wrong in found.rejected}
    return "FP8 diverges" if lesson(space, point) in diverges else ""
