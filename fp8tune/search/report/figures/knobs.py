"""What each knob did: a panel each, lines joining settings alike in all else."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import StrMethodFormatter

from fp8tune.search.report.data import Case
from fp8tune.search.report.effects import (
    Effect,
    Line,
    effects,
    is_varied,
)
from fp8tune.search.report.figures.canvas import (
    Absent,
    Figure,
    Style,
    canvas,
    label_rows,
    mark_lost,
    shared_legend,
)
from fp8tune.search.report.words import clean, label, rate
from fp8tune.trials.space import Knob

NAME, TITLE = "knobs", "What each knob did"
MOST = 6
"""Panels that are drawn."""
WORDS, FEWER_WORDS = 42, 32
"""Longest line over a panel [characters], and over one of three in a row."""
TICKS = 26
"""Characters that the values of a knob may have side by side."""


def knobs(case: Case) -> Figure | Absent:
    """The panels, or why there are none."""
    found = effects(case)
    if not found:
        return Absent(NAME, TITLE, _alone(case, case.plan.space.knobs, "one knob"))
    rows = tuple(
        (
            effect.name,
            "as chosen" if line.chosen else "other",
            *("; ".join(part) for part in _told(effect, line)),
        )
        for effect in found
        for line in effect.lines
    )
    return Figure(
        NAME,
        _title(found, case.unit),
        f"{case.unit} by the value of each knob. "
        + " ".join(f"{effect.name}: {effect.said}." for effect in found),
        ("knob", "other knobs", case.unit, "without a figure"),
        rows,
        lambda style: _draw(found[:MOST], case.unit, style),
        " ".join(
            filter(None, (_timing(case), _beside_best(case), _unpaired(case, found)))
        ),
    )


def _beside_best(case: Case) -> str:
    """That the answer holds FP8 against another bf16 than its panel, if it does."""
    pair, space = case.found.measured.pair, case.plan.space
    if pair is None or space.with_precision(pair.fp8, "bf16") == pair.bf16:
        return ""
    return (
        "A change of precision leaves all other knobs alike here; the answer holds FP8 "
        f"against bf16 at its own best ({label(space.knobs, pair.bf16)})."
    )


def _timing(case: Case) -> str:
    """Which trials the lines and the changes are of."""
    if not case.again:
        return ""
    return (
        "A line joins trials of one time: of the confirmation, where that had all of "
        "it, else before it. A change of settings that were both measured again is of "
        "the confirmation."
    )


def _unpaired(case: Case, found: list[Effect]) -> str:
    """The knobs that have no panel, and why."""
    shown = {effect.name for effect in found}
    rest = [k for k in case.plan.space.knobs if clean(k.key, 60) not in shown]
    place = case.plan.space.knobs.index
    parts: dict[bool, list[Knob]] = {}
    for knob in rest:
        parts.setdefault(is_varied(case, place(knob)), []).append(knob)
    return " ".join(_alone(case, part) for part in parts.values())


def _alone(case: Case, knobs: Sequence[Knob], name: str = "") -> str:
    """Why nothing is told of some knobs."""
    place = case.plan.space.knobs.index
    names = name or " or ".join(clean(knob.key, 60) for knob in knobs)
    if any(is_varied(case, place(knob)) for knob in knobs):
        return f"Of the settings that differ in {names} alone no two tell a figure."
    return f"No two settings were tried that differ in {names} alone."


def _told(effect: Effect, line: Line) -> tuple[list[str], list[str]]:
    told = [(at, rate(speed)) for at, speed in line.speeds]
    return (
        [f"{effect.values[at]}: {said}" for at, said in sorted(told)],
        [f"{effect.values[at]}: {how}" for at, how in line.failed],
    )


def _title(found: list[Effect], unit: str) -> str:
    """The knob with the longest reach along a line, named."""
    reach = {effect.name: max(map(_length, effect.lines)) for effect in found}
    name = max(reach, key=lambda key: reach[key])
    much = f"up to {reach[name]:.2f} times the {unit}"
    return f"{name.rpartition('.')[2]} matters most: {much}"


def _length(line: Line) -> float:
    """The best of a line over its worst."""
    speeds = [value for _, value in line.speeds]
    return max(speeds) / min(speeds) if speeds else 1.0


def _draw(found: list[Effect], unit: str, style: Style) -> Canvas:
    across = 2 if len(found) == 4 else 3
    height = 3.0 if style.narrow or len(found) > 3 else 4.2
    made, panels = canvas(style, len(found), height, across)
    shared = [effect for effect in found if not effect.precision]
    for axes, effect in zip(panels, found, strict=True):
        crowded = not style.narrow and across == 3 and len(found) > 2
        _panel(axes, effect, style, FEWER_WORDS if crowded else WORDS)
        _reach(axes, [effect] if effect.precision else shared)
        axes.yaxis.set_major_formatter(_format(axes))
    label_rows(panels[: len(shared)], unit)
    for axes in panels[len(shared) :]:
        axes.set_ylabel(unit)
    shared_legend(made, panels, style)
    return made


def _format(axes: Axes) -> StrMethodFormatter:
    return StrMethodFormatter("{x:,.3g}" if axes.get_ylim()[1] < 100 else "{x:,.0f}")


def _reach(axes: Axes, found: list[Effect]) -> None:
    """One scale for several knobs, so that the eye can compare what they did."""
    lines = [line for effect in found for line in effect.lines]
    every = [v for line in lines for _, v in line.speeds]
    low, high = min(every), max(every)
    room = 0.08 * (high - low) or 0.1 * high
    axes.set_ylim(low - 1.5 * room, high + room)


def _panel(axes: Axes, effect: Effect, style: Style, width: int) -> None:
    thin = [line for line in effect.lines if not line.chosen]
    for number, line in enumerate(thin):
        _line(axes, line, style, "other settings, one line each" * (number == 0))
    for line in effect.lines:
        if line.chosen:
            _line(axes, line, style, "all other knobs as chosen")
    without = {part for line in effect.lines for part in line.failed}
    if without:
        failed = sorted({at for at, _ in without})
        mark_lost(axes, failed, style, "a setting failed here")
    said = textwrap.fill(effect.said, width)
    axes.set_title(f"{effect.name.rpartition('.')[2]}\n{said}", fontsize="medium")
    _ticks(axes, effect.values)
    axes.set_xlim(-0.4, len(effect.values) - 0.6)
    axes.set_xlabel(effect.name)


def _ticks(axes: Axes, values: Sequence[str]) -> None:
    """The values below the axis: turned where they are long, not all where many."""
    longest = max(map(len, values))
    every = math.ceil(len(values) * (longest + 1) / TICKS) if longest < 4 else 1
    axes.set_xticks(range(0, len(values), every), values[::every])
    axes.set_xticks(range(len(values)), minor=True)
    if longest * len(values) / every > TICKS:
        axes.tick_params(axis="x", labelrotation=30)


def _line(axes: Axes, line: Line, style: Style, label: str) -> None:
    axes.plot(
        [at for at, _ in line.speeds],
        [speed for _, speed in line.speeds],
        marker="o",
        markersize=6 if line.chosen else 3.5,
        linewidth=2.4 if line.chosen else 1.0,
        color=style.colours.fp8 if line.chosen else style.colours.muted,
        alpha=1.0 if line.chosen else 0.65,
        label=label or None,
        zorder=3 if line.chosen else 2,
    )
