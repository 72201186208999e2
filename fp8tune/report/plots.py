"""Shared by all plots: colours, layout, export to SVG.

A plot is drawn once in placeholder colours, which become CSS variables of the page, so
that it serves light and dark.
"""

from __future__ import annotations

import html
import io
import logging
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import StrMethodFormatter

from fp8tune.search.labels import precision_label


class Colours(NamedTuple):
    """Colours by meaning; FP8 and bf16 differ for colour-blind readers too."""

    ink: str
    muted: str
    grid: str
    paper: str
    fp8: str
    bf16: str
    bad: str


PLACEHOLDERS = Colours(*(f"#00000{n}" for n in range(1, 8)))
UNNAMED = ("_child", "_nolegend_")
"""What matplotlib calls lines that have no name."""
MAX_POINTS = 300
"""Points of a line that tell their values."""
MARKERS = {"fp8": "o", "bf16": "s"}
"""The marker of each precision."""


WIDE, NARROW = 10.0, 5.2
"""Widths of a figure [inch]: on a screen, and on a phone, where panels are stacked."""


class Style(NamedTuple):
    """How a plot is drawn; ``width`` is that of the figure [inch]."""

    colours: Colours
    width: float = WIDE

    def of_precision(self, name: str) -> dict[str, Any]:
        """Return the colour, marker and legend entry of a precision."""
        colours = {"fp8": self.colours.fp8, "bf16": self.colours.bf16}
        return {
            "color": colours.get(name, self.colours.ink),
            "marker": MARKERS.get(name, "o"),
            "label": precision_label(name) or "measured",
        }


class Plot(NamedTuple):
    """A section of the page: a plot with its numbers as a table.

    ``contents`` names it in the table of contents, ``about`` describes it to those who
    cannot see it, ``note`` is a caveat for every reader. If ``draw`` is ``None`` there
    is nothing to draw, and ``note`` says why.
    """

    name: str
    contents: str
    title: str
    note: str = ""
    about: str = ""
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    draw: Callable[[Style], Figure] | None = None


def new_figure(
    style: Style, panels: int = 1, height: float = 4.4, across: int = 3
) -> tuple[Figure, list[Axes]]:
    """Return an empty figure with panels side by side.

    ``height`` is that of a panel [inch], ``across`` the most panels in a row.
    """
    columns = min(panels, across if style.width > NARROW else 1)
    rows = math.ceil(panels / columns)
    figure = Figure(figsize=(style.width, height * rows), layout="constrained")
    every = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in every:
        axes.grid(True)
        axes.set_axisbelow(True)
    for empty in every[panels:]:
        empty.remove()
    return figure, every[:panels]


def label_rows(panels: Sequence[Axes], label: str) -> None:
    """Name the vertical axis, which all panels share, at the first of each row."""
    for axes in panels:
        place = axes.get_subplotspec()
        if place is None or place.is_first_col():
            axes.set_ylabel(label)
        else:
            axes.set_yticklabels([])


def number_format(highest: float) -> StrMethodFormatter:
    """Return how an axis that ends at ``highest`` writes its numbers."""
    return StrMethodFormatter("{x:,.3g}" if highest < 100 else "{x:,.0f}")


def mark_failed(axes: Axes, places: Sequence[float], style: Style, label: str) -> None:
    """Draw a cross at the foot of the panel for each trial that gave no figure."""
    axes.plot(
        places,
        [0.03] * len(places),
        "x",
        color=style.colours.bad,
        markeredgewidth=1.8,
        markersize=7,
        transform=axes.get_xaxis_transform(),
        clip_on=False,
        label=label,
        zorder=4,
    )


def shared_legend(figure: Figure, panels: Sequence[Axes]) -> None:
    """Draw one legend below all panels, each name once."""
    entries: dict[str, Any] = {}
    for axes in panels:
        handles, names = axes.get_legend_handles_labels()
        entries = dict(zip(names, handles, strict=True)) | entries
    columns = 4 if len(entries) < 5 else 3
    figure.legend(
        list(entries.values()),
        list(entries),
        loc="outside lower center",
        frameon=False,
        ncols=columns if figure.get_figwidth() > NARROW else 1,
    )


def settings(colours: Colours) -> dict[Any, Any]:
    """Return matplotlib's settings of a plot."""
    return {
        "font.size": 9.5,
        "axes.titlesize": "medium",
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "text.parse_math": False,
        "text.color": colours.ink,
        "axes.labelcolor": colours.ink,
        "axes.titlecolor": colours.ink,
        "axes.edgecolor": colours.muted,
        "xtick.color": colours.muted,
        "ytick.color": colours.muted,
        "xtick.labelcolor": colours.ink,
        "ytick.labelcolor": colours.ink,
        "grid.color": colours.grid,
        "grid.linewidth": 0.7,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.facecolor": "none",
        "figure.facecolor": "none",
        "svg.fonttype": "none",
        "svg.hashsalt": "fp8tune",
    }


def to_svg(plot: Plot, width: float = WIDE) -> str:
    """Return a plot as an SVG element in the page's colours; ``width`` in inches."""
    assert plot.draw
    with mpl.rc_context(settings(PLACEHOLDERS)):
        figure = plot.draw(Style(PLACEHOLDERS, width=width))
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None})
        points = _points(figure)
    text = drawn.getvalue()
    text = text[text.index("<svg") :].replace("</svg>", f"{points}</svg>")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    for name, colour in PLACEHOLDERS._asdict().items():
        text = text.replace(colour, f"var(--{name})")
    return _with_unique_ids(text, f"{plot.name}-{width:.0f}-")


def _points(figure: Figure) -> str:
    """Return an invisible circle for each point, with its values to show on hover."""
    wide, high = (72 * inches for inches in figure.get_size_inches())
    to_figure = figure.transFigure.inverted()
    circles: list[str] = []
    for axes in figure.axes:
        for line in axes.lines:
            values = np.asarray(line.get_xydata(), float)
            if not 0 < len(values) <= MAX_POINTS or len(circles) > 10 * MAX_POINTS:
                continue
            places = to_figure.transform(line.get_transform().transform(values))
            for (x, y), value in zip(places.tolist(), values.tolist(), strict=True):
                if 0 < x < 1 and 0 < y < 1:
                    said = html.escape(_point_text(figure, axes, line, value))
                    place = f'cx="{wide * x:.1f}" cy="{high * (1 - y):.1f}" r="7"'
                    circles.append(f"<circle {place}><title>{said}</title></circle>")
    return f'<g class="tips">{"".join(circles)}</g>'


def _point_text(
    figure: Figure, axes: Axes, line: Line2D, value: tuple[float, float]
) -> str:
    """Return the name of a point, and its values by axis."""
    name = str(line.get_label())
    rows = [] if name.startswith(UNNAMED) else [name.removeprefix("_")]
    if line.get_transform() == axes.transData:
        down = axes.get_ylabel() or figure.axes[0].get_ylabel()
        for axis, label, number in (
            (axes.xaxis, axes.get_xlabel() or axes.get_title(), value[0]),
            (axes.yaxis, down, value[1]),
        ):
            ticks = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=False)
            named = {place: text.get_text() for place, text in ticks}
            shown = named.get(number) or (
                f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"
            )
            rows.append(f"{label}: {shown}" if label else shown)
    return "\n".join(rows)


def _with_unique_ids(text: str, prefix: str) -> str:
    """Drop unused ids, and make the others unique in a page."""
    used = set(re.findall(r'(?:href="#|url\(#)([\w.-]+)', text))
    text = re.sub(
        r' id="([\w.-]+)"',
        lambda m: f' id="{prefix}{m[1]}"' if m[1] in used else "",
        text,
    )
    return re.sub(r'(href="#|url\(#)', lambda m: f"{m[1]}{prefix}", text)


logging.getLogger("matplotlib").setLevel(logging.ERROR)
