"""Plot the losses, the loss gap and the gradient norms of runs in FP8 and bf16."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fp8tune.report.plots import Plot, Style, new_figure, shared_legend
from fp8tune.verify.gap import Comparison
from fp8tune.verify.gap_findings import amount, percent, relative
from fp8tune.verify.runs import Run

POINTS = 60
"""Most points of a line; each is the mean of its neighbours."""
MAX_SHOWN = 1e6
"""Larger values are not drawn."""
HEAD = ("place", "loss FP8", "loss bf16", "bf16 lowest", "bf16 highest", "gap [%]")

Line = list[tuple[float, float]]


class Lines(NamedTuple):
    """The same quantity of all runs, averaged, by precision."""

    fp8: list[Line]
    bf16: list[Line]


def smooth(places: Sequence[float], values: Sequence[float]) -> Line:
    """Return at most ``POINTS`` points, each the mean of as many neighbours."""
    pairs = [
        pair for pair in zip(places, values, strict=True) if abs(pair[1]) < MAX_SHOWN
    ]
    count = min(POINTS, len(pairs))
    ends = [len(pairs) * n // count for n in range(count + 1)] if count else []
    parts = [pairs[low:high] for low, high in itertools.pairwise(ends)]
    return [
        (statistics.fmean(p for p, _ in part), statistics.fmean(v for _, v in part))
        for part in parts
    ]


def plots(result: Comparison) -> list[Plot]:
    """Return the plots of the page."""
    if not len(result.aligned):
        return []
    losses, gaps = _losses(result), _gaps(result)
    every = [
        Plot(
            "loss",
            "Loss",
            "Loss of FP8 and bf16",
            _smoothing(result),
            _about(losses),
            HEAD,
            _rows(result, losses, gaps),
            lambda style: _draw_losses(result, losses, gaps, style),
        )
    ]
    if norms := _norms(result):
        every.append(
            Plot(
                "norm",
                "Gradient norm",
                "Gradient norm before clipping",
                "",
                "The gradient norm of each run by step.",
                ("step", "FP8", "bf16, first run"),
                tuple(
                    (f"{a[0]:,.0f}", f"{a[1]:.3g}", f"{b[1]:.3g}")
                    for a, b in zip(norms.fp8[0], norms.bf16[0], strict=False)
                ),
                lambda style: _draw_norms(norms, style),
            )
        )
    return every


def _losses(result: Comparison) -> Lines:
    places, count = result.aligned.places, len(result.fp8)
    lines = [smooth(places, row) for row in result.aligned.losses]
    return Lines(lines[:count], lines[count:])


def _gaps(result: Comparison) -> Lines:
    """Return how far each run is from the mean of bf16 [%]."""
    places, count = result.aligned.places, len(result.fp8)
    rows = result.aligned.losses
    means = [statistics.fmean(row) for row in zip(*rows[count:], strict=True)]
    lines = [
        smooth(
            places,
            [_percent_above(a, b) for a, b in zip(row, means, strict=True)],
        )
        for row in rows
    ]
    return Lines(lines[:count], lines[count:])


def _percent_above(value: float, other: float) -> float:
    """Return the difference [%], within what is drawn; 0 if it is not defined."""
    if other <= 0:
        return 0.0
    return max(-0.9 * MAX_SHOWN, min(0.9 * MAX_SHOWN, 100 * (value / other - 1)))


def _norms(result: Comparison) -> Lines | None:
    def line(run: Run) -> Line:
        norms = [norm if norm > 0 else math.nan for norm in run.curve.grad_norm]
        return smooth(run.curve.step, norms)

    lines = Lines(list(map(line, result.fp8)), list(map(line, result.bf16)))
    return lines if all((*lines.fp8, *lines.bf16)) else None


def _smoothing(result: Comparison) -> str:
    many = len(result.aligned) > POINTS
    note = f"Neighbouring steps are averaged to {POINTS} points. " if many else ""
    return f"{note}The right panel compares with the mean of the bf16 runs."


def _about(losses: Lines) -> str:
    fp8, bf16 = losses.fp8[0], losses.bf16[0]
    return (
        f"FP8 goes from {fp8[0][1]:.3f} to {fp8[-1][1]:.3f}, the first bf16 run from "
        f"{bf16[0][1]:.3f} to {bf16[-1][1]:.3f}."
    )


def _rows(
    result: Comparison, losses: Lines, gaps: Lines
) -> tuple[tuple[str, ...], ...]:
    unit = result.aligned.unit
    rows = []
    for n, (place, _) in enumerate(losses.bf16[0]):
        fp8, gap = (
            statistics.fmean(line[n][1] for line in lines)
            for lines in (losses.fp8, gaps.fp8)
        )
        bf16 = [line[n][1] for line in losses.bf16]
        at = f"{amount(place)} {unit}"
        values = (fp8, statistics.fmean(bf16), min(bf16), max(bf16))
        rows.append((at, *(f"{value:.4f}" for value in values), f"{gap:+.3f}"))
    return tuple(rows)


def _draw_losses(
    result: Comparison, losses: Lines, gaps: Lines, style: Style
) -> Figure:
    figure, panels = new_figure(style, 2, 3.9, 2)
    for axes, lines, title, label in (
        (panels[0], losses, "loss", "cross-entropy [nats per token]"),
        (panels[1], gaps, "loss gap", "above the mean of bf16 [%]"),
    ):
        _draw(axes, lines, style)
        axes.set_title(title)
        axes.set_ylabel(label)
        axes.set_xlabel(result.aligned.unit)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: amount(x)))
    _limit(panels[0], [y for line in losses.bf16 for _, y in line])
    if result.gap and math.isfinite(result.gap.total.high):
        share = relative(result.gap, result.gap.total)
        half = 100 * (share.high - share.value)
        last = result.aligned.places[-1]
        panels[1].errorbar(
            [last],
            [100 * share.value],
            yerr=[half],
            fmt="none",
            ecolor=style.colours.ink,
            capsize=4,
            label=f"gap {percent(share.value)}, 95 % interval",
        )
        end = [y for lines in (gaps.fp8, gaps.bf16) for line in lines for _, y in line]
        reach = sorted(map(abs, end))[int(0.98 * (len(end) - 1))]
        most = 1.2 * max(reach, abs(100 * share.low), abs(100 * share.high))
        panels[1].set_ylim(-most, most)
    shared_legend(figure, panels)
    return figure


def _limit(axes: Axes, bf16: Sequence[float]) -> None:
    """Keep a diverged run from squeezing the others."""
    low, high = axes.get_ylim()
    own = max(bf16) - min(bf16)
    axes.set_ylim(low, min(high, max(bf16) + own))


def _draw(axes: Axes, lines: Lines, style: Style) -> None:
    colours = style.colours
    if len(lines.bf16) > 1:
        columns = list(zip(*lines.bf16, strict=True))
        axes.fill_between(
            [column[0][0] for column in columns],
            [min(y for _, y in column) for column in columns],
            [max(y for _, y in column) for column in columns],
            color=colours.bf16,
            alpha=0.25,
            linewidth=0,
            label="bf16, from seed to seed",
        )
        mean = [
            (column[0][0], statistics.fmean(y for _, y in column)) for column in columns
        ]
        axes.plot(*zip(*mean, strict=True), "-", color=colours.bf16, label="bf16, mean")
    else:
        only = lines.bf16[0]
        axes.plot(*zip(*only, strict=True), "-", color=colours.bf16, label="bf16")
    for line in lines.fp8:
        axes.plot(*zip(*line, strict=True), "--", color=colours.fp8, label="FP8")


def _draw_norms(norms: Lines, style: Style) -> Figure:
    figure, (axes,) = new_figure(style, 1, 3.4)
    for line in norms.bf16:
        points = zip(*line, strict=True)
        axes.plot(*points, "-", color=style.colours.bf16, lw=1, label="bf16")
    for line in norms.fp8:
        points = zip(*line, strict=True)
        axes.plot(*points, "--", color=style.colours.fp8, lw=1.2, label="FP8")
    axes.set_yscale("log")
    for which in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        which(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.set_ylabel("norm before clipping")
    axes.set_xlabel("step")
    shared_legend(figure, [axes])
    return figure
