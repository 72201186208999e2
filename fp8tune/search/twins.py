"""What FP8 gains over bf16, each at the batch that suits it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fp8tune.search.runs import Runs, during, gap, is_unfit, speed_of, together
from fp8tune.search.statistics import Speed
from fp8tune.trials.space import Point, Space

PRECISIONS = ("fp8", "bf16")


class Pair(NamedTuple):
    """What FP8's gain is of: a setting in FP8, and the fastest that bf16 was."""

    fp8: Point
    bf16: Point


def fp8_gain(
    space: Space, runs: Runs, points: Sequence[Point]
) -> tuple[Speed | None, Speed | None, Pair | None]:
    """The fastest that bf16 was, what FP8 gains over it, and of what that is.

    The gain is that of the first of these points that was measured in both, the
    chosen and the given one. The given one is held against bf16 of its own kind: it is
    not tuned, as the fastest bf16 is. Both ran in the confirmation, or both before it:
    in between the GPU may have become slower.
    """
    versions = [
        [space.with_precision(point, name) for name in PRECISIONS] for point in points
    ]
    twins = [bf16 for _, bf16 in versions if bf16]
    for place, (fp8, same) in enumerate(versions):
        for stage in (True, False):
            speeds = during(runs, confirmation=stage)
            if fp8 is None or fp8 not in speeds or same not in speeds:
                continue
            in_bf16 = [p for p in speeds if _is_bf16(space, p)]
            whole = stage and place == 0 and len(points) > 1
            mine = twins if place == 0 else [same]
            every = in_bf16 if whole else [p for p in mine if p in speeds]
            bf16 = _fastest(every, speeds, runs)
            assert bf16 is not None
            _, beside = together(runs, fp8, bf16)
            return beside, gap(runs, fp8, bf16), Pair(fp8, bf16)
    known = {p: found for p in twins if (found := speed_of(runs, p))}
    lone = _fastest(list(known), known, runs)
    return (known[lone] if lone else None), None, None


def _is_bf16(space: Space, point: Point) -> bool:
    return bool(space.value(point, "precision") == "bf16")


def _fastest(
    points: Sequence[Point], speeds: Mapping[Point, Speed], runs: Runs
) -> Point | None:
    """The fastest, of those that are sound if any is."""
    fit = [point for point in points if not is_unfit(runs[point])]
    return max(fit or points, key=lambda point: speeds[point].value, default=None)
