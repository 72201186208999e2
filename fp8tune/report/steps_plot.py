"""Plot the step times of the main settings: which steps counted and which did not."""

from __future__ import annotations

import textwrap
from statistics import median
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fp8tune.report.data import StudyReport, role_names
from fp8tune.report.plots import (
    Colours,
    Plot,
    label_rows,
    new_figure,
    number_format,
    shared_legend,
)
from fp8tune.search.answer.answer import Setting
from fp8tune.search.answer.wording import joined
from fp8tune.search.labels import precision_label
from fp8tune.words import clean, counted

NAME, CONTENTS, TITLE = "steps", "Step times", "Step times"
MAX_STEPS = 2000
"""Steps of a run that are shown."""
ROOM = 1.35
"""Height of the axis over the slowest step that counted."""
MIN_STEPS = 2
"""Steps that count, from which they tell how much they differ."""


class StepTimes(NamedTuple):
    """The step times of one run of a setting.

    ``steps`` has each step's number from 0, its time [ms], and why it did not count, or
    ``""``. ``added_ms`` is predicted communication [ms], which is added to each step.
    """

    role: str
    label: str
    precision: str
    steps: tuple[tuple[int, float, str], ...]
    added_ms: float = 0.0

    @property
    def counted(self) -> list[float]:
        """The times that counted."""
        return [took for _, took, why in self.steps if not why]

    @property
    def median(self) -> float:
        """The median of the times that counted [ms]."""
        return median(self.counted or [0.0])


def step_times(report: StudyReport) -> list[StepTimes]:
    """Return the last run with step times of each setting that has a role."""
    every = (_step_times(report, setting) for setting in report.with_roles)
    return [times for times in every if times]


def _step_times(report: StudyReport, setting: Setting) -> StepTimes | None:
    records = [t.record for t in report.trials_of(setting.point) if t.record.ok]
    measured = [record for record in records if len(record.step_ms) >= MIN_STEPS]
    if not measured:
        return None
    record = measured[-1]
    every = list(enumerate(record.all_step_ms))
    reasons = {
        step: clean(why, 24) or "no reason known"
        for first, last, why in record.discarded
        for step, _ in every[max(0, first) : last + 1]
    }
    if len(every) - len(reasons) != len(record.step_ms):
        every, reasons = list(enumerate(record.step_ms)), {}
    return StepTimes(
        role_names(setting),
        report.short_label(setting),
        report.precision(setting),
        tuple((at, took, reasons.get(at, "")) for at, took in every[:MAX_STEPS]),
        record.communication_ms,
    )


def steps_plot(report: StudyReport) -> Plot:
    """Return the plot of up to four runs, or why there is none."""
    every = step_times(report)
    if not every:
        return Plot(NAME, CONTENTS, TITLE, "No trial reported the times of its steps.")
    medians = "; ".join(f"{one.role}: {duration_ms(one.median)}" for one in every)
    rows = tuple(
        (one.role, one.label, str(at), f"{took:,.2f}", f"no: {why}" if why else "yes")
        for one in every
        for at, took, why in one.steps
    )
    return Plot(
        NAME,
        CONTENTS,
        _title(every[0]),
        "",
        f"Times of the optimizer steps of one trial each; medians: {medians}.",
        ("role", "setting", "step", "ms", "counted"),
        rows,
        lambda colours: _draw(every, colours),
    )


def _title(first: StepTimes) -> str:
    times = first.counted
    half = (max(times) - min(times)) / 2 / first.median if first.median else 0
    reasons = [why for _, _, why in first.steps if why]
    left_out = f"{counted(len(reasons), 'step')} left out: "
    out = f"; {left_out}{joined(list(dict.fromkeys(reasons)))}" if reasons else ""
    return f"Steps are steady to {100 * half:.2g} % ({first.role}{out})"


def _draw(every: list[StepTimes], colours: Colours) -> Figure:
    is_long = max(len(one.label) for one in every) > 40 and len(every) > 2
    across, height, width = (2, 2.9, 52) if is_long else (4, 4.0, 28)
    figure, panels = new_figure(len(every), height, across)
    top = ROOM * max(max(one.counted) for one in every)
    for axes, one in zip(panels, every, strict=True):
        _draw_steps(axes, one, top, colours)
        added = f" + {duration_ms(one.added_ms)} predicted" if one.added_ms else ""
        title = f"{one.role}: {duration_ms(one.median)}{added}"
        axes.set_title(f"{title}\n{textwrap.fill(one.label, width)}")
    label_rows(panels, "time of a step [ms]")
    shared_legend(figure, panels)
    return figure


def _draw_steps(axes: Axes, one: StepTimes, top: float, colours: Colours) -> None:
    kept = [(step, took) for step, took, why in one.steps if not why]
    out = [(step, took) for step, took, why in one.steps if why]
    colour = colours.of_precision(one.precision)["color"]
    name = f"counted, {precision_label(one.precision)}"
    axes.set_ylim(0, top)
    axes.plot(*zip(*kept, strict=True), "o", color=colour, label=name)
    axes.axhline(one.median, color=colour, linewidth=1.0, alpha=0.6)
    if out:
        axes.plot(
            [step for step, _ in out],
            [min(took, 0.97 * top) for _, took in out],
            "x",
            color=colours.muted,
            markeredgewidth=1.8,
            label="left out",
        )
    slowest = max(out, key=lambda each: each[1], default=(0, 0.0))
    if slowest[1] > top:
        at, text = (slowest[0], 0.97 * top), duration_ms(slowest[1])
        axes.annotate(text, at, (7, 0), textcoords="offset points", va="center")
    axes.set_xlabel("optimizer step")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(number_format(top))


def duration_ms(value: float) -> str:
    """Return a time [ms] in the unit that fits: ``31 s``, ``412 ms``, ``1.3 ms``."""
    if value >= 1e4:
        return f"{value / 1e3:,.0f} s"
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.3g} ms"
