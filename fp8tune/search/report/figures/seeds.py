"""Loss and gradient norm of FP8 within the band of bf16 seeds."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from fp8tune.search.report.curves import Seeds, Series
from fp8tune.search.report.figures.canvas import (
    Figure,
    Style,
    canvas,
    label_courses,
    shared_legend,
)
from fp8tune.search.stability.findings import LIMITS, verdict_line

HEAD = (
    "step",
    "loss FP8, mean",
    "loss bf16, mean",
    "bf16 lowest",
    "bf16 highest",
    "FP8 above bf16, same seeds [%]",
    "gradient norm FP8, mean",
    "gradient norm bf16, mean",
)


def seeds_figure(name: str, found: Seeds, *, known: bool) -> Figure:
    """The plot of a comparison over seeds, whose data may be ``known``."""
    said = verdict_line(found.finding)
    title = said[:1].upper() + said[1:]
    longest = max(map(len, (*found.fp8, *found.bf16)))
    about = (
        f"{len(found.fp8)} seeds in FP8 and {len(found.bf16)} in bf16, {longest} steps "
        f"each{', the same data in all' * known}."
    )
    note = f"{found.label}. {LIMITS[:1].upper()}{LIMITS[1:]}."
    rows = tuple(_row(found, step) for step in range(longest))
    return Figure(name, title, about, HEAD, rows, lambda s: _draw(found, s), note)


def _row(found: Seeds, step: int) -> tuple[str, ...]:
    fp8, bf16 = _at(found.fp8, step), _at(found.bf16, step)
    gaps = _at(found.gaps, step)
    return (
        str(step),
        _mean(fp8),
        _mean(bf16),
        f"{min(bf16):.4g}" if bf16 else "-",
        f"{max(bf16):.4g}" if bf16 else "-",
        f"{100 * fmean(gaps):+.3f}" if gaps else "-",
        _mean(_at(found.fp8_norms, step)),
        _mean(_at(found.bf16_norms, step)),
    )


def _mean(values: Sequence[float]) -> str:
    return f"{fmean(values):.4g}" if values else "-"


def _at(runs: Sequence[Series], step: int) -> list[float]:
    """The values of a step, of the runs that came so far."""
    return [run[step] for run in runs if step < len(run)]


def _draw(found: Seeds, style: Style) -> Canvas:
    made, panels = canvas(style, 3, height=3.4 if style.narrow else 3.9)
    _panel(panels[0], found.fp8, found.bf16, style)
    percent = [[100 * gap for gap in run] for run in found.gaps]
    _panel(panels[1], percent, _around(found.bf16), style)
    _panel(panels[2], found.fp8_norms, found.bf16_norms, style)
    label_courses(panels, "above bf16's, same seed [%]")
    shared_legend(made, panels, style)
    return made


def _around(runs: Sequence[Series]) -> list[list[float]]:
    """How far each seed is from the mean of all at each step [%]."""
    shortest = min(map(len, runs))
    means = [fmean(_at(runs, step)) for step in range(shortest)]
    return [
        [100 * (run[i] / means[i] - 1) if means[i] else 0.0 for i in range(shortest)]
        for run in runs
    ]


def _panel(
    axes: Axes, fp8: Sequence[Series], bf16: Sequence[Series], style: Style
) -> None:
    longest = max(map(len, bf16))
    steps = [_at(bf16, step) for step in range(longest)]
    axes.fill_between(
        range(longest),
        [min(values) for values in steps],
        [max(values) for values in steps],
        color=style.colours.bf16,
        alpha=0.25,
        linewidth=0,
        label="bf16, from seed to seed",
    )
    mean = [fmean(values) for values in steps]
    axes.plot(mean, "-", color=style.colours.bf16, linewidth=1.6, label="bf16, mean")
    for number, run in enumerate(fp8):
        axes.plot(
            run,
            "--",
            color=style.colours.fp8,
            linewidth=1.3,
            label="FP8, each seed" if not number else None,
        )
    ends = [(len(run) - 1, run[-1]) for run in fp8 if 0 < len(run) < longest]
    if ends:
        axes.plot(
            *zip(*ends, strict=True),
            "x",
            color=style.colours.bad,
            markeredgewidth=1.8,
            markersize=7,
            label="FP8 ended in NaN",
            zorder=4,
        )
