"""What a study says: the setting to take, how fast it is, and beside what."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fp8tune.search.aim import ENERGY, SPEED, aimed
from fp8tune.search.record import Record, tight
from fp8tune.search.space import Point, Space
from fp8tune.search.stability.finding import Finding, findings, lesson, rejected
from fp8tune.search.statistics import Speed, ratio, speed, spread, verdict
from fp8tune.search.study import Trial, timed

UNFIT = ("oom", "nan", "user", "compile")
"""Outcomes that a setting never has where it is sound."""

Runs = dict[Point, list[Trial]]


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
    why settings that ran leave too little memory. ``stability`` holds how FP8 learns
    beside bf16, at each setting where that was compared; ``unchecked`` says why it was
    not at the chosen one. ``confirmed`` says whether the chosen one was measured again.
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
        confirmed=chosen is not None and bool(_confirmed(runs.get(chosen, []))),
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
    chosen and the given one; bf16 may have another batch.
    """
    versions = [
        [space.with_precision(point, name) for name in PRECISIONS] for point in points
    ]
    in_bf16 = [p for p in runs if space.value(p, "precision") == "bf16"]
    sound = [p for p in in_bf16 if _confirmed(runs[p]) and not is_unfit(runs[p])]
    beside = speed_of(runs, versions[0][1])
    every = [bf16 for _, bf16 in versions] + sound * (bool(beside) and len(points) > 1)
    speeds = {p: found for p in every if p and (found := speed_of(runs, p))}
    fit = [p for p in speeds if not is_unfit(runs[p])]
    sure = [p for p in fit if _confirmed(runs[p])]
    bf16 = max(sure or fit or speeds, key=lambda p: speeds[p].value, default=None)
    if bf16 is None:
        return None, None, None
    for fp8, same in versions:
        if fp8 and same in speeds and (found := speed_of(runs, fp8)):
            return speeds[bf16], ratio(found, speeds[bf16]), Pair(fp8, bf16)
    return speeds[bf16], None, None


def ranked(space: Space, given: Point, trials: Sequence[Trial]) -> list[Point]:
    """The points that were measured and may be chosen, the best first.

    Once one was confirmed, those that were come before those that were not: these ran
    at another time, and were picked for their luck. What once failed for good comes
    last, as does the given one where it leaves too little memory. Others that do may
    not be chosen, nor what diverges.
    """
    runs = by_point(space, trials)
    wrong = rejected(space, trials)
    values: dict[Point, tuple[bool, bool, float]] = {}
    for point, own in runs.items():
        found = speed(_telling(own))
        may = space.allows(point, given) and (point == given or not lacks_memory(own))
        if found is not None and may and lesson(space, point) not in wrong:
            values[point] = not is_unfit(own), bool(_confirmed(own)), found.value
    if not any(fit and sure for p, (fit, sure, _) in values.items() if p != given):
        values = {p: (fit, False, value) for p, (fit, _, value) in values.items()}
    return sorted(values, key=lambda point: values[point], reverse=True)


def by_point(space: Space, trials: Sequence[Trial]) -> Runs:
    """The trials of each point that tell its speed, in the order of the runs.

    Confirmations under a smaller budget ran another day: they count as the search's.
    """
    runs: Runs = defaultdict(list)
    last = max((_budget(t) for t in trials if t.stage == "confirm"), default=0.0)
    for trial in timed(trials):
        old = trial.stage == "confirm" and _budget(trial) < last
        own = trial._replace(stage="search") if old else trial
        runs[space.point(trial.record.knobs)].append(own)
    return runs


def _budget(trial: Trial) -> float:
    """The budget under which a trial confirmed [s]; 0 where that is unknown."""
    budget = trial.record.more.get("budget_s")
    return float(budget) if isinstance(budget, (int, float)) else 0.0


def speed_of(runs: Runs, point: Point | None) -> Speed | None:
    """How fast a point is: by its confirmation, if there was one."""
    trials = runs.get(point, []) if point is not None else []
    return speed(_telling(trials), deviation(runs))


def drift(runs: Runs) -> float:
    """How fast settings are when measured again, over what they were in the search.

    The median; 1 where none was measured at both times.
    """
    found = []
    for own in runs.values():
        before = speed([trial.record for trial in own if trial.stage != "confirm"])
        after = speed(_confirmed(own))
        if before and after:
            found.append(after.value / before.value)
    return statistics.median(found or [1.0])


def is_unfit(trials: Sequence[Trial]) -> bool:
    """Whether a setting once failed for good, or leaves too little memory."""
    return failed(trials) or bool(lacks_memory(trials))


def failed(trials: Sequence[Trial]) -> bool:
    """Whether a setting once failed in a way that does not pass."""
    return any(trial.record.outcome in UNFIT for trial in trials)


def lacks_memory(trials: Sequence[Trial]) -> str:
    """Why a setting's runs leave too little memory for a long one; ``""`` if not."""
    return next((why for trial in trials if (why := tight(trial.record))), "")


def deviation(runs: Runs) -> float:
    """How runs of one setting differ; those of a search and of its end are apart."""
    pooled: dict[tuple[Point, bool], list[Record]] = defaultdict(list)
    for point, own in runs.items():
        for trial in own:
            pooled[point, trial.stage == "confirm"].append(trial.record)
    return spread(pooled.values())


def _telling(trials: Sequence[Trial]) -> list[Record]:
    return _confirmed(trials) or [trial.record for trial in trials]


def _confirmed(trials: Sequence[Trial]) -> list[Record]:
    return [t.record for t in trials if t.stage == "confirm" and t.record.ok]


def _last(trials: Sequence[Trial]) -> Trial | None:
    measured = [trial for trial in trials if trial.record.measured]
    return measured[-1] if measured else None
