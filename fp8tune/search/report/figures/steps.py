"""Step times of the marked settings: what counted and what was left out."""

from __future__ import annotations

import textwrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from fp8tune.search.report.curves import Steps, timed
from fp8tune.search.report.data import Case
from fp8tune.search.report.figures.canvas import (
    Absent,
    Figure,
    Style,
    canvas,
    label_rows,
    shared_legend,
)
from fp8tune.search.report.words import duration_ms, listed, plural

NAME, TITLE = "steps", "Step times"
HEAD = 1.35
"""Height of the axis over the slowest step that counted."""
ALIKE = 1.02
"""Tokens of a step over another's from which their times do not compare."""
MOST_NAMED = 3
"""Times of steps that are too slow for the axis which are written."""
FEWEST = 2
"""Steps that tell how they differ."""


def steps(case: Case) -> Figure | Absent:
    """The plot of up to four trials, or why there is none."""
    found = timed(case)
    if not found:
        return Absent(NAME, TITLE, "No trial told the times of its steps.")
    medians = "; ".join(
        f"{one.role}: extrapolated, {duration_ms(one.median)}"
        if one.made
        else f"{one.role}: median {duration_ms(one.median)} of "
        f"{plural(len(one.kept), 'step')}, {one.discarded} left out{_why(one)}"
        for one in found
    )
    rows = tuple(
        (one.role, one.label, str(n), f"{took:,.2f}", f"no: {why}" if why else "yes")
        for one in found
        for n, took, why in one.steps
    )
    return Figure(
        NAME,
        _title(found[0]),
        f"Times of the optimizer steps of one trial each. {medians}.",
        ("marked", "setting", "step", "ms", "counted"),
        rows,
        lambda style: _draw(found, style),
    )


def _title(first: Steps) -> str:
    if len(first.kept) < FEWEST:
        told = "is extrapolated" * first.made or "is told by too few to be steady"
        return f"The time of a step {told}: {duration_ms(first.median)} ({first.role})"
    half = (max(first.kept) - min(first.kept)) / 2 / first.median if first.median else 0
    out = f"; {plural(first.discarded, 'step')} left out{_why(first)}"
    out *= bool(first.discarded)
    return f"Steps are steady to {100 * half:.2g} % ({first.role}{out})"


def _why(one: Steps) -> str:
    return f": {listed(one.reasons)}" if set(one.reasons) - {"left out"} else ""


def _draw(found: list[Steps], style: Style) -> Canvas:
    long = max(len(one.label) for one in found) > 40 and len(found) > 2
    across, height = (2, 2.9) if long or style.narrow else (4, 4.0)
    made, panels = canvas(style, len(found), height, across)
    top = HEAD * max(max(one.kept) for one in found)
    tokens = [one.tokens for one in found]
    alike = not min(tokens) or max(tokens) <= ALIKE * min(tokens)
    for axes, one in zip(panels, found, strict=True):
        _panel(axes, one, top, style)
        more = "" if alike else f", {one.tokens / 1e3:,.1f}k tokens a step"
        told = f"{one.label}{more}{', extrapolated' * one.made}"
        label = textwrap.fill(told, 28 if across == 4 and not style.narrow else 52)
        plus = f" + {duration_ms(one.added_ms)} predicted" if one.added_ms else ""
        axes.set_title(f"{one.role}: {duration_ms(one.median)}{plus}\n{label}")
    label_rows(panels, "time of a step [ms]")
    shared_legend(made, panels, style)
    return made


def _panel(axes: Axes, one: Steps, top: float, style: Style) -> None:
    kept = [(n, took) for n, took, why in one.steps if not why]
    out = [(n, took) for n, took, why in one.steps if why]
    axes.set_ylim(0, top)
    colour = style.precision(one.precision)
    name = {"fp8": "FP8"}.get(one.precision, one.precision)
    how = f"{'extrapolated' if one.made else 'counted'}, {name}"
    axes.plot(*zip(*kept, strict=True), "o", color=colour, label=how)
    axes.axhline(one.median, color=colour, linewidth=1.0, alpha=0.6)
    if out:
        axes.plot(
            [n for n, _ in out],
            [min(took, 0.97 * top) for _, took in out],
            "x",
            color=style.colours.muted,
            markeredgewidth=1.8,
            label="left out",
        )
    tall = [(n, took) for n, took in out if took > 0.97 * top]
    if tall:
        # beside the last of them: next to each other they would overprint
        named = [duration_ms(took) for _, took in tall[:MOST_NAMED]]
        axes.annotate(
            ", ".join([*named, "..."] if tall[MOST_NAMED:] else named),
            (tall[-1][0], 0.97 * top),
            (7, 0),
            textcoords="offset points",
            va="center",
        )
    if one.made:
        axes.set_xticks([])
    else:
        axes.set_xlabel("optimizer step")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(
        StrMethodFormatter("{x:,.0f}" if top >= 10 else "{x:.3g}")
    )
