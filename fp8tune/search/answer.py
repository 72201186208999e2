"""What a study says: the setting to take, how fast it is, and beside what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from fp8tune.search.record import Record
from fp8tune.search.space import Point, Space
from fp8tune.search.statistics import Speed, speed, verdict
from fp8tune.search.study import Trial


class Answer(NamedTuple):
    """The outcome of a search.

    ``chosen`` is ``None`` where no trial succeeded. Speeds are those of the
    confirmation where there was one, because the best of many looks better than it is.
    """

    chosen: Point | None
    verdict: str
    speed: Speed | None
    given: Speed | None
    twin: Speed | None
    runner_up: Point | None
    record: Record | None
    trials: int
    oom_trials: int
    seconds: float

    @property
    def fp8_gain(self) -> float | None:
        """Speed over the bf16 twin's."""
        if self.speed is None or self.twin is None:
            return None
        return self.speed.value / self.twin.value


def answer(
    space: Space, given: Point, trials: Sequence[Trial], seconds: float
) -> Answer:
    """Choose: the fastest setting, or the given one where that is as fast."""
    runs = by_point(space, trials)
    best = ranked(space, given, trials)
    chosen = best[0] if best else None
    given_speed = _speed(runs.get(given, []))
    said = "unsure"
    if chosen is not None and given_speed is not None:
        fastest = _speed(runs[chosen])
        said = verdict(fastest, given_speed) if fastest else "unsure"
        if said in ("same", "slower"):
            chosen, said = given, "same"
    twin = space.twin(chosen) if chosen else None
    return Answer(
        chosen,
        said,
        _speed(runs[chosen]) if chosen else None,
        given_speed,
        _twin_speed(space, runs, twin, given),
        next((point for point in best if point != chosen), None),
        _last(runs[chosen]) if chosen else None,
        len(trials),
        sum(trial.record.outcome == "oom" for trial in trials),
        seconds,
    )


def ranked(space: Space, given: Point, trials: Sequence[Trial]) -> list[Point]:
    """The points that were measured and may be chosen, fastest first."""
    runs = by_point(space, trials)
    allowed = [point for point in runs if space.allows(point, given)]
    speeds = {point: _speed(runs[point]) for point in allowed}
    measured = {point: s.value for point, s in speeds.items() if s is not None}
    return sorted(measured, key=lambda point: -measured[point])


def by_point(space: Space, trials: Sequence[Trial]) -> dict[Point, list[Trial]]:
    """The trials of each point, in the order in which they were run."""
    runs: dict[Point, list[Trial]] = defaultdict(list)
    for trial in trials:
        runs[space.point(trial.record.knobs)].append(trial)
    return runs


def _speed(trials: Sequence[Trial]) -> Speed | None:
    confirmed = [t.record for t in trials if t.stage == "confirm" and t.record.ok]
    return speed(confirmed or [trial.record for trial in trials])


def _twin_speed(
    space: Space, runs: dict[Point, list[Trial]], twin: Point | None, given: Point
) -> Speed | None:
    """The chosen setting's twin in bf16, else the given one's."""
    for point in (twin, space.twin(given)):
        found = _speed(runs.get(point, [])) if point else None
        if found is not None:
            return found
    return None


def _last(trials: Sequence[Trial]) -> Record | None:
    measured = [trial.record for trial in trials if trial.record.ok]
    return measured[-1] if measured else None
