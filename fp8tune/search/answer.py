"""What a study says: the setting to take, how fast it is, and beside what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fp8tune.search.aim import ENERGY, SPEED, aimed
from fp8tune.search.record import Record
from fp8tune.search.runs import (
    Runs,
    broke,
    by_point,
    confirmed,
    deviation,
    failed,
    is_unfit,
    lacks_memory,
    speed_of,
    telling,
)
from fp8tune.search.space import Point, Space
from fp8tune.search.stability.finding import Finding, findings, lesson, rejected
from fp8tune.search.statistics import Speed, ratio, speed, verdict
from fp8tune.search.study import Trial, timed

PRECISIONS = ("fp8", "bf16")


class Beside(NamedTuple):
    """A quantity of the chosen setting, of the given one, and of bf16 at its best."""

    chosen: Speed | None = None
    given: Speed | None = None
    twin: Speed | None = None


class Pair(NamedTuple):
    """What FP8's gain is of: a setting in FP8, and the fastest that bf16 was."""

    fp8: Point
    bf16: Point


class Answer(NamedTuple):
    """The outcome of a search.

    ``chosen`` is ``None`` where no trial of a setting that may be chosen succeeded.
    ``twin`` is the fastest that bf16 was, at its own best batch; ``fp8_gain`` is how
    FP8 does beside it. Where the chosen setting was not measured in bf16, both are of
    the given one, so that the gain is of nothing else.
    ``fp8`` is that gain with its interval, ``pair`` what it compares. ``verdict`` is of
    the ``aim``; ``energy`` is tokens per joule where watts are known. ``unfit`` says
    why settings that ran leave too little memory, ``broken`` how those failed that ran
    and then did not; ``others`` are all that ran beside the given one and that the
    search may choose by their knobs. ``stability`` holds how FP8 learns
    beside bf16, at each setting where that was compared; ``unchecked`` says why it was
    not at the chosen one. ``confirmed`` says whether the chosen one was measured again,
    and the given one that it is held against too.
    ``record`` and ``number`` are those of the chosen setting's last trial. Speeds are
    those of the confirmation where there was one, because the best of many looks
    better than it is.
    """

    chosen: Point | None
    verdict: str
    speed: Speed | None
    given: Speed | None
    twin: Speed | None
    fp8_gain: float | None
    runner_up: Point | None
    record: Record | None
    number: int | None
    trials: int
    oom_trials: int
    seconds: float
    fp8: Speed | None = None
    aim: str = SPEED
    energy: Beside = Beside()
    unfit: Mapping[Point, str] = {}
    pair: Pair | None = None
    stability: Mapping[Point, Finding] = {}
    unchecked: str = ""
    confirmed: bool = True
    broken: Mapping[Point, str] = {}
    others: tuple[Point, ...] = ()

    @property
    def learns(self) -> Finding | None:
        """How FP8 learns at the chosen setting, if it was compared there."""
        return None if self.chosen is None else self.stability.get(self.chosen)

    @property
    def rejected(self) -> Mapping[Point, Finding]:
        """The settings that were not chosen because FP8 diverges there."""
        return {point: f for point, f in self.stability.items() if f.rejects}


def answer(
    space: Space,
    given: Point,
    trials: Sequence[Trial],
    seconds: float,
    aim: str = SPEED,
) -> Answer:
    """Choose: the best setting, or the given one where that is as good."""
    wanted = aimed(trials, aim)
    best = ranked(space, given, wanted)
    diverges = lesson(space, given) in rejected(space, trials)
    chosen, said = _choice(by_point(space, wanted), best, given, diverges)
    if best == [given] and _is_alone(space, given, timed(trials)):
        said = "unsure"
    runs = by_point(space, trials)
    last = _last(runs.get(chosen, [])) if chosen is not None else None
    points = [given] if chosen is None else [chosen, given]
    twin, fp8, pair = _fp8(space, runs, points)
    energies = by_point(space, aimed(trials, ENERGY))
    return Answer(
        chosen,
        said,
        speed_of(runs, chosen),
        speed_of(runs, given),
        twin,
        fp8.value if fp8 else None,
        _runner_up(by_point(space, wanted), best, chosen),
        last.record if last else None,
        last.number if last else None,
        len(trials),
        sum(trial.record.outcome == "oom" for trial in trials),
        seconds,
        fp8,
        aim,
        Beside(
            speed_of(energies, chosen),
            speed_of(energies, given),
            _fp8(space, energies, points)[0],
        ),
        {point: why for point, own in runs.items() if (why := lacks_memory(own))},
        pair,
        findings(space, trials),
        confirmed=_is_confirmed(runs, chosen, given),
        broken={point: why for point, own in runs.items() if (why := broke(own))},
        others=tuple(p for p in runs if p != given and _may_run(space, p, given, runs)),
    )


def _choice(
    runs: Runs, best: list[Point], given: Point, diverges: bool
) -> tuple[Point | None, str]:
    """The setting to take, and what it is to the given one, which may diverge."""
    if not best:
        return None, "unsure"
    fastest, before = speed_of(runs, best[0]), speed_of(runs, given)
    unfit = diverges or is_unfit(runs[given])
    if before is None or fastest is None:
        return best[0], "faster" if unfit else "unsure"
    said = verdict(fastest, before)
    if said in ("same", "slower") and not unfit:
        return given, "same"
    return best[0], said


def _is_confirmed(runs: Runs, chosen: Point | None, given: Point) -> bool:
    """Whether what is said of the chosen setting and the given one was seen twice."""
    own, other = runs.get(chosen, []) if chosen else [], runs.get(given, [])
    held = speed_of(runs, given) is not None and not failed(other)
    return bool(confirmed(own)) and (bool(confirmed(other)) or not held)


def _may_run(space: Space, point: Point, given: Point, runs: Runs) -> bool:
    return space.allows(point, given) and any(t.record.ok for t in runs[point])


def _runner_up(runs: Runs, best: list[Point], chosen: Point | None) -> Point | None:
    """The fastest of the others, whether that was confirmed or not."""
    speeds = {p: own for p in best if p != chosen and (own := speed_of(runs, p))}
    return max(
        speeds, key=lambda p: (not is_unfit(runs[p]), speeds[p].value), default=None
    )


def _is_alone(space: Space, given: Point, trials: Sequence[Trial]) -> bool:
    """Whether nothing but the given setting was tried, though there is more."""
    others = any(point != given for point in space.points(given))
    tried = {space.point(trial.record.knobs) for trial in trials} - {given}
    return others and not any(space.allows(point, given) for point in tried)


def _fp8(
    space: Space, runs: Runs, points: Sequence[Point]
) -> tuple[Speed | None, Speed | None, Pair | None]:
    """The fastest that bf16 was, what FP8 gains over it, and of what that is.

    The gain is that of the first of these points that was measured in both, the
    chosen and the given one; bf16 may have another batch. Both ran in the confirmation,
    or both before it: in between the GPU may have become slower.
    """
    versions = [
        [space.with_precision(point, name) for name in PRECISIONS] for point in points
    ]
    twins = [bf16 for _, bf16 in versions if bf16]
    for place, (fp8, same) in enumerate(versions):
        for stage in (True, False):
            speeds = _during(runs, confirmation=stage)
            if fp8 not in speeds or same not in speeds:
                continue
            in_bf16 = [p for p in speeds if space.value(p, "precision") == "bf16"]
            whole = stage and place == 0 and len(points) > 1
            every = in_bf16 if whole else [p for p in twins if p in speeds]
            bf16 = _fastest(every, speeds, runs)
            assert bf16 is not None
            return speeds[bf16], ratio(speeds[fp8], speeds[bf16]), Pair(fp8, bf16)
    speeds = {p: found for p in twins if (found := speed_of(runs, p))}
    lone = _fastest(list(speeds), speeds, runs)
    return (speeds[lone] if lone else None), None, None


def _during(runs: Runs, *, confirmation: bool) -> dict[Point, Speed]:
    """How fast settings were in the confirmation alone, or before it."""
    differ = deviation(runs)
    records = {
        point: [t.record for t in own if (t.stage == "confirm") == confirmation]
        for point, own in runs.items()
    }
    return {p: found for p, own in records.items() if (found := speed(own, differ))}


def _fastest(
    points: Sequence[Point], speeds: Mapping[Point, Speed], runs: Runs
) -> Point | None:
    """The fastest, of those that are sound if any is."""
    fit = [point for point in points if not is_unfit(runs[point])]
    return max(fit or points, key=lambda point: speeds[point].value, default=None)


def ranked(space: Space, given: Point, trials: Sequence[Trial]) -> list[Point]:
    """The points that were measured and may be chosen, the best first.

    Once one was confirmed, those that were come before those that were not: these ran
    at another time, and were picked for their luck. The given one comes last where it
    leaves too little memory. Others that do may not be chosen, nor what once failed for
    good, nor what diverges.
    """
    runs = by_point(space, trials)
    wrong = rejected(space, trials)
    values: dict[Point, tuple[bool, bool, float]] = {}
    for point, own in runs.items():
        found = speed(telling(own))
        fit = not failed(own) and (point == given or not lacks_memory(own))
        may = fit and space.allows(point, given)
        if found is not None and may and lesson(space, point) not in wrong:
            values[point] = not is_unfit(own), bool(confirmed(own)), found.value
    if not any(fit and sure for p, (fit, sure, _) in values.items() if p != given):
        values = {p: (fit, False, value) for p, (fit, _, value) in values.items()}
    return sorted(values, key=lambda point: values[point], reverse=True)


def _last(trials: Sequence[Trial]) -> Trial | None:
    measured = [trial for trial in trials if trial.record.measured]
    return measured[-1] if measured else None
