"""Which settings that ran may not be chosen all the same, and why."""

from __future__ import annotations

from fp8tune.search.answer import Answer
from fp8tune.search.failed import WORDS
from fp8tune.search.stability.findings import loss_key
from fp8tune.trials.space import Point, Space


def unfit(space: Space, found: Answer, point: Point) -> str:
    """Why a setting that ran is not sound; ``""`` where nothing speaks against it."""
    if why := found.unfit.get(point):
        return why
    if how := found.broken.get(point):
        return f"failed in another run: {WORDS[how]}"
    diverges = {loss_key(space, wrong) for wrong in found.rejected}
    return "FP8 diverges" if loss_key(space, point) in diverges else ""
