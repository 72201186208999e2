"""Loss and gradient norm of FP8 beside bf16, step by step."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from fp8tune.search.report.curves import Pair, digit, pair, seeds
from fp8tune.search.report.data import Case
from fp8tune.search.report.figures.canvas import (
    Absent,
    Figure,
    Style,
    canvas,
    label_courses,
)
from fp8tune.search.report.figures.seeds import seeds_figure

NAME, TITLE = "loss", "Loss and gradient norm of FP8 and bf16"


def loss(case: Case) -> Figure | Absent:
    """The plot of a comparison over seeds, else of a pair of trials, or why not."""
    if told := seeds(case):
        return seeds_figure(NAME, told, known=not case.replay)
    found = pair(case)
    if found is None:
        why = "No setting told its losses in both FP8 and bf16."
        return Absent(NAME, TITLE, why)
    rounding = found.rounding or (0.0,) * len(found.gaps)
    pairs = zip(found.gaps, rounding, strict=True)
    widest = 100 * max(abs(gap) + off for gap, off in pairs)
    title = f"FP8's loss is within {widest:.2g} % of bf16's for {len(found.gaps)} steps"
    title += ", rounding to bf16 counted" * any(rounding)
    about = (
        f"FP8 goes from {found.fp8[0]:.3f} to {found.fp8[-1]:.3f}, bf16 from "
        f"{found.bf16[0]:.3f} to {found.bf16[-1]:.3f}."
    )
    alike = (
        "as recorded: whether data and seed are the same is not told"
        if case.replay
        else "the same data and seed in both"
    )
    note = (
        f"{found.label}, {alike}. So few steps can show that FP8 goes wrong, not that "
        "it converges."
    )
    if any(rounding):
        last = found.bf16[len(rounding) - 1]
        note += (
            f" These losses were rounded to bf16: at {last:.4g} its last "
            f"digit is {digit(last):.2g}, {100 * rounding[-1]:.2g} % of the "
            "loss. What differs by less may look alike."
        )
    longest = max(len(found.fp8), len(found.bf16))
    rows = tuple(
        (str(step), *(_at(s, step) for s in found[1:5])) for step in range(longest)
    )
    head = ("step", "loss FP8", "loss bf16", "gradient norm FP8", "gradient norm bf16")
    return Figure(
        NAME, title, about, head, rows, lambda style: _draw(found, style), note
    )


def _at(series: tuple[float, ...], step: int) -> str:
    return f"{series[step]:.4g}" if step < len(series) else "-"


def _draw(found: Pair, style: Style) -> Canvas:
    norms = bool(found.fp8_norms and found.bf16_norms)
    made, panels = canvas(style, 2 + norms, height=3.2 if style.narrow else 3.8)
    _panel(panels[0], found.fp8, found.bf16, style)
    _gaps(panels[1], found.gaps, style)
    if norms:
        _panel(panels[2], found.fp8_norms, found.bf16_norms, style)
    label_courses(panels, "FP8's loss above bf16's [%]")
    for axes in panels:
        axes.legend(frameon=False)
    return made


def _gaps(axes: Axes, gaps: tuple[float, ...], style: Style) -> None:
    axes.axhline(0, color=style.colours.bf16, linewidth=1.6, label="bf16")
    axes.plot(
        [100 * gap for gap in gaps],
        "o--",
        color=style.colours.fp8,
        markersize=5,
        markerfacecolor="none",
        markeredgewidth=1.5,
        label="FP8",
    )
    reach = max(0.1, 140 * max(map(abs, gaps)))
    axes.set_ylim(-reach, reach)


def _panel(
    axes: Axes, fp8: tuple[float, ...], bf16: tuple[float, ...], style: Style
) -> None:
    axes.plot(
        bf16, "s-", color=style.colours.bf16, linewidth=1.6, markersize=5, label="bf16"
    )
    axes.plot(
        fp8,
        "o--",
        color=style.colours.fp8,
        linewidth=1.6,
        markersize=5,
        markerfacecolor="none",
        markeredgewidth=1.5,
        label="FP8",
    )
