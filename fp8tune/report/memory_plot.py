"""Plot the objective against memory, with the frontier."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fp8tune.report.data import StudyReport, key_value, role_names, vs_chosen, why_not
from fp8tune.report.plots import (
    Colours,
    Plot,
    mark_failed,
    new_figure,
    number_format,
    shared_legend,
)
from fp8tune.search.answer.answer import Setting
from fp8tune.search.answer.wording import gib
from fp8tune.search.objective import show_value
from fp8tune.words import counted

NAME, CONTENTS = "memory", "Memory and speed"
MARKERS = {"chosen": "*", "baseline": "D", "bf16-baseline": "P", "runner-up": "^"}
"""The marker of a setting by the first of its roles."""


def memory_plot(report: StudyReport) -> Plot:
    """Return the plot of all settings whose value and memory are known."""
    placed = [s for s in report.settings if s.value and s.peak_gib]
    if not placed:
        why = "No trial reported both its speed and its memory."
        return Plot(NAME, CONTENTS, "Throughput against memory", why)
    rows = tuple(
        (
            report.label(s),
            role_names(s),
            f"{s.outcome}, may not be chosen: {why}"
            if (why := why_not(s))
            else s.outcome,
            str(s.runs),
            report.figure(s),
            vs_chosen(s),
            gib(s.peak_gib),
            "yes" if s.on_frontier else "",
        )
        for s in sorted(report.settings, key=lambda s: -key_value(s))
    )
    return Plot(
        NAME,
        CONTENTS,
        _title(report, placed),
        _scale_note(report),
        f"{report.unit} against peak memory of {counted(len(placed), 'setting')}.",
        (
            *("setting", "role", "outcome", "runs", report.unit, "vs chosen"),
            *("peak GiB", "frontier"),
        ),
        rows,
        lambda colours: _draw(report, placed, colours),
    )


def _title(report: StudyReport, placed: list[Setting]) -> str:
    chosen = report.setting(report.chosen)
    if chosen is None or chosen not in placed:
        return (
            f"Throughput against memory of {counted(len(report.settings), 'setting')}"
        )
    free = [s for s in placed if s.is_eligible]
    value = key_value(chosen)
    is_best = all(key_value(s) <= value for s in free)
    rank = "the best of" if is_best else "chosen from"
    among = f", {rank} {counted(len(free), 'setting')} that may be chosen"
    rate = f"{show_value(value, report.objective)} {report.unit}"
    return (
        f"{report.short_label(chosen)}: {rate} in "
        f"{gib(chosen.peak_gib)} GiB{among if len(free) > 1 else ''}"
    )


def _scale_note(report: StudyReport) -> str:
    """Return which figures are scaled, and why."""
    if not any(setting.is_scaled for setting in report.settings):
        return ""
    return (
        "Settings that were not measured again beside the chosen one are scaled down "
        "by how much slower that became; the table of trials has what each measured."
    )


def _draw(report: StudyReport, placed: list[Setting], colours: Colours) -> Figure:
    figure, (axes,) = new_figure(height=5.0)
    _draw_frontier(axes, placed, colours)
    _draw_settings(axes, report, placed, colours)
    axes.margins(x=0.12, y=0.18)
    _draw_marked(axes, report, placed, colours)
    _draw_capacity(axes, report, colours)
    _draw_out_of_memory(axes, report, colours)
    of = "of the process" if report.is_rehearsal else "allocated on one GPU"
    axes.set_xlabel(f"peak memory {of} [GiB]")
    over = "" if report.is_rehearsal else " over all GPUs"
    axes.set_ylabel(f"{report.unit}{over}")
    axes.yaxis.set_major_formatter(number_format(axes.get_ylim()[1]))
    shared_legend(figure, [axes])
    return figure


def _draw_frontier(axes: Axes, placed: list[Setting], colours: Colours) -> None:
    front = sorted((s for s in placed if s.on_frontier), key=lambda s: s.peak_gib)
    if len(front) > 1:
        axes.plot(
            [s.peak_gib for s in front],
            [key_value(s) for s in front],
            drawstyle="steps-post",
            color=colours.muted,
            linewidth=1.2,
            linestyle=(0, (4, 2)),
            label="frontier: no other is faster in less memory",
            zorder=1.5,
        )


def _draw_settings(
    axes: Axes, report: StudyReport, placed: list[Setting], colours: Colours
) -> None:
    """Draw a marker for each setting, hollow if it may not be chosen though it ran."""
    kinds: dict[tuple[bool, str], list[Setting]] = {}
    for setting in sorted(placed, key=lambda s: bool(why_not(s))):
        kind = bool(why_not(setting)), report.precision(setting)
        kinds.setdefault(kind, []).append(setting)
    for (hollow, precision), own in kinds.items():
        look = colours.of_precision(precision)
        if hollow:
            look["label"] += ", may not be chosen"
        look |= {
            "linestyle": "none",
            "fillstyle": "none" if hollow else "full",
            "alpha": 0.75,
            "markersize": 6,
            "zorder": 2.8,
        }
        axes.plot([s.peak_gib for s in own], list(map(key_value, own)), **look)


def _draw_marked(
    axes: Axes, report: StudyReport, placed: list[Setting], colours: Colours
) -> None:
    """Draw larger markers, with name and interval, for settings with a role."""
    for setting in placed:
        if not setting.roles or not setting.value:
            continue
        value, low, high = setting.value
        look = colours.of_precision(report.precision(setting))
        if low is not None and high is not None:
            axes.errorbar(
                setting.peak_gib,
                value,
                [[value - low], [high - value]],
                color=look["color"],
                capsize=3,
                linewidth=1.2,
            )
        axes.plot(
            setting.peak_gib,
            value,
            MARKERS[setting.roles[0]],
            linestyle="none",
            markersize=17 if "chosen" in setting.roles else 10,
            color=look["color"],
            fillstyle="none" if why_not(setting) else "full",
            markeredgecolor=colours.ink,
            markeredgewidth=1.1,
            label=f"{role_names(setting)}: {report.short_label(setting)}",
            zorder=3,
        )


def _draw_capacity(axes: Axes, report: StudyReport, colours: Colours) -> None:
    """Draw the GPU's memory limit if settings come near it."""
    high, capacity = axes.get_xlim()[1], report.capacity_gib
    if capacity and capacity < 1.5 * high:
        name = f"all memory of the GPU, {capacity:.1f} GiB"
        axes.axvline(capacity, color=colours.bad, lw=1.2, label=name)
        axes.set_xlim(right=max(high, capacity * 1.04))


def _draw_out_of_memory(axes: Axes, report: StudyReport, colours: Colours) -> None:
    """Mark the settings that ran out of memory at the right edge."""
    low, high = axes.get_xlim()
    count = sum(setting.outcome == "oom" for setting in report.settings)
    if count:
        edge = high - 0.015 * (high - low)
        mark_failed(
            axes, [edge], colours, f"out of memory: {counted(count, 'setting')}"
        )
