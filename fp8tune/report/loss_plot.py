"""Plot loss and gradient norm of FP8 and bf16, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fp8tune.report.data import Report
from fp8tune.report.plots import Plot, Style, new_figure, shared_legend
from fp8tune.report.text import capital
from fp8tune.search.answer.wording import setting_label
from fp8tune.search.losses.findings import (
    LIMITS,
    Stability,
    curves_by_setting,
    pairs_by_warmup,
    verdict_line,
)

NAME, CONTENTS = "loss", "Loss"
TITLE = "Loss and gradient norm of FP8 and bf16"
HEAD = (
    *("step", "loss FP8", "loss bf16", "bf16 lowest", "bf16 highest"),
    "FP8 above bf16, same seed [%]",
    *("gradient norm FP8", "gradient norm bf16"),
)

Series = Sequence[float]


@dataclass(frozen=True, kw_only=True)
class LossRuns:
    """Runs of one setting in FP8 and in bf16 on the same seeds, in the seeds' order.

    Losses [nats per token] and gradient norms by step; a run that diverged may be
    shorter. ``finding`` is their result.
    """

    label: str
    fp8: tuple[Series, ...]
    bf16: tuple[Series, ...]
    fp8_norms: tuple[Series, ...]
    bf16_norms: tuple[Series, ...]
    finding: Stability

    @property
    def gaps(self) -> tuple[Series, ...]:
        """FP8's loss relative to bf16's of the same seed, minus 1, at each step."""
        pairs = zip(self.fp8, self.bf16, strict=True)
        return tuple(
            [a / b - 1 if b else 0.0 for a, b in zip(fp8, bf16, strict=False)]
            for fp8, bf16 in pairs
        )


def loss_runs(report: Report) -> LossRuns | None:
    """Return the runs at the chosen setting, else at the last one that was checked."""
    if not report.stability:
        return None
    last = next(reversed(list(report.stability)))
    point = report.chosen if report.chosen in report.stability else last
    assert point is not None
    knobs, finding = report.plan.space.knobs, report.stability[point]
    runs = curves_by_setting(report.plan.space, report.study.trials)[point]
    pairs = pairs_by_warmup(runs)[finding.decisive.warmup_steps]
    if not all(run.losses for pair in pairs for run in pair):
        return None
    fp8, bf16 = zip(*pairs, strict=True)
    keys = {knob.key for knob in knobs if knob.role != "precision"}
    return LossRuns(
        label=setting_label(knobs, point, keys),
        fp8=tuple(run.losses for run in fp8),
        bf16=tuple(run.losses for run in bf16),
        fp8_norms=tuple(run.grad_norms for run in fp8),
        bf16_norms=tuple(run.grad_norms for run in bf16),
        finding=finding,
    )


def loss_plot(report: Report) -> Plot:
    """Return the plot of the stability check, or why there is none."""
    runs = loss_runs(report)
    if runs is None:
        why = "No runs compare FP8's losses with bf16's."
        return Plot(NAME, CONTENTS, TITLE, why)
    longest = max(map(len, (*runs.fp8, *runs.bf16)))
    same_data = "" if report.is_replay else ", the same data in all"
    about = (
        f"{len(runs.fp8)} seeds in FP8 and {len(runs.bf16)} in bf16, {longest} steps "
        f"each{same_data}. FP8 goes from {runs.fp8[0][0]:.3f} to "
        f"{runs.fp8[0][-1]:.3f}, bf16 from {runs.bf16[0][0]:.3f} to "
        f"{runs.bf16[0][-1]:.3f}."
    )
    rows = tuple(_row(runs, step) for step in range(longest))
    return Plot(
        NAME,
        CONTENTS,
        capital(verdict_line(runs.finding)),
        f"{runs.label}. {capital(LIMITS)}.",
        about,
        HEAD,
        rows,
        lambda style: _draw(runs, style),
    )


def _row(runs: LossRuns, step: int) -> tuple[str, ...]:
    bf16, gaps = _at(runs.bf16, step), _at(runs.gaps, step)
    return (
        str(step),
        _mean(_at(runs.fp8, step)),
        _mean(bf16),
        f"{min(bf16):.4g}" if bf16 else "-",
        f"{max(bf16):.4g}" if bf16 else "-",
        f"{100 * fmean(gaps):+.3f}" if gaps else "-",
        _mean(_at(runs.fp8_norms, step)),
        _mean(_at(runs.bf16_norms, step)),
    )


def _mean(values: Series) -> str:
    return f"{fmean(values):.4g}" if values else "-"


def _at(runs: Sequence[Series], step: int) -> list[float]:
    """Return the values at a step, of the runs that reached it."""
    return [run[step] for run in runs if step < len(run)]


def _draw(runs: LossRuns, style: Style) -> Figure:
    has_norms = all(runs.fp8_norms) and all(runs.bf16_norms)
    figure, panels = new_figure(style, 2 + has_norms, 3.9)
    gaps = [[100 * gap for gap in run] for run in runs.gaps]
    around = _around_mean(runs.bf16)
    _draw_runs(panels[0], runs.fp8, runs.bf16, style)
    _draw_runs(panels[1], gaps, around, style)
    reach = max(0.1, 1.3 * max(abs(gap) for run in (*gaps, *around) for gap in run))
    panels[1].set_ylim(-reach, reach)
    if has_norms:
        _draw_runs(panels[2], runs.fp8_norms, runs.bf16_norms, style)
    names = (
        ("loss", "cross-entropy [nats per token]"),
        ("difference of the loss", "above bf16's, same seed [%]"),
        ("gradient norm", "norm before clipping"),
    )
    for axes, (title, label) in zip(panels, names, strict=False):
        axes.set_title(title)
        axes.set_ylabel(label)
        axes.set_xlabel("optimizer step")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    shared_legend(figure, panels)
    return figure


def _around_mean(runs: Sequence[Series]) -> list[list[float]]:
    """Return how far each seed is from the mean of all at each step [%]."""
    shortest = min(map(len, runs))
    means = [fmean(_at(runs, step)) for step in range(shortest)]
    return [
        [100 * (run[i] / means[i] - 1) if means[i] else 0.0 for i in range(shortest)]
        for run in runs
    ]


def _draw_runs(
    axes: Axes, fp8: Sequence[Series], bf16: Sequence[Series], style: Style
) -> None:
    """Draw the mean and the band of the bf16 seeds, and each seed of FP8."""
    longest, colours = max(map(len, bf16)), style.colours
    steps = [_at(bf16, step) for step in range(longest)]
    if len(bf16) > 1:
        axes.fill_between(
            range(longest),
            [min(values) for values in steps],
            [max(values) for values in steps],
            color=colours.bf16,
            alpha=0.25,
            linewidth=0,
            label="bf16, from seed to seed",
        )
    name = "bf16, mean" if len(bf16) > 1 else "bf16"
    mean = [fmean(values) for values in steps]
    axes.plot(mean, "-", color=colours.bf16, lw=1.6, label=name)
    each = "FP8, each seed" if len(fp8) > 1 else "FP8"
    for run in fp8:
        axes.plot(
            run,
            "--",
            color=colours.fp8,
            linewidth=1.4,
            label=each,
        )
    ends = [(len(run) - 1, run[-1]) for run in fp8 if 0 < len(run) < longest]
    if ends:
        axes.plot(
            *zip(*ends, strict=True),
            "x",
            color=colours.bad,
            markeredgewidth=1.8,
            markersize=7,
            label="FP8 ended in NaN",
            zorder=4,
        )
