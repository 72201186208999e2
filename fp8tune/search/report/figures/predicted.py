"""Predicted against measured: memory and speed of each setting that ran."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from fp8tune.search.report.data import Case, Setting
from fp8tune.search.report.figures.canvas import Absent, Figure, Style, canvas
from fp8tune.search.report.figures.memory import MARKS
from fp8tune.search.report.series import middle
from fp8tune.search.report.words import gib, listed, plural, rate

NAME, TITLE = "predicted", "Predicted against measured"


class Quantity(NamedTuple):
    """What was predicted, and its settings with (predicted, measured)."""

    name: str
    unit: str
    shown: Callable[[float], str]
    pairs: tuple[tuple[Setting, float, float], ...]

    @property
    def said(self) -> str:
        """The median ratio of measured to predicted, and its range."""
        ratios = [measured / predicted for _, predicted, measured in self.pairs]
        low, high = min(ratios), max(ratios)
        band = f" ({low:.2f} to {high:.2f})" if len(ratios) > 1 else ""
        return (
            f"measured {self.name} is {middle(ratios):.2f} times the prediction{band}"
        )


def quantities(case: Case) -> list[Quantity]:
    """Memory and speed, as far as both sides are known."""
    memory = [(s, s.expected.peak_gib, s.peak_gib) for s in case.settings if s.speed]
    speed = [
        (s, s.expected.tokens_per_second, s.speed.value)
        for s in case.settings
        if s.speed
    ]
    every = [
        Quantity("memory", "GiB", gib, _known(memory)),
        Quantity("speed", "tokens/s", rate, _known(speed)),
    ]
    return [quantity for quantity in every if quantity.pairs]


def _known(
    pairs: Sequence[tuple[Setting, float, float]],
) -> tuple[tuple[Setting, float, float], ...]:
    return tuple((s, said, found) for s, said, found in pairs if said and found)


def predicted(case: Case) -> Figure | Absent:
    """The plot, or why there is none."""
    if case.rehearsal:
        why = "Predictions are for GPUs; a rehearsal on a CPU says nothing of them."
        return Absent(NAME, TITLE, why)
    if not any(setting.speed for setting in case.settings):
        why = "No trial succeeded: there is nothing to hold a prediction against."
        return Absent(NAME, TITLE, why)
    found = quantities(case)
    if not found:
        why = (
            "No estimate covers this config: fp8tune estimate CONFIG says what is "
            "missing."
        )
        return Absent(NAME, TITLE, why)
    said = listed([quantity.said for quantity in found])
    missing = {"memory", "speed"} - {quantity.name for quantity in found}
    rest = "".join(f" No estimate of {name} covers this config." for name in missing)
    rows = tuple(
        (
            s.label,
            q.name,
            f"{q.shown(told)} {q.unit}",
            f"{q.shown(got)} {q.unit}",
            f"{got / told:.2f}",
        )
        for q in found
        for s, told, got in q.pairs
    )
    return Figure(
        NAME,
        f"{said[0].upper()}{said[1:]}",
        f"Measured over predicted, by setting: {said}.{rest}",
        ("setting", "quantity", "predicted", "measured", "ratio"),
        rows,
        lambda style: _draw(found, style),
    )


def _draw(found: list[Quantity], style: Style) -> Canvas:
    made, panels = canvas(style, len(found), height=4.4)
    for axes, quantity in zip(panels, found, strict=True):
        _panel(axes, quantity, style)
    return made


def _panel(axes: Axes, quantity: Quantity, style: Style) -> None:
    count = plural(len(quantity.pairs), "setting")
    axes.set_title(f"{quantity.name}, {count}")
    every = [value for _, told, got in quantity.pairs for value in (told, got)]
    low, high = 0.0, max(every) * 1.08
    axes.fill_between(
        [low, high],
        [0.9 * low, 0.9 * high],
        [1.1 * low, 1.1 * high],
        color=style.colours.grid,
        alpha=0.6,
        linewidth=0,
        label="within 10 %",
    )
    axes.plot(
        [low, high],
        [low, high],
        color=style.colours.muted,
        linewidth=1.2,
        label="as predicted",
    )
    for precision in dict.fromkeys(s.precision for s, _, _ in quantity.pairs):
        own = [pair for pair in quantity.pairs if pair[0].precision == precision]
        axes.plot(
            [told for _, told, _ in own],
            [got for _, _, got in own],
            MARKS.get(precision, "o"),
            color=style.precision(precision),
            alpha=0.8,
            label={"fp8": "FP8"}.get(precision, precision or "measured"),
        )
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    axes.set_xlabel(f"predicted {quantity.name} [{quantity.unit}]")
    axes.set_ylabel(f"measured {quantity.name} [{quantity.unit}]")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(4 if style.narrow else 5))
        axis.set_major_formatter(
            StrMethodFormatter("{x:,.3g}" if high < 10 else "{x:,.0f}")
        )
    axes.legend(frameon=False, loc="upper left")
