"""The runs of each setting, and what they tell: how fast it is, whether it is sound."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Sequence

from fp8tune.search.statistics import (
    FAR,
    ON_CPU,
    ON_GPU,
    Speed,
    Usual,
    communication_error,
    in_line,
    paired,
    paired_spread,
    speed,
    spread,
    steps_spread,
    wider,
)
from fp8tune.trials.record import Record
from fp8tune.trials.space import Point, Space
from fp8tune.trials.trial import Trial, timed

UNFIT = ("oom", "nan", "user", "compile")
"""Outcomes that a setting never has where it is sound."""

MOST = 14
"""Runs of the given setting and its rival, while it is not clear which is faster."""
ENOUGH = 4
"""Pairs of runs that tell by themselves how much pairs differ."""
NEAR = 5
"""Trials that neighbours may be apart: as many as one turn of a confirmation has."""
DRIFTED = 0.03
"""Change of speed between search and confirmation from which it counts as one."""

Runs = dict[Point, list[Trial]]


def by_point(space: Space, trials: Sequence[Trial]) -> Runs:
    """The trials of each point that tell its speed, in the order of the runs.

    Confirmations under a smaller budget ran another day: they count as the search's.
    """
    runs: Runs = defaultdict(list)
    last = max((t.budget_s for t in trials if t.stage == "confirm"), default=0.0)
    for trial in timed(trials):
        old = trial.stage == "confirm" and trial.budget_s < last
        own = trial._replace(stage="search") if old else trial
        runs[space.point(trial.record.knobs)].append(own)
    return runs


def speed_of(runs: Runs, point: Point | None) -> Speed | None:
    """How fast a point is: by its confirmation, if there was one."""
    trials = runs.get(point, []) if point is not None else []
    return speed(telling(trials), deviation(runs))


def together(
    runs: Runs, one: Point | None, other: Point | None
) -> tuple[Speed | None, Speed | None]:
    """How fast two points are by runs of the same time, where both have such.

    By the neighbouring runs that tell their gap, so that it agrees with it; else by
    those before the confirmation: in between the GPU may have become slower.
    """
    if one and other and one != other:
        if pairs := counted(runs, one, other):
            differ = deviation(runs)
            mine, theirs = zip(*pairs, strict=True)
            return speed(mine, differ), speed(theirs, differ)
        before = during(runs, confirmation=False)
        if one in before and other in before:
            return before[one], before[other]
    return speed_of(runs, one), speed_of(runs, other)


def during(runs: Runs, *, confirmation: bool) -> dict[Point, Speed]:
    """How fast settings were in the confirmation alone, or before it."""
    differ = deviation(runs)
    records = {
        point: [t.record for t in own if (t.stage == "confirm") == confirmation]
        for point, own in runs.items()
    }
    return {p: found for p, own in records.items() if (found := speed(own, differ))}


def gap(runs: Runs, one: Point | None, other: Point | None) -> Speed | None:
    """How much faster one point is than another, as far as that can be known.

    As ``measured_gap`` has it, and what predicted communication leaves open.
    """
    found = measured_gap(runs, one, other)
    return found and wider(found, open_between(runs, one, other))


def open_between(runs: Runs, one: Point | None, other: Point | None) -> float:
    """What predicted communication leaves open between two points (log)."""
    mine, theirs = (
        next((t.record for t in runs.get(p, []) if t.record.ok), None)
        for p in (one or (), other or ())
    )
    return communication_error(mine, theirs) if mine and theirs else 0.0


def measured_gap(runs: Runs, one: Point | None, other: Point | None) -> Speed | None:
    """How much faster one point ran than another, by pairs of neighbouring runs.

    What drifts hits both of a pair, so that it neither makes a gain nor hides one. Runs
    of the confirmation; where it has none of both, those before it, which are apart:
    there all counts that runs of a setting differ by.
    """
    if one is None or other is None or one == other:
        return None
    if pairs := counted(runs, one, other):
        ratios = _ratios(pairs)
        least = _pair_deviation(runs, one, other)
        return paired(ratios, max(least, _since_before(runs, one, other, ratios)))
    before = during(runs, confirmation=False)
    if one not in before or other not in before:
        return None
    every = ([trial.record for trial in own] for own in runs.values())
    differ = max(
        _steps_deviation(runs, one, other), spread(every, usual(runs).spread, math.inf)
    )
    return paired([before[one].value / before[other].value], differ)


def _since_before(
    runs: Runs, one: Point, other: Point, ratios: Sequence[float]
) -> float:
    """How few pairs of two points differ, with their ratio in the search as one more.

    A pair alone cannot tell that one of its runs is bad. What drifted since the search
    and hits both is not in their ratio.
    """
    before = during(runs, confirmation=False)
    if len(ratios) >= ENOUGH or one not in before or other not in before:
        return 0.0
    every = (*ratios, before[one].value / before[other].value)
    return statistics.stdev(map(math.log, every)) / math.sqrt(2)


def _steps_deviation(runs: Runs, one: Point, other: Point) -> float:
    return steps_spread(t.record for p in (one, other) for t in runs.get(p, []))


def _pair_deviation(runs: Runs, one: Point, other: Point) -> float:
    """How runs of two points differ at the least."""
    return max(_steps_deviation(runs, one, other), _paired_deviation(runs))


def neighbours(runs: Runs, one: Point, other: Point) -> list[float]:
    """How much faster one point ran than another, each time that both were confirmed.

    Each run is held against one near to it, the nearest first.
    """
    return _ratios(_pairs(runs, one, other))


def _ratios(pairs: Sequence[tuple[Record, Record]]) -> list[float]:
    return [a.tokens_per_second / b.tokens_per_second for a, b in pairs]


def counted(runs: Runs, one: Point, other: Point) -> list[tuple[Record, Record]]:
    """The neighbouring runs of two points without the pairs that are far off."""
    pairs = _pairs(runs, one, other)
    if not pairs:
        return []
    differ = math.sqrt(2) * _pair_deviation(runs, one, other)
    kept = in_line([math.log(ratio) for ratio in _ratios(pairs)], differ)
    return list(itertools.compress(pairs, kept))


def _pairs(runs: Runs, one: Point, other: Point) -> list[tuple[Record, Record]]:
    mine, theirs = (
        [t for t in runs.get(p, []) if t.stage == "confirm" and t.record.ok]
        for p in (one, other)
    )
    near = sorted(
        (abs(a.number - b.number), a.number, b.number, a.record, b.record)
        for a, b in itertools.product(mine, theirs)
        if abs(a.number - b.number) <= NEAR
    )
    pairs: list[tuple[Record, Record]] = []
    used: set[int] = set()
    for _, *numbers, a, b in near:
        if used.isdisjoint(numbers):
            used.update(numbers)
            pairs.append((a, b))
    return pairs


def _paired_deviation(runs: Runs) -> float:
    """How neighbouring runs differ, beside the setting that was confirmed most.

    Or how all runs of a setting do, if that is less: more of them tell it, but what
    drifts is in it.
    """
    counts = {point: len(confirmed(own)) for point, own in runs.items()}
    most = max(counts, key=lambda point: counts[point])
    found = (neighbours(runs, point, most) for point in runs if point != most)
    before = usual(runs).spread
    apart = paired_spread((ratios for ratios in found if ratios), before)
    return min(apart, spread((confirmed(own) for own in runs.values()), before))


def usual(runs: Runs) -> Usual:
    """How runs of a setting differ on such a machine, and what is the same there."""
    every = (trial.record for own in runs.values() for trial in own)
    return ON_CPU if any(record.rehearsal for record in every) else ON_GPU


def is_unfit(trials: Sequence[Trial]) -> bool:
    """Whether a setting once failed for good, or leaves too little memory."""
    return failed(trials) or bool(lacks_memory(trials))


def failed(trials: Sequence[Trial]) -> bool:
    """Whether a setting once failed in a way that does not pass."""
    return any(trial.record.outcome in UNFIT for trial in trials)


def broke(trials: Sequence[Trial]) -> str:
    """The outcome of a setting that ran and then failed for good; ``""`` if none."""
    bad = (t.record.outcome for t in trials if t.record.outcome in UNFIT)
    return next(bad, "") if any(trial.record.ok for trial in trials) else ""


def never_ran(trials: Sequence[Trial]) -> str:
    """The outcome of a setting's last trial where none ran; ``""`` if one did."""
    own = [trial.record for trial in trials if not trial.cut_off]
    return own[-1].outcome if own and not any(r.ok for r in own) else ""


def lacks_memory(trials: Sequence[Trial]) -> str:
    """Why a setting's runs leave too little memory for a long one; ``""`` if not."""
    return next((why for trial in trials if (why := trial.record.memory_shortage)), "")


def deviation(runs: Runs) -> float:
    """How runs of one setting differ; those of a search and of its end are apart."""
    pooled: dict[tuple[Point, bool], list[Record]] = defaultdict(list)
    for point, own in runs.items():
        for trial in own:
            pooled[point, trial.stage == "confirm"].append(trial.record)
    return spread(pooled.values(), usual(runs).spread)


def telling(trials: Sequence[Trial]) -> list[Record]:
    """The records that say how fast a setting is: its confirmation, if there is one."""
    return confirmed(trials) or [trial.record for trial in trials]


def last(runs: Runs, point: Point | None) -> tuple[Record | None, int | None]:
    """The record and the number of a point's last trial that measured."""
    own = runs.get(point, []) if point is not None else []
    measured = [trial for trial in own if trial.record.ok]
    return (measured[-1].record, measured[-1].number) if measured else (None, None)


def confirmed(trials: Sequence[Trial]) -> list[Record]:
    """The records of a setting's confirmation that ran."""
    return [t.record for t in trials if t.stage == "confirm" and t.record.ok]


def drift(runs: Runs) -> float:
    """Return the median of confirmed speeds over those in the search; 1 if unknown."""
    return statistics.median(_changes(runs) or [1.0])


def speed_changed(runs: Runs) -> bool:
    """Whether settings ran at another speed in the confirmation than in the search."""
    return _changed_apart(runs) or abs(drift(runs) - 1) > DRIFTED


def drift_warning(runs: Runs) -> str:
    """Say that settings no longer ran at their speed, and how; else ``""``."""
    if _changed_apart(runs):
        changes = _changes(runs)
        return (
            "Settings did not keep their speed: measured again, one ran at "
            f"{100 * min(changes):.0f} % of it and another at {100 * max(changes):.0f} "
            "%. It takes more runs to tell bad ones from a machine that changed."
        )
    if speed_changed(runs):
        return (
            "The machine changed on the way: settings that were measured again ran at "
            f"{100 * drift(runs):.0f} % of their speed before. Only trials of the "
            "stage confirm compare with each other."
        )
    return ""


def _changed_apart(runs: Runs) -> bool:
    """Whether the speeds of settings changed by more than chance from each other."""
    changes = _changes(runs) or [1.0]
    return math.log(max(changes) / min(changes)) > 2 * FAR * deviation(runs)


def _changes(runs: Runs) -> list[float]:
    """Return the confirmed speed of each setting over that in the search."""
    changes = []
    for own in runs.values():
        before = speed([trial.record for trial in own if trial.stage != "confirm"])
        after = speed(confirmed(own))
        if before and after:
            changes.append(after.value / before.value)
    return changes
