"""What each knob did: settings that differ in nothing else, side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from fp8tune.search.report.data import Case, Setting, middle, worded
from fp8tune.search.report.words import clean, percent, rate
from fp8tune.search.space import Knob, Point, shown

SLOW = "under"
"""How a setting ended that was not measured to the end because it is slow."""


class Line(NamedTuple):
    """Settings that differ in one knob: the place of its value, and tokens/s.

    ``chosen`` says whether the others knobs are as chosen; ``failed`` are the places
    that gave no speed, each with how it ended.
    """

    chosen: bool
    speeds: tuple[tuple[int, float], ...]
    failed: tuple[tuple[int, str], ...]


class Effect(NamedTuple):
    """One knob: its values in words, its lines, and what they say."""

    name: str
    precision: bool
    values: tuple[str, ...]
    lines: tuple[Line, ...]
    said: str


def effects(case: Case) -> list[Effect]:
    """The knobs of which two values were measured with all else alike.

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
    lines = [
        _line(group, place, rest == kept)
        for rest, group in groups.items()
        if len(group) > 1 or rest == kept
    ]
    lines.sort(key=lambda line: line.chosen)
    used = sorted({at for line in lines for at, _ in (*line.speeds, *line.failed)})
    index = {at: i for i, at in enumerate(used)}
    values = tuple(_value(knob, at) for at in used)
    drawn = tuple(_renumbered(line, index) for line in lines)
    at = None if chosen is None else index.get(chosen[place])
    given = index.get(case.plan.given[place])
    return Effect(
        clean(knob.key, 60),
        knob.role == "precision",
        values,
        drawn,
        _said(values, drawn, at, given),
    )


def _line(group: Sequence[Setting], place: int, chosen: bool) -> Line:
    ordered = sorted(group, key=lambda setting: setting.point[place])
    return Line(
        chosen,
        tuple((s.point[place], s.speed.value) for s in ordered if s.speed),
        tuple((s.point[place], _ended(s)) for s in ordered if not s.speed),
    )


def _ended(setting: Setting) -> str:
    return f"{SLOW} {rate(setting.under)}" if setting.under else setting.outcome


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


def _said(
    values: Sequence[str], lines: Sequence[Line], chosen: int | None, given: int | None
) -> str:
    """A sentence on the chosen value beside another, else on the most common pair."""
    for line in lines:
        speeds = dict(line.speeds)
        if line.chosen and chosen in speeds and len(speeds) > 1:
            rest = {at: v for at, v in speeds.items() if at != chosen}
            other = given if given in rest else max(rest, key=lambda at: rest[at])
            assert other is not None
            change = percent(speeds[chosen] / rest[other])
            lost = [values[at] for at, how in line.failed if how == "oom"]
            end = f"; {', '.join(lost)} out of memory" if lost else ""
            return f"{values[chosen]} against {values[other]}: {change}{end}"
    return _usually(values, lines)


def _usually(values: Sequence[str], lines: Sequence[Line]) -> str:
    """The median change between the two values that were compared most often."""
    ratios: dict[tuple[int, int], list[float]] = defaultdict(list)
    for line in lines:
        for (low, slow), (high, fast) in zip(
            line.speeds, line.speeds[1:], strict=False
        ):
            ratios[low, high].append(fast / slow)
    if not ratios:
        return ""
    low, high = max(ratios, key=lambda pair: len(ratios[pair]))
    found = ratios[low, high]
    pairs = f"median of {len(found)} pairs" if len(found) > 1 else "one pair"
    return f"{values[high]} against {values[low]}: {percent(middle(found))} ({pairs})"
