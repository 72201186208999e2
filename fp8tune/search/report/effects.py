"""What each knob did: settings that differ in nothing else, side by side."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from fp8tune.search.closing import change
from fp8tune.search.report.data import Case, Setting
from fp8tune.search.report.series import middle
from fp8tune.search.report.words import clean, percent, worded
from fp8tune.search.runs import gap
from fp8tune.trials.space import Knob, Point, shown

Placed = tuple[tuple[int, float], ...]
"""Values of the aim by the places of a knob's values."""


class Line(NamedTuple):
    """Settings that differ in one knob: the place of its value, and what they reach.

    That is tokens/s, or what else is aimed at, of trials before the confirmation; where
    these are of one setting, of the confirmation. ``chosen`` says whether the others
    knobs are as chosen; ``failed`` are the places that gave no speed, each with how it
    ended.
    """

    chosen: bool
    speeds: Placed
    failed: tuple[tuple[int, str], ...]

    @property
    def places(self) -> list[int]:
        """Those of all its settings."""
        return [at for part in (self.speeds, self.failed) for at, _ in part]


class Effect(NamedTuple):
    """One knob: its values in words, its lines, and what they say."""

    name: str
    precision: bool
    values: tuple[str, ...]
    lines: tuple[Line, ...]
    said: str


def effects(case: Case) -> list[Effect]:
    """The knobs of which two values are told, all else alike.

    The precision comes last: it is no free one.
    """
    made = (_effect(case, place) for place in range(len(case.plan.space.knobs)))
    return sorted((e for e in made if e.said), key=lambda effect: effect.precision)


def _effect(case: Case, place: int) -> Effect:
    knob = case.plan.space.knobs[place]
    groups: dict[Point, list[Setting]] = defaultdict(list)
    for setting in case.settings:
        rest = setting.point[:place] + setting.point[place + 1 :]
        groups[rest].append(setting)
    chosen = case.found.chosen
    kept = None if chosen is None else chosen[:place] + chosen[place + 1 :]
    made = (_line(case, own, place, rest == kept) for rest, own in groups.items())
    lines = [line for line in made if line.chosen or len(line.places) > 1]
    lines.sort(key=lambda line: line.chosen)
    used = sorted({at for line in lines for at in line.places})
    index = {at: i for i, at in enumerate(used)}
    values = tuple(_value(knob, at) for at in used)
    drawn = tuple(_renumbered(line, index) for line in lines)
    beside = (_beside(case, place, line) for line in lines if line.chosen)
    return Effect(
        clean(knob.key, 60),
        knob.role == "precision",
        values,
        drawn,
        next(beside, "") or _usually(values, drawn),
    )


def _line(case: Case, group: Sequence[Setting], place: int, chosen: bool) -> Line:
    ordered = sorted(group, key=lambda setting: setting.point[place])
    early, late = (
        [(s.point[place], stage[s.point].value) for s in ordered if s.point in stage]
        for stage in (case.before, case.again)
    )
    lost = [s for s in ordered if s.point not in {**case.before, **case.again}]
    return Line(
        chosen,
        tuple(late if len(late) >= max(2, len(early)) else early),
        tuple((s.point[place], _ended(s)) for s in lost),
    )


def _ended(setting: Setting) -> str:
    if setting.speed:
        return "watts unknown"
    return setting.outcome


def _renumbered(line: Line, index: dict[int, int]) -> Line:
    return line._replace(
        speeds=tuple((index[at], speed) for at, speed in line.speeds),
        failed=tuple((index[at], how) for at, how in line.failed),
    )


def _value(knob: Knob, at: int) -> str:
    value = knob.values[at]
    if knob.role in ("compile", "precision"):
        return worded(knob, value)
    return clean(shown(value), 24)


def _beside(case: Case, place: int, line: Line) -> str:
    """A sentence on the chosen value beside the given one, else beside the best."""
    chosen, given = case.found.chosen, case.plan.baseline[place]
    speeds = dict(line.speeds)
    if chosen is None or chosen[place] not in speeds:
        return ""
    if len(speeds) < 2:
        return ""
    rest = {at: value for at, value in speeds.items() if at != chosen[place]}
    other = given if given in rest else max(rest, key=lambda at: rest[at])
    point = (*chosen[:place], other, *chosen[place + 1 :])
    gain = gap(case.goals, chosen, point)
    ratio = speeds[chosen[place]] / rest[other]
    told = change(gain) if gain else percent(ratio)
    knob = case.plan.space.knobs[place]
    lost = [_value(knob, at) for at, how in line.failed if how == "oom"]
    end = f"; {', '.join(lost)} out of memory" if lost else ""
    return f"{_value(knob, chosen[place])} against {_value(knob, other)}: {told}{end}"


def _usually(values: Sequence[str], lines: Sequence[Line]) -> str:
    """The median change between the two values that were compared most often."""
    ratios: dict[tuple[int, int], list[float]] = defaultdict(list)
    for line in lines:
        for (low, slow), (high, fast) in itertools.pairwise(line.speeds):
            ratios[low, high].append(fast / slow)
    if not ratios:
        return ""
    low, high = max(ratios, key=lambda pair: len(ratios[pair]))
    found = ratios[low, high]
    pairs = f"median of {len(found)} pairs" if len(found) > 1 else "one pair"
    return f"{values[high]} against {values[low]}: {percent(middle(found))} ({pairs})"


def is_varied(case: Case, place: int) -> bool:
    """Whether settings were tried that differ in a knob alone."""
    rests = [s.point[:place] + s.point[place + 1 :] for s in case.settings]
    return len(set(rests)) < len(rests)
