"""Plot losses, loss gaps and gradient norms of runs in FP8 and in bf16."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fp8tune.report.data import StudyReport
from fp8tune.report.plots import Colours, Plot, new_figure, shared_legend
from fp8tune.search.answer.wording import capital
from fp8tune.search.labels import setting_label
from fp8tune.search.losses.findings import LIMITS, curves_by_setting, pairs_by_warmup
from fp8tune.verify.gap import Comparison
from fp8tune.verify.gap_findings import amount
from fp8tune.words import counted

NAME, CONTENTS = "loss", "Loss"
TITLE = "Loss and gradient norm of FP8 and bf16"
POINTS = 60
"""Most points of a line of two runs that are compared."""
MAX_SHOWN = 1e6
"""Larger values are not drawn."""
INNER = 0.98
"""The share of all loss gaps that are inside the panel."""

Series = Sequence[float]
Line = Sequence[tuple[float, float]]
"""The values of one run, each with its step or tokens; of a run with NaN fewer."""


class Panel(NamedTuple):
    """One quantity of all runs, by ``unit``."""

    title: str
    label: str
    unit: str
    fp8: Sequence[Line]
    bf16: Sequence[Line]


def loss_plot(report: StudyReport) -> Plot:
    """Return the plot of the comparison of losses, or why there is none."""
    losses, space = report.losses, report.plan.space
    by_setting = curves_by_setting(space, report.study.trials)
    runs = by_setting.get(losses.point, []) if losses else []
    pairs = pairs_by_warmup(runs).get(losses.warmup_steps, []) if losses else []
    if not losses or not pairs or not all(run.losses for pair in pairs for run in pair):
        why = "No runs compare FP8's losses with bf16's."
        return Plot(NAME, CONTENTS, TITLE, why)
    both = [[pair[place] for pair in pairs] for place in (0, 1)]
    fp8, bf16 = ([run.losses for run in own] for own in both)
    norms = [[list(enumerate(run.grad_norms)) for run in own] for own in both]
    above = "above bf16's, same seed [%]"
    panels = _losses(range(max(map(len, (*fp8, *bf16)))), fp8, bf16, bf16, above)
    if all(map(all, norms)):
        panels.append(_norms(*norms))
    keys = {knob.key for knob in space.knobs if knob.role != "precision"}
    label = setting_label(space.knobs, losses.point, keys)
    same = "" if report.study.about.is_replay else ", the same data in all"
    about = f"{counted(len(pairs), 'seed')} in FP8 and in bf16{same}."
    note = f"{label}. {capital(LIMITS)}."
    return _plot(panels, capital(losses.evidence), note, about)


def runs_plot(result: Comparison) -> Plot | None:
    """Return the plot of runs that are compared; ``None`` if nothing is comparable."""
    aligned, count = result.aligned, len(result.fp8)
    if not len(aligned):
        return None
    rows = [_smooth(row) for row in aligned.losses]
    fp8, bf16 = rows[:count], rows[count:]
    others = [list(map(fmean, zip(*bf16, strict=True)))] * count
    places, above = _smooth(aligned.places), "above the mean of bf16 [%]"
    panels = _losses(places, fp8, bf16, others, above, aligned.unit)
    norms = [
        list(zip(_smooth(curve.step), _smooth(curve.grad_norm), strict=False))
        for curve in (run.curve for run in result.runs)
    ]
    if all(norms):
        panels.append(_norms(norms[:count], norms[count:]))
    is_long = len(aligned) > POINTS
    note = f"Neighbouring steps are averaged to {POINTS} points." * is_long
    return _plot(panels, "Loss of FP8 and bf16", note, "")


def _smooth(values: Series) -> list[float]:
    """Return at most ``POINTS`` values, each the mean of as many neighbours."""
    count = min(POINTS, len(values))
    ends = [len(values) * n // count for n in range(count + 1)] if count else []
    return [fmean(values[low:high]) for low, high in itertools.pairwise(ends)]


def _losses(
    places: Series,
    fp8: Sequence[Series],
    bf16: Sequence[Series],
    others: Sequence[Series],
    above: str,
    unit: str = "optimizer step",
) -> list[Panel]:
    """Return the panels of losses, and of those of FP8 relative to ``others``."""
    means = list(map(fmean, zip(*bf16, strict=False)))
    gaps = list(map(_above, fp8, others)), [_above(run, means) for run in bf16]
    figures = (
        ("loss", "cross-entropy [nats per token]", fp8, bf16),
        ("gap", above, *gaps),
    )
    return [
        Panel(title, label, unit, *([_line(places, run) for run in r] for r in runs))
        for title, label, *runs in figures
    ]


def _norms(fp8: Sequence[Line], bf16: Sequence[Line]) -> Panel:
    title, label = "gradient norm", "norm before clipping"
    return Panel(title, label, "optimizer step", fp8, bf16)


def _line(places: Series, values: Series) -> Line:
    """Return the values that can be drawn."""
    pairs = zip(places, values, strict=False)
    return [(place, max(-MAX_SHOWN, min(MAX_SHOWN, value))) for place, value in pairs]


def _above(run: Series, other: Series) -> list[float]:
    """Return how far losses are above others [%]."""
    pairs = zip(run, other, strict=False)
    return [100 * (a / b - 1) if b > 0 else 0.0 for a, b in pairs]


def _plot(panels: Sequence[Panel], title: str, note: str, about: str) -> Plot:
    fp8, bf16 = panels[0].fp8[0], panels[0].bf16[0]
    ends = f"FP8 goes from {fp8[0][1]:.3f} to {fp8[-1][1]:.3f}, bf16 from "
    about = f"{about} {ends}{bf16[0][1]:.3f} to {bf16[-1][1]:.3f}.".strip()
    head = (panels[0].unit, "loss FP8", "loss bf16", "bf16 lowest", "bf16 highest")
    longest = max((*panels[0].fp8, *panels[0].bf16), key=len)
    rows = tuple(
        (amount(longest[at][0]), *_cells(panels, at)) for at in range(len(longest))
    )
    return Plot(
        NAME,
        CONTENTS,
        title,
        note,
        about,
        (*head, f"FP8 {panels[1].label}"),
        rows,
        lambda colours: _draw(panels, colours),
    )


def _cells(panels: Sequence[Panel], at: int) -> Iterator[str]:
    """Yield the means at a place, of the runs that reached it."""
    (loss, gap, *_), bf16 = panels, _at(panels[0].bf16, at)
    for values in (_at(loss.fp8, at), bf16, [min(bf16)] * bool(bf16)):
        yield f"{fmean(values):.4g}" if values else "-"
    yield f"{max(bf16):.4g}" if bf16 else "-"
    gaps = _at(gap.fp8, at)
    yield f"{fmean(gaps):+.3f}" if gaps else "-"


def _at(lines: Sequence[Line], at: int) -> list[float]:
    return [line[at][1] for line in lines if at < len(line)]


def _draw(panels: Sequence[Panel], colours: Colours) -> Figure:
    figure, every = new_figure(len(panels), 3.9)
    for axes, panel in zip(every, panels, strict=True):
        _draw_runs(axes, panel, colours)
        axes.set_title(panel.title)
        axes.set_ylabel(panel.label)
        axes.set_xlabel(panel.unit)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: amount(x)))
    bf16 = [loss for line in panels[0].bf16 for _, loss in line]
    low, high = every[0].get_ylim()  # a run that diverged squeezes no other
    every[0].set_ylim(low, min(high, 2 * max(bf16) - min(bf16)))
    far = sorted(abs(y) for line in (*panels[1].fp8, *panels[1].bf16) for _, y in line)
    reach = max(0.1, 1.3 * far[int(INNER * (len(far) - 1))])
    every[1].set_ylim(-reach, reach)
    shared_legend(figure, every)
    return figure


def _draw_runs(axes: Axes, panel: Panel, colours: Colours) -> None:
    """Draw the mean and the band of the bf16 runs, and each run of FP8."""
    longest, bf16 = max(panel.bf16, key=len), panel.bf16
    places = [place for place, _ in longest]
    columns = [_at(bf16, at) for at in range(len(longest))]
    if len(bf16) > 1:
        axes.fill_between(
            places,
            list(map(min, columns)),
            list(map(max, columns)),
            color=colours.bf16,
            alpha=0.25,
            linewidth=0,
            label="bf16, from seed to seed",
        )
    name = "bf16, mean" if len(bf16) > 1 else "bf16"
    axes.plot(places, list(map(fmean, columns)), "-", color=colours.bf16, label=name)
    each = "FP8, each seed" if len(panel.fp8) > 1 else "FP8"
    for line in panel.fp8:
        points = zip(*line, strict=True)
        axes.plot(*points, "--", color=colours.fp8, lw=1.4, label=each)
    ends = [line[-1] for line in panel.fp8 if 0 < len(line) < len(longest)]
    if ends and panel.title == "loss":
        axes.plot(
            *zip(*ends, strict=True),
            "x",
            color=colours.bad,
            markeredgewidth=1.8,
            markersize=7,
            label="FP8 ended in NaN",
            zorder=4,
        )
