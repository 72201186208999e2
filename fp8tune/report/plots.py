"""Shared by all plots: colours, layout, export to SVG.

A plot is drawn once in placeholder colours, which become CSS variables of the page, so
that it serves light and dark.
"""

from __future__ import annotations

import io
import logging
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
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

    def of_precision(self, name: str) -> dict[str, Any]:
        """Return the colour, marker and legend entry of a precision."""
        colours = {"fp8": self.fp8, "bf16": self.bf16}
        return {
            "color": colours.get(name, self.ink),
            "marker": MARKERS.get(name, "o"),
            "label": precision_label(name) or "measured",
        }


PLACEHOLDERS = Colours(*(f"#00000{n}" for n in range(1, 8)))
MARKERS = {"fp8": "o", "bf16": "s"}
"""The marker of each precision."""


WIDTH = 10.0
"""Width of a figure [inch]."""


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
    draw: Callable[[Colours], Figure] | None = None


def new_figure(
    panels: int = 1, height: float = 4.4, across: int = 3
) -> tuple[Figure, list[Axes]]:
    """Return an empty figure with panels side by side.

    ``height`` is that of a panel [inch], ``across`` the most panels in a row.
    """
    columns = min(panels, across)
    rows = math.ceil(panels / columns)
    figure = Figure(figsize=(WIDTH, height * rows), layout="constrained")
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


def mark_failed(
    axes: Axes, places: Sequence[float], colours: Colours, label: str
) -> None:
    """Draw a cross at the foot of the panel for each trial that gave no figure."""
    axes.plot(
        places,
        [0.03] * len(places),
        "x",
        color=colours.bad,
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
    figure.legend(
        list(entries.values()),
        list(entries),
        loc="outside lower center",
        frameon=False,
        ncols=4 if len(entries) < 5 else 3,
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


def to_svg(plot: Plot) -> str:
    """Return a plot as an SVG element in the page's colours."""
    assert plot.draw
    drawn = io.StringIO()
    with mpl.rc_context(settings(PLACEHOLDERS)):
        figure = plot.draw(PLACEHOLDERS)
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    text = drawn.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    for name, colour in PLACEHOLDERS._asdict().items():
        text = text.replace(colour, f"var(--{name})")
    return _with_unique_ids(text[text.index("<svg") :], f"{plot.name}-")


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
