"""What all plots share: colours, type, and SVG that fits into a page.

A plot is drawn with stand-ins for the page's colours, which become CSS variables, so
that one plot serves light and dark; the files of ``--plots`` get the light ones.
"""

from __future__ import annotations

import io
import logging
import math
import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator


class Colours(NamedTuple):
    """By what they mean. ``bf16`` and ``fp8`` differ for colour-blind eyes as well."""

    ink: str
    muted: str
    grid: str
    paper: str
    fp8: str
    bf16: str
    bad: str


STAND_INS = Colours(*(f"#00000{n}" for n in range(1, 8)))
LIGHT = Colours(
    "#1b1f24", "#5b6470", "#d9dee4", "#ffffff", "#0b62c4", "#b45309", "#b42318"
)


class Style(NamedTuple):
    """How a plot is drawn; ``narrow`` is for a phone: panels below each other.

    ``title`` is written into the plot where no page says it.
    """

    colours: Colours
    narrow: bool = False
    title: str = ""

    def precision(self, name: str) -> str:
        """The colour of a precision."""
        return {"fp8": self.colours.fp8, "bf16": self.colours.bf16}.get(
            name, self.colours.ink
        )


class Figure(NamedTuple):
    """A plot, what it says as a title, and its numbers as a table.

    ``about`` is what those hear who cannot see it; ``note`` is what all must know.
    """

    name: str
    title: str
    about: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    draw: Callable[[Style], Canvas]
    note: str = ""


class Absent(NamedTuple):
    """A plot for which there are no numbers, and why."""

    name: str
    title: str
    why: str


def canvas(
    style: Style, panels: int = 1, height: float = 4.4, across: int = 3
) -> tuple[Canvas, list[Axes]]:
    """An empty plot: panels side by side, below each other on a phone.

    ``height`` is that of a panel [inch], ``across`` the most of them in a row.
    """
    columns = 1 if style.narrow else min(panels, across)
    rows = math.ceil(panels / columns)
    width = 4.8 if style.narrow else 10.0
    made = Canvas(figsize=(width, height * rows), layout="constrained")
    axes = list(made.subplots(rows, columns, squeeze=False).flat)
    for one in axes:
        one.grid(True)
        one.set_axisbelow(True)
    for empty in axes[panels:]:
        empty.remove()
    if style.title:
        made.suptitle(
            textwrap.fill(style.title, 95), x=0.01, ha="left", fontweight="bold"
        )
    return made, axes[:panels]


def lay_out(made: Canvas) -> None:
    """Give everything its place, once: what is drawn later finds it settled."""
    engine = made.get_layout_engine()
    if engine is not None:
        engine.execute(made)
        made.set_layout_engine("none")


def label_rows(panels: Sequence[Axes], label: str) -> None:
    """Name the vertical axis, which all panels share, at the first of each row."""
    for axes in panels:
        place = axes.get_subplotspec()
        if place is None or place.is_first_col():
            axes.set_ylabel(label)
        else:
            axes.set_yticklabels([])


def label_courses(panels: Sequence[Axes], gap: str) -> None:
    """Name the panels of loss, gap and gradient norm, over the optimizer steps.

    ``gap`` says what the second panel measures; the third may be missing.
    """
    names = (
        ("loss", "cross-entropy [nats per token]"),
        ("how far FP8's loss is off", gap),
        ("gradient norm", "norm before clipping"),
    )
    for axes, (title, label) in zip(panels, names, strict=False):
        axes.set_title(title)
        axes.set_ylabel(label)
        axes.set_xlabel("optimizer step")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))


def mark_lost(
    axes: Axes, places: Sequence[float], style: Style, label: str, mark: str = "x"
) -> None:
    """A cross at the foot of the panel for each trial that gave no figure."""
    axes.plot(
        places,
        [0.03] * len(places),
        mark,
        color=style.colours.bad,
        markeredgewidth=1.8,
        markersize=7,
        transform=axes.get_xaxis_transform(),
        clip_on=False,
        label=label,
        zorder=4,
    )


def _settings(style: Style) -> dict[Any, Any]:
    colours = style.colours
    return {
        "font.size": 11.0 if style.narrow else 9.5,
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


def inline(figure: Figure, narrow: bool) -> str:
    """The plot as an SVG element for a page, in the page's colours."""
    style = Style(STAND_INS, narrow)
    with mpl.rc_context(_settings(style)):
        made = figure.draw(style)
        lay_out(made)
        text = _svg(made, "none")
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    for name, colour in STAND_INS._asdict().items():
        text = text.replace(colour, f"var(--{name})")
    return _own_ids(text, f"{figure.name}-{'narrow' if narrow else 'wide'}-")


def _own_ids(text: str, prefix: str) -> str:
    """Names that nothing refers to are dropped, the others made unique in a page."""
    used = set(re.findall(r'(?:href="#|url\(#)([\w.-]+)', text))
    text = re.sub(
        r' id="([\w.-]+)"',
        lambda m: f' id="{prefix}{m[1]}"' if m[1] in used else "",
        text,
    )
    return re.sub(r'(href="#|url\(#)', lambda m: f"{m[1]}{prefix}", text)


def files(figure: Figure, mark: str = "") -> dict[str, bytes]:
    """The plot as PNG and SVG, with its title, by the ends of their names.

    ``mark`` is what a reader must know who does not see the page.
    """
    style = Style(LIGHT, title=f"{mark}: {figure.title}" if mark else figure.title)
    with mpl.rc_context(_settings(style)):
        made = figure.draw(style)
        lay_out(made)
        drawn = io.BytesIO()
        made.savefig(drawn, format="png", dpi=160, facecolor=LIGHT.paper)
        return {"png": drawn.getvalue(), "svg": _svg(made, LIGHT.paper).encode()}


def _svg(made: Canvas, paper: str) -> str:
    drawn = io.StringIO()
    made.savefig(drawn, format="svg", facecolor=paper, metadata={"Date": None})
    return drawn.getvalue()


def shared_legend(made: Canvas, panels: Sequence[Axes], style: Style) -> None:
    """One legend below all panels, each name once."""
    found: dict[str, Any] = {}
    for axes in panels:
        handles, names = axes.get_legend_handles_labels()
        found = dict(zip(names, handles, strict=True)) | found
    made.legend(
        list(found.values()),
        list(found),
        loc="outside lower center",
        frameon=False,
        ncols=1 if style.narrow else 4 if len(found) < 5 else 3,
    )


logging.getLogger("matplotlib").setLevel(logging.ERROR)
