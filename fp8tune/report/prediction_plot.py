"""Plot predicted against measured memory and speed of each setting that ran."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fp8tune.lint.wording import counted
from fp8tune.report.data import Report, Setting
from fp8tune.report.plots import Plot, Style, new_figure, number_format
from fp8tune.report.text import capital, listed, median, number
from fp8tune.search.answer.wording import gib

NAME, CONTENTS = "predicted", "Predictions"
TITLE = "Predicted against measured"


class Prediction(NamedTuple):
    """A setting with what was predicted and what was measured."""

    setting: Setting
    predicted: float
    measured: float

    @property
    def ratio(self) -> float:
        """Measured over predicted."""
        return self.measured / self.predicted


class Quantity(NamedTuple):
    """A quantity with its predictions, and how its values are written."""

    name: str
    unit: str
    write: Callable[[float], str]
    predictions: list[Prediction]

    @property
    def sentence(self) -> str:
        """The median ratio of measured to predicted, and its range."""
        ratios = [each.ratio for each in self.predictions]
        low, high = min(ratios), max(ratios)
        band = f" ({low:.2f} to {high:.2f})" if len(ratios) > 1 else ""
        ratio = f"{median(ratios):.2f}{band}"
        return f"measured {self.name} is {ratio} times the prediction"


def quantities(report: Report) -> list[Quantity]:
    """Return memory and speed, as far as they were both predicted and measured."""
    memory, speed = list[Prediction](), list[Prediction]()
    for s in report.settings:
        if s.speed and s.expected.peak_gib and s.peak_gib:
            memory.append(Prediction(s, s.expected.peak_gib, s.peak_gib))
        if s.speed and (expected := s.expected.tokens_per_second):
            speed.append(Prediction(s, expected, s.speed.value))
    every = (
        Quantity("memory", "GiB", gib, memory),
        Quantity("speed", "tokens/s", number, speed),
    )
    return [quantity for quantity in every if quantity.predictions]


def prediction_plot(report: Report) -> Plot:
    """Return the plot, or why there is none."""
    if report.is_rehearsal:
        why = "Predictions are for GPUs; a rehearsal on a CPU cannot check them."
        return Plot(NAME, CONTENTS, TITLE, why)
    if not any(setting.speed for setting in report.settings):
        return Plot(NAME, CONTENTS, TITLE, "No trial succeeded.")
    known = quantities(report)
    if not known:
        why = "No estimate covers this config: fp8tune estimate CONFIG says why."
        return Plot(NAME, CONTENTS, TITLE, why)
    result = listed([quantity.sentence for quantity in known])
    rows = tuple(
        (
            each.setting.label,
            quantity.name,
            f"{quantity.write(each.predicted)} {quantity.unit}",
            f"{quantity.write(each.measured)} {quantity.unit}",
            f"{each.ratio:.2f}",
        )
        for quantity in known
        for each in quantity.predictions
    )
    return Plot(
        NAME,
        CONTENTS,
        capital(result),
        "",
        f"Measured over predicted, by setting: {result}.",
        ("setting", "quantity", "predicted", "measured", "ratio"),
        rows,
        lambda style: _draw(known, style),
    )


def _draw(known: list[Quantity], style: Style) -> Figure:
    figure, panels = new_figure(style, len(known))
    for axes, quantity in zip(panels, known, strict=True):
        _draw_quantity(axes, quantity, style)
    return figure


def _draw_quantity(axes: Axes, quantity: Quantity, style: Style) -> None:
    every, colours = quantity.predictions, style.colours
    axes.set_title(f"{quantity.name}, {counted(len(every), 'setting')}")
    ends = (0.0, 1.08 * max(max(each.predicted, each.measured) for each in every))
    low, high = ([share * end for end in ends] for share in (0.9, 1.1))
    axes.fill_between(
        ends, low, high, color=colours.grid, alpha=0.6, lw=0, label="within 10 %"
    )
    axes.plot(ends, ends, color=colours.muted, linewidth=1.2, label="as predicted")
    for precision in dict.fromkeys(each.setting.precision for each in every):
        own = [each for each in every if each.setting.precision == precision]
        axes.plot(
            [each.predicted for each in own],
            [each.measured for each in own],
            linestyle="none",
            alpha=0.8,
            **style.of_precision(precision),
        )
    axes.set_xlim(ends)
    axes.set_ylim(ends)
    axes.set_xlabel(f"predicted {quantity.name} [{quantity.unit}]")
    axes.set_ylabel(f"measured {quantity.name} [{quantity.unit}]")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5))
        axis.set_major_formatter(number_format(ends[1]))
    axes.legend(frameon=False, loc="upper left")
