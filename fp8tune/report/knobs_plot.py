"""Plot the effect of each knob: lines join settings that differ in that knob alone."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fp8tune.report.data import StudyReport
from fp8tune.report.plots import (
    Colours,
    Plot,
    label_rows,
    mark_failed,
    new_figure,
    number_format,
    shared_legend,
)
from fp8tune.search.answer.answer import Estimate, Setting
from fp8tune.search.answer.wording import change, joined, percent
from fp8tune.search.labels import value_label
from fp8tune.search.objective import show_value
from fp8tune.trials.space import Knob, Point, shown
from fp8tune.words import clean

NAME, CONTENTS, TITLE = "knobs", "Knobs", "What each knob did"
MAX_PANELS = 6
MAX_TICKS = 26
"""Characters that the values of a knob may have side by side."""


class Line(NamedTuple):
    """Settings that differ in one knob: their objective, by the position of its value.

    ``is_chosen``: all other knobs are as chosen. ``failed`` says how settings without a
    figure ended.
    """

    is_chosen: bool
    values: dict[int, float]
    failed: dict[int, str]


class Effect(NamedTuple):
    """The effect of one knob: its values in words, its lines, and a sentence.

    ``gain`` is the ratio that ``sentence`` states and the lines show.
    """

    name: str
    labels: tuple[str, ...]
    lines: tuple[Line, ...]
    sentence: str
    gain: float


def knobs_plot(report: StudyReport) -> Plot:
    """Return the panels, or why there are none."""
    effects = knob_effects(report)
    note = _note_without_panel(report, effects)
    if not effects:
        return Plot(NAME, CONTENTS, TITLE, note)
    rows = tuple(
        (
            effect.name,
            "as chosen" if line.is_chosen else "other",
            "; ".join(
                f"{effect.labels[at]}: {show_value(value, report.objective)}"
                for at, value in sorted(line.values.items())
            ),
            "; ".join(f"{effect.labels[at]}: {how}" for at, how in line.failed.items()),
        )
        for effect in effects
        for line in effect.lines
    )
    first = effects[0]
    return Plot(
        NAME,
        CONTENTS,
        f"{first.name.rpartition('.')[2]} matters most: {first.sentence}",
        note,
        " ".join(f"{effect.name}: {effect.sentence}." for effect in effects),
        ("knob", "other knobs", report.unit, "without a figure"),
        rows,
        lambda colours: _draw(effects[:MAX_PANELS], report.unit, colours),
    )


def knob_effects(report: StudyReport) -> list[Effect]:
    """Return the effects of the knobs that have one, the largest first."""
    every = filter(None, (_effect(report, place) for place in _places(report)))
    return sorted(every, key=lambda effect: -abs(math.log(effect.gain)))


def _places(report: StudyReport) -> list[int]:
    """Return the knobs to show; a rehearsal does not show the precision."""
    return [
        place
        for place, knob in enumerate(report.plan.space.knobs)
        if knob.role != "precision" or not report.is_rehearsal
    ]


def _effect(report: StudyReport, place: int) -> Effect | None:
    knob, chosen = report.plan.space.knobs[place], report.chosen
    groups: dict[Point, list[Setting]] = defaultdict(list)
    for setting in sorted(report.settings, key=lambda s: s.point[place]):
        if knob.frozen or report.plan.space.allows(setting.point, report.plan.baseline):
            groups[_without(setting.point, place)].append(setting)
    alike = _without(chosen, place) if chosen else None
    groups = {r: own for r, own in groups.items() if r == alike or len(own) > 1}
    used = sorted({s.point[place] for own in groups.values() for s in own})
    labels = tuple(_value(knob, at) for at in used)
    at = {index: position for position, index in enumerate(used)}
    lines = [
        Line(
            rest == alike,
            {at[s.point[place]]: s.value.value for s in own if s.value},
            {at[s.point[place]]: _failure(s) for s in own if not s.value},
        )
        for rest, own in groups.items()
    ]
    lines.sort(key=lambda line: line.is_chosen)
    changed = _chosen_change(report, place, lines, labels, used)
    changed = changed or _median_change(lines, labels)
    return changed and Effect(clean(knob.key, 60), labels, tuple(lines), *changed)


def _without(point: Point, place: int) -> Point:
    return point[:place] + point[place + 1 :]


def _failure(setting: Setting) -> str:
    return "watts unknown" if setting.outcome == "ok" else setting.outcome


def _value(knob: Knob, at: int) -> str:
    value = knob.values[at]
    if knob.role in ("compile", "precision"):
        return value_label(knob, value)
    return clean(shown(value), 24)


def _chosen_change(
    report: StudyReport,
    place: int,
    lines: Sequence[Line],
    labels: Sequence[str],
    used: Sequence[int],
) -> tuple[str, float] | None:
    """Compare the chosen value with the baseline's, else with the best other.

    All other knobs are as chosen if such settings ran with both values.
    """
    chosen, baseline = report.chosen, report.plan.baseline[place]
    if chosen is None or chosen[place] not in used:
        return None
    mine = used.index(chosen[place])
    first = used.index(baseline) if baseline in used else mine
    usable = [line for line in lines if {mine} < line.values.keys()]
    with_both = [line for line in usable if mine != first in line.values]
    line = max(
        with_both or [line for line in usable if line.is_chosen],
        key=lambda line: (line.is_chosen, line.values[mine]),
        default=None,
    )
    if line is None:
        return None
    others = {at: value for at, value in line.values.items() if at != mine}
    other = first if first in others else max(others, key=others.__getitem__)
    gain, remark = Estimate(line.values[mine] / others[other]), " (other settings)"
    if line.is_chosen:
        point = *chosen[:place], used[other], *chosen[place + 1 :]
        setting, remark = report.setting(point), ""
        behind = setting.vs_chosen if setting else None
        if setting and setting.pairs and behind and behind.low is None:
            remark = " (inconclusive)"
        elif behind:
            low, high = (end and 1 / end for end in (behind.high, behind.low))
            gain = Estimate(1 / behind.value, low, high)
    oom = ", ".join(labels[at] for at, how in line.failed.items() if how == "oom")
    sentence = f"{labels[mine]} against {labels[other]}: {change(gain)}{remark}"
    return sentence + f"; {oom} out of memory" * bool(oom), gain.value


def _median_change(
    lines: Sequence[Line], labels: Sequence[str]
) -> tuple[str, float] | None:
    """Return the median change between the two values that were compared most often."""
    ratios: dict[tuple[int, int], list[float]] = defaultdict(list)
    for line in lines:
        for (low, slow), (high, fast) in itertools.pairwise(line.values.items()):
            ratios[low, high].append(fast / slow)
    if not ratios:
        return None
    low, high = max(ratios, key=lambda pair: len(ratios[pair]))
    ratio, count = median(ratios[low, high]), len(ratios[low, high])
    pairs = f"median of {count} pairs" if count > 1 else "one pair"
    sentence = f"{labels[high]} against {labels[low]}: {percent(ratio)} ({pairs})"
    return sentence, ratio


def _note_without_panel(report: StudyReport, effects: Sequence[Effect]) -> str:
    """Return which knobs have no panel, and why."""
    with_panel = {effect.name for effect in effects}
    names = (clean(report.plan.space.knobs[at].key, 60) for at in _places(report))
    rest = [name for name in names if name not in with_panel]
    alone = "that knob alone" if len(rest) == 1 else "one of these alone"
    why = f"no two measured settings differ in {alone}"
    return f"No panel for {joined(rest)}: {why}." if rest else ""


def _draw(effects: Sequence[Effect], unit: str, colours: Colours) -> Figure:
    across = 2 if len(effects) == 4 else 3
    height = 3.0 if len(effects) > 3 else 4.2
    figure, panels = new_figure(len(effects), height, across)
    width = 32 if len(effects) > 2 and across == 3 else 42
    every = [v for e in effects for line in e.lines for v in line.values.values()]
    low, high = min(every), max(every)
    room = 0.08 * (high - low) or 0.1 * high
    for axes, effect in zip(panels, effects, strict=True):
        _draw_effect(axes, effect, colours, width)
        axes.set_ylim(low - 1.5 * room, high + room)
        axes.yaxis.set_major_formatter(number_format(high))
    label_rows(panels, unit)
    shared_legend(figure, panels)
    return figure


def _draw_effect(axes: Axes, effect: Effect, colours: Colours, width: int) -> None:
    for line in effect.lines:
        chosen = line.is_chosen
        axes.plot(
            list(line.values),
            list(line.values.values()),
            marker="o",
            markersize=6 if chosen else 3.5,
            linewidth=2.4 if chosen else 1.0,
            color=colours.fp8 if chosen else colours.muted,
            alpha=1.0 if chosen else 0.65,
            label="all other knobs as chosen" if chosen else "other settings",
            zorder=3 if chosen else 2,
        )
    failed = {at: how for line in effect.lines for at, how in line.failed.items()}
    ran = {at for line in effect.lines for at in line.values}
    lost = [at for at, how in failed.items() if at not in ran and how != "cut-off"]
    if lost:
        mark_failed(axes, sorted(lost), colours, "every setting failed here")
    sentence = textwrap.fill(effect.sentence, width)
    axes.set_title(f"{effect.name.rpartition('.')[2]}\n{sentence}", fontsize="medium")
    axes.set_xticks(range(len(effect.labels)), effect.labels)
    if len("".join(effect.labels)) > MAX_TICKS:
        axes.tick_params(axis="x", labelrotation=30)
    axes.set_xlim(-0.4, len(effect.labels) - 0.6)
    axes.set_xlabel(effect.name)
