"""Which settings may be chosen, and which of them one bad run may have hidden."""

from __future__ import annotations

from collections.abc import Sequence

from fp8tune.search.runs import by_point, failed, lacks_memory, speed_of
from fp8tune.search.stability.findings import loss_key, rejected_losses
from fp8tune.trials.space import Point, Space
from fp8tune.trials.trial import Trial

BAD = 0.9
"""What one bad run may show of a setting's speed: of 40 runs of the rehearsal the worst
reached 0.906 of their median (benchmarks/results/runs_cpu.jsonl). No published table
repeats runs on H100 or H200; the same is taken for them."""


def eligible(space: Space, given: Point, trials: Sequence[Trial]) -> list[Point]:
    """The points with a trial that may be chosen by what is known of them."""
    runs, wrong = by_point(space, trials), rejected_losses(space, trials)
    return [
        point
        for point, own in runs.items()
        if not failed(own)
        and (point == given or not lacks_memory(own))
        and space.allows(point, given)
        and loss_key(space, point) not in wrong
    ]


def overlooked(
    space: Space, given: Point, found: Sequence[Trial], points: Sequence[Point]
) -> Point | None:
    """The best of the others by one run, where a bad one may explain that it is slower.

    Unless it is confirmed as one of ``points``.
    """
    runs = by_point(space, found)
    ran = {
        point: own[0]
        for point in eligible(space, given, found)
        if point != given
        and len(own := [t.record.tokens_per_second for t in runs[point] if t.record.ok])
        == 1
    }
    rival, mine = max(ran, key=lambda p: ran[p], default=None), speed_of(runs, given)
    if rival is None or mine is None or rival in points:
        return None
    return rival if ran[rival] >= BAD * mine.value else None
