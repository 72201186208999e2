"""Which settings are measured again at the end, and in what order.

In fresh processes and in turn, so that what drifts hits all alike: the best settings,
the user's own, and the best one's counterpart in bf16 at bf16's own best batch, or in
FP8.
"""

from __future__ import annotations

from collections.abc import Sequence

from fp8tune.search.choice import choose, compare_fp8, overlooked, ranked
from fp8tune.search.runs import (
    MOST,
    NEAR,
    Runs,
    by_point,
    drift,
    failed,
    is_unfit,
    measured_gap,
    neighbours,
    speed_of,
    usual,
)
from fp8tune.search.statistics import settled, verdict
from fp8tune.trials.space import Point, Space
from fp8tune.trials.trial import Trial

BEST = 3
"""Settings that are confirmed, the baseline not counted."""
CLOSE = 0.97
"""Share of their speed that settings may have lost since the search."""
ROUNDS = 2
PAIRS = 6
"""Runs of FP8 and of bf16 at its best, while it is not clear what FP8 gains."""


def again(space: Space, baseline: Point, trials: Sequence[Trial]) -> Point | None:
    """The next point to measure again; ``None`` when all is said."""
    runs = by_point(space, trials)
    return unconfirmed(space, baseline, trials) or _fp8_gain(
        space, baseline, trials, runs
    )


def reason(space: Space, point: Point, trials: Sequence[Trial]) -> str:
    """Why a point is confirmed: some are needed that never ran, to compare with."""
    ran = any(t.record.ok and space.point(t.record.knobs) == point for t in trials)
    return "confirmation run" if ran else "comparison run"


def unconfirmed(space: Space, baseline: Point, trials: Sequence[Trial]) -> Point | None:
    """The next point that the choice rests on; ``None`` when that is settled."""
    found = [trial for trial in trials if trial.stage != "confirm"]
    points = settings(space, baseline, found)
    rival = overlooked(space, baseline, found, points)
    if not points or (points == [baseline] and rival is None):
        return None
    runs = by_point(space, trials)
    return (
        _in_turn(space, points, runs)
        or _once_more(space, baseline, trials, rival)
        or _passed_over(space, baseline, found, runs, rival)
        or _doubtful(space, baseline, trials, runs)
        or _counterpart(space, baseline, trials, runs)
    )


def _in_turn(space: Space, points: list[Point], runs: Runs) -> Point | None:
    """The next of some points, the first of which has its counterpart among them.

    Each turn in the same order: back again, a GPU that is slow for two or three trials
    would hit both runs of one and none of another, and nothing would show it.
    """
    for turn in range(ROUNDS):
        in_bf16 = space.in_bf16(points[0]) in points
        if turn == 1 and in_bf16 and (probe := _bf16_probe(space, points[0], runs)):
            return probe
        if turn == 1:
            points = [_at_own_best(space, p, points[0], runs) for p in points]
        for point in points:
            if _times(runs, point) <= turn and not _lost(runs, point):
                return point
    return None


def settings(space: Space, baseline: Point, found: Sequence[Trial]) -> list[Point]:
    """The points to confirm after a search that found these trials, by importance."""
    best = ranked(space, baseline, found)
    if not best:
        return []
    runs = by_point(space, found)
    same = usual(runs).same
    near = [
        point
        for point in best[1:BEST]
        if (gain := measured_gap(runs, point, best[0]))
        and verdict(gain, same) != "slower"
    ]
    other = _other_precision(space, baseline, best[0], found)
    mine = [baseline] if space.has(baseline) and not _lost(runs, baseline) else []
    return list(dict.fromkeys([best[0], *mine, *([other] if other else []), *near]))


def _other_precision(
    space: Space, baseline: Point, point: Point, trials: Sequence[Trial]
) -> Point | None:
    """The setting in bf16, or in FP8; none in a rehearsal, which does not compare."""
    if any(trial.record.rehearsal for trial in trials):
        return None
    return space.in_bf16(point) or _in_fp8(space, baseline, point)


def _bf16_probe(space: Space, best: Point, runs: Runs) -> Point | None:
    """A batch beside bf16's best one, not tried in bf16, in which FP8 has run."""
    bf16 = space.in_bf16(best)
    if bf16 is None:
        return None
    fastest = _at_own_best(space, bf16, best, runs)
    ran = [point for point in runs if _ran(runs, point) and _beside(space, point, best)]
    batches = sorted({space.batch(point) for point in ran})
    if space.batch(fastest) not in batches:
        return None
    place = batches.index(space.batch(fastest))
    near = batches[max(0, place - 1) : place + 2]
    in_bf16 = [space.in_bf16(point) for point in ran if space.batch(point) in near]
    return next((point for point in in_bf16 if point and point not in runs), None)


def _at_own_best(space: Space, point: Point, best: Point, runs: Runs) -> Point:
    """Return the best setting in bf16 with the batch that suits bf16; others as is."""
    if point != space.in_bf16(best):
        return point
    others = [p for p in runs if _ran(runs, p) and _beside(space, p, point)]
    speeds = {p: measured.value for p in others if (measured := speed_of(runs, p))}
    return max(speeds, key=lambda p: speeds[p], default=point)


def _beside(space: Space, point: Point, other: Point) -> bool:
    """Whether two points differ in the batch alone, or not at all."""
    return space.cell(point) == space.cell(other)


def _ran(runs: Runs, point: Point) -> bool:
    return any(trial.record.ok for trial in runs[point]) and not is_unfit(runs[point])


def _in_fp8(space: Space, baseline: Point, point: Point) -> Point | None:
    """A bf16 setting's counterpart, where FP8 might have been chosen as well."""
    other = space.with_precision(point, "fp8")
    return other if other and space.allows(other, baseline) else None


def _passed_over(
    space: Space,
    baseline: Point,
    found: Sequence[Trial],
    runs: Runs,
    known: Point | None,
) -> Point | None:
    """A setting that the search saw faster than what was confirmed now is.

    Some of the best only, and not the one that is ``known`` to run once more. They are
    allowed to have lost as much as the others, but not where those lost a lot: nobody
    knows when the GPU became slower.
    """
    before = by_point(space, found)
    seen = {p: own.value for p in before if (own := speed_of(before, p))}
    every = [p for p in ranked(space, baseline, found) if p != baseline]
    ours = [p for p in (baseline, *every) if _times(runs, p) and not is_unfit(runs[p])]
    now = [own.value for p in ours if (own := speed_of(runs, p))]
    best, lost = max(now, default=0.0), drift(runs)
    lost = lost if lost > CLOSE else 1.0
    rivals = [p for p in every[: 2 * BEST] if p != known]
    promising = [p for p in rivals if seen[p] * lost > best]
    return _beside_baseline(runs, baseline, rivals, promising)


def _once_more(
    space: Space, baseline: Point, trials: Sequence[Trial], rival: Point | None
) -> Point | None:
    """A run of a rival before the baseline is called the best, beside it."""
    if rival is None or choose(space, baseline, trials).point != baseline:
        return None
    return _alternate(by_point(space, trials), rival, baseline, 1)


def _beside_baseline(
    runs: Runs, baseline: Point, rivals: Sequence[Point], promising: Sequence[Point]
) -> Point | None:
    """The next run of the first rival that promises something, or was begun."""
    open_ones = (p for p in rivals if _times(runs, p) or p in promising)
    asked = (_alternate(runs, point, baseline, ROUNDS) for point in open_ones)
    return next(filter(None, asked), None)


def _counterpart(
    space: Space, baseline: Point, trials: Sequence[Trial], runs: Runs
) -> Point | None:
    """A run of what is chosen in the other precision, where that was not confirmed."""
    chosen = choose(space, baseline, trials).point
    other = chosen and _other_precision(space, baseline, chosen, trials)
    if not chosen or other in (None, chosen) or not _times(runs, chosen):
        return None
    return _alternate(runs, other, chosen, ROUNDS)


def _fp8_gain(
    space: Space, baseline: Point, trials: Sequence[Trial], runs: Runs
) -> Point | None:
    """FP8 or bf16 at its best, until it is known which one is faster, if any."""
    chosen = choose(space, baseline, trials).point
    _, known, pair = compare_fp8(space, runs, chosen, baseline)
    if pair is None or known is None or not _times(runs, pair.fp8):
        return None
    gain = measured_gap(runs, pair.fp8, pair.bf16)
    enough = len(neighbours(runs, pair.fp8, pair.bf16)) >= ROUNDS
    if gain and enough and settled(gain, usual(runs).same):
        return None
    return _alternate(runs, pair.bf16, pair.fp8, PAIRS)


def _doubtful(
    space: Space, baseline: Point, trials: Sequence[Trial], runs: Runs
) -> Point | None:
    """The baseline or its rival, where it is not yet clear which is faster.

    Where none was confirmed because the search saw them slower, the best of those that
    are not surely so as runs have turned out to differ.
    """
    others = [p for p in ranked(space, baseline, trials) if p != baseline]
    ours = [p for p in others if _times(runs, p)] or others
    if not ours or not _times(runs, baseline) or _lost(runs, baseline):
        return None
    gain, same = measured_gap(runs, ours[0], baseline), usual(runs).same
    left = not _times(runs, ours[0]) and gain and verdict(gain, same) == "slower"
    if left or (gain and settled(gain, same)):
        return None
    return _alternate(runs, ours[0], baseline, MOST)


def _alternate(runs: Runs, one: Point, other: Point, times: int) -> Point | None:
    """Which of two points is to run, until they have run so often beside each other.

    In the order A B A B B A A B, so that nothing that drifts or comes and goes favours
    one; where the other one cannot run, only the first, so often. What one of them ran
    before that, while the other did not, is no such run.
    """
    if _lost(runs, one):
        return None
    if _lost(runs, other) or not runs.get(other):
        return one if _times(runs, one) < times else None
    if max(_times(runs, one), _times(runs, other)) >= 2 * MOST:
        return None
    numbers = {
        point: [trial.number for trial in runs[point] if trial.stage == "confirm"]
        for point in (one, other)
    }
    if missing := [point for point in numbers if not numbers[point]]:
        return missing[0]
    both = max(min(own) for own in numbers.values())
    before = max(n for own in numbers.values() for n in own if n < both)
    first = before if both - before <= NEAR else both
    since = {p: [t for t in runs[p] if t.number >= first] for p in numbers}
    if len(neighbours(since, one, other)) >= times:
        return None
    turns = sorted((n, p) for p, own in numbers.items() for n in own if n >= first)
    last = [point for _, point in turns[-2:]]
    if len(set(last)) == 2:
        return last[0] if len(turns) < 2 * ROUNDS else last[-1]
    return other if last[-1] == one else one


def _times(runs: Runs, point: Point) -> int:
    return sum(trial.stage == "confirm" for trial in runs.get(point, []))


def _lost(runs: Runs, point: Point) -> bool:
    """Whether another run of a point is not worth its time: it failed for good."""
    own = runs.get(point, [])
    return failed(own) or sum(not trial.record.ok for trial in own) > 1
