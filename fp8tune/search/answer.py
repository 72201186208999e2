"""What a study says: the setting to take, how fast it is, and beside what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fp8tune.search.budget import was_given_up
from fp8tune.search.eligible import eligible
from fp8tune.search.failed import wrong_data
from fp8tune.search.objective import ENERGY, SPEED, by_objective
from fp8tune.search.retries import needs_no_trial
from fp8tune.search.runs import (
    MOST,
    Evidence,
    Runs,
    broke,
    by_point,
    confirmed,
    during,
    evidence,
    failed,
    gap,
    is_unfit,
    lacks_memory,
    last,
    measured_gap,
    neighbours,
    never_ran,
    speed_of,
    telling,
    together,
    usual,
)
from fp8tune.search.stability.findings import (
    Stability,
    loss_key,
    rejected_losses,
    stability_by_setting,
)
from fp8tune.search.statistics import SAME, Speed, settled, shown, speed, verdict
from fp8tune.search.turning import unmeasured
from fp8tune.search.twins import Pair, fp8_gain
from fp8tune.trials.record import Record
from fp8tune.trials.space import Point, Space
from fp8tune.trials.trial import Trial, timed

SAME_COMMAND, LARGER_BUDGET, NOTHING_MORE = "the same command", "a larger --budget", ""
"""What tells more than an answer."""


class Beside(NamedTuple):
    """A quantity of the chosen setting, of the given one, and of bf16 at its best.

    ``gain`` is the chosen one's over the given one, ``fp8`` that of FP8 over bf16, and
    ``pair`` what this compares.
    """

    chosen: Speed | None = None
    given: Speed | None = None
    twin: Speed | None = None
    gain: Speed | None = None
    fp8: Speed | None = None
    pair: Pair | None = None


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
    search may choose by their knobs; ``evidence`` is what the answer rests on.
    ``stability`` holds how FP8 learns
    beside bf16, at each setting where that was compared; ``unchecked`` says why it was
    not at the chosen one. ``confirmed`` says whether the chosen one was measured again,
    and the given one that it is held against too; ``whole`` whether the search looked
    at all that promised something, or was ended before.
    ``gain`` is how much faster than the given one it is, in tokens/s; what differs by
    less than ``alike`` is called the same. ``behind`` is how the runner-up, the best of
    the others, does beside the chosen one. ``wrong_data`` says why no setting can train
    on the config's data, ``more`` what would tell more than this answer,
    ``given_outcome`` how the given setting failed where it never ran.
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
    stability: Mapping[Point, Stability] = {}
    unchecked: str = ""
    confirmed: bool = True
    broken: Mapping[Point, str] = {}
    others: tuple[Point, ...] = ()
    evidence: Evidence = Evidence()
    gain: Speed | None = None
    whole: bool = True
    alike: float = SAME
    behind: Speed | None = None
    unmeasured: float = 0.0
    wrong_data: str = ""
    more: str = LARGER_BUDGET
    given_outcome: str = ""

    @property
    def learns(self) -> Stability | None:
        """How FP8 learns at the chosen setting, if it was compared there."""
        return None if self.chosen is None else self.stability.get(self.chosen)

    @property
    def rejected(self) -> Mapping[Point, Stability]:
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
    wanted, learned = by_objective(trials, aim), stability_by_setting(space, trials)
    runs, goals = by_point(space, trials), by_point(space, wanted)
    best = ranked(space, given, wanted)
    diverges = loss_key(space, given) in rejected_losses(space, trials)
    chosen, said = _choice(goals, best, given, diverges)
    sure, whole = _is_confirmed(goals, chosen, given), _is_whole(space, given, trials)
    stands = whole and _is_beaten_by_none(goals, best, given)
    known = stands if chosen == given else not _is_doubtful(learned, chosen)
    second, points = _runner_up(goals, best, chosen), [p for p in (chosen, given) if p]
    twin, fp8, pair = fp8_gain(space, runs, points)
    return Answer(
        chosen,
        said if known else "inconclusive",
        *together(runs, chosen, given),
        twin,
        fp8.value if fp8 else None,
        second,
        *last(runs, chosen),
        len(trials),
        sum(trial.record.outcome == "oom" for trial in trials),
        seconds,
        fp8,
        aim,
        _energy(space, trials, points),
        {point: why for point, own in runs.items() if (why := lacks_memory(own))},
        pair,
        learned,
        confirmed=sure,
        broken={point: why for point, own in runs.items() if (why := broke(own))},
        evidence=evidence(space, goals, chosen, given),
        others=tuple(p for p in runs if p != given and _may_run(space, p, given, runs)),
        gain=_gain(runs, chosen, given),
        whole=whole,
        alike=usual(runs).same,
        behind=gap(goals, second, chosen),
        unmeasured=unmeasured(goals, chosen, second if chosen == given else given),
        wrong_data=wrong_data(t.record for t in trials),
        given_outcome=never_ran(runs.get(given, [])),
    )


def _is_doubtful(learned: Mapping[Point, Stability], point: Point | None) -> bool:
    """Whether FP8 may diverge at a setting."""
    return point is not None and point in learned and learned[point].may_diverge


def _energy(space: Space, trials: Sequence[Trial], points: Sequence[Point]) -> Beside:
    """Tokens per joule of the chosen point, if there is one, and of the given one."""
    runs = by_point(space, by_objective(trials, ENERGY))
    chosen, given = points[0] if len(points) > 1 else None, points[-1]
    twin, fp8, pair = fp8_gain(space, runs, points)
    gain = _gain(runs, chosen, given)
    return Beside(*together(runs, chosen, given), twin, gain, fp8, pair)


def _gain(runs: Runs, chosen: Point | None, given: Point) -> Speed | None:
    """How much faster the chosen point is, as it is shown."""
    gain = gap(runs, chosen, given)
    return gain and shown(gain)


def _choice(
    runs: Runs, best: list[Point], given: Point, diverges: bool
) -> tuple[Point | None, str]:
    """The setting to take, and what it is to the given one, which may diverge."""
    if not best:
        return None, "inconclusive"
    unfit = diverges or is_unfit(runs[given])
    gain = gap(runs, best[0], given)
    if best[0] == given:
        return given, "same"
    if gain is None:
        never = unfit and speed_of(runs, given) is None
        return best[0], "faster" if never else "inconclusive"
    said = verdict(gain, usual(runs).same)
    if said in ("same", "slower") and not unfit:
        return given, "same"
    return best[0], said if unfit or _is_confirmed(
        runs, best[0], given
    ) else "inconclusive"


def _is_confirmed(runs: Runs, chosen: Point | None, given: Point) -> bool:
    """Whether what is said of the chosen setting and the given one was seen twice."""
    own, other = runs.get(chosen, []) if chosen else [], runs.get(given, [])
    held = speed_of(runs, given) is not None and not failed(other)
    return bool(confirmed(own)) and (bool(confirmed(other)) or not held)


def _may_run(space: Space, point: Point, given: Point, runs: Runs) -> bool:
    return space.allows(point, given) and any(t.record.ok for t in runs[point])


def _runner_up(runs: Runs, best: list[Point], chosen: Point | None) -> Point | None:
    """The fastest of the others beside the chosen one, confirmed or not."""
    values = {p: own.value for p in best if (own := gap(runs, p, chosen))}
    fit = {p: not is_unfit(runs[p]) for p in values}
    return max(values, key=lambda p: (fit[p], values[p]), default=None)


def _is_whole(space: Space, given: Point, trials: Sequence[Trial]) -> bool:
    """Whether the search has seen all that promises something.

    It has not where the budget cut a setting's only trial off.
    """
    runs = [(space.point(t.record.knobs), t) for t in timed(trials)]
    seen = [(p, t.record) for p, t in runs if not was_given_up(t)]
    if {p for p, t in runs if was_given_up(t)} - {point for point, _ in seen}:
        return False
    if any(trial.searched_all is True for trial in trials):
        return True
    shut = needs_no_trial(space, seen)
    return all(shut(point) for point in space.points(given) if point != given)


def _is_beaten_by_none(runs: Runs, best: Sequence[Point], given: Point) -> bool:
    """Whether the best of the others is surely no faster, or there is none.

    Or as sure as so many runs as are worth their time make it.
    """
    rival = next((point for point in best if point != given), None)
    gain, same = measured_gap(runs, rival, given), usual(runs).same
    if rival is None or gain is None or unmeasured(runs, rival, given):
        return rival is None
    enough = settled(gain, same) or len(neighbours(runs, rival, given)) >= MOST
    slower = verdict(gain, same) == "slower"
    return slower or (enough and _is_confirmed(runs, given, given))


def ranked(space: Space, given: Point, trials: Sequence[Trial]) -> list[Point]:
    """The points that were measured and may be chosen, the best first.

    Once one was confirmed, those that were come before those that were not: these ran
    at another time, and were picked for their luck. The given one comes last where it
    leaves too little memory. Others that do may not be chosen, nor what once failed for
    good, nor what diverges.
    """
    runs = by_point(space, trials)
    values: dict[Point, tuple[bool, bool, float]] = {}
    for point in eligible(space, given, trials):
        own = runs[point]
        if found := speed(telling(own)):
            values[point] = not is_unfit(own), bool(confirmed(own)), found.value
    if not any(fit and sure for p, (fit, sure, _) in values.items() if p != given):
        before = during(runs, confirmation=False)
        values = {
            point: (fit, False, before[point].value if point in before else value)
            for point, (fit, _, value) in values.items()
        }
    elif values.get(given, (False, False))[1]:
        beside = {point: gap(runs, point, given) for point in values}
        values |= {
            point: (values[point][0], True, found.value * values[given][2])
            for point, found in beside.items()
            if found and values[point][1]
        }
    return sorted(values, key=lambda point: values[point], reverse=True)
