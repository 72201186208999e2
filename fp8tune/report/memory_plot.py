"""Plot the objective against memory, with the frontier."""

from __future__ import annotations

import textwrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

from fp8tune.report.data import Report, Setting
from fp8tune.report.plots import (
    Plot,
    Style,
    mark_failed,
    new_figure,
    number_format,
    settle,
    shared_legend,
)
from fp8tune.report.text import gib, interval, number, plural

NAME, CONTENTS = "memory", "Memory and speed"
MAX_LABELS = 6
"""Settings of the frontier that have a label."""
ROOM = 4.0
"""Room around a label [pixels]."""


def memory_plot(report: Report) -> Plot:
    """Return the plot of all settings whose value and memory are known."""
    placed = [s for s in report.settings if s.value and s.peak_gib]
    if not placed:
        why = "No trial reported both its speed and its memory."
        return Plot(NAME, CONTENTS, "Throughput against memory", why)
    rows = tuple(
        (
            s.label,
            s.role_names,
            f"{s.outcome}, may not be chosen: {s.why_not}" if s.why_not else s.outcome,
            str(s.runs),
            interval(s.value),
            gib(s.peak_gib),
            "yes" if s.on_frontier else "",
        )
        for s in sorted(report.settings, key=lambda s: -s.key_value)
    )
    return Plot(
        NAME,
        CONTENTS,
        _title(report, placed),
        _scale_note(report),
        f"{report.unit} against peak memory of {plural(len(placed), 'setting')}.",
        ("setting", "role", "outcome", "runs", report.unit, "peak GiB", "frontier"),
        rows,
        lambda style: _draw(report, placed, style),
    )


def _title(report: Report, placed: list[Setting]) -> str:
    chosen = report.with_role("chosen")
    if chosen is None or chosen not in placed:
        return f"Throughput against memory of {plural(len(report.settings), 'setting')}"
    free = [s for s in placed if s.may_be_chosen]
    is_best = all(s.key_value <= chosen.key_value for s in free)
    rank = "the best of" if is_best else "chosen from"
    among = f", {rank} {plural(len(free), 'setting')} that may be chosen"
    return (
        f"{chosen.short_label}: {number(chosen.key_value)} {report.unit} in "
        f"{gib(chosen.peak_gib)} GiB{among if len(free) > 1 else ''}"
    )


def _scale_note(report: Report) -> str:
    """Return how the settings compare if some were only measured before others."""
    repeated = [own.confirmed for own in report.history_in_objective.settings.values()]
    if report.is_rehearsal or not any(repeated) or all(repeated):
        return ""
    return (
        "Settings that were not measured again in the confirmation are scaled by how "
        "the chosen one changed since; the table of trials has what each one measured."
    )


def _draw(report: Report, placed: list[Setting], style: Style) -> Figure:
    figure, (axes,) = new_figure(style, height=5.2 if style.narrow else 5.0)
    _draw_frontier(axes, placed, style)
    _draw_settings(axes, placed, style)
    axes.margins(x=0.12, y=0.18)
    _draw_roles(axes, placed, style)
    _draw_capacity(axes, report, style)
    _draw_out_of_memory(axes, report, style)
    of = "of the process" if report.is_rehearsal else "allocated on one GPU"
    axes.set_xlabel(f"peak memory {of} [GiB]")
    over = "" if report.is_rehearsal else " over all GPUs"
    axes.set_ylabel(f"{report.unit}{over}")
    axes.yaxis.set_major_formatter(number_format(axes.get_ylim()[1]))
    shared_legend(figure, [axes], style)
    _draw_labels(figure, axes, placed, style)
    return figure


def _draw_frontier(axes: Axes, placed: list[Setting], style: Style) -> None:
    front = sorted((s for s in placed if s.on_frontier), key=lambda s: s.peak_gib)
    if len(front) > 1:
        axes.plot(
            [s.peak_gib for s in front],
            [s.key_value for s in front],
            drawstyle="steps-post",
            color=style.colours.muted,
            linewidth=1.2,
            linestyle=(0, (4, 2)),
            label="frontier: no setting is faster in less",
            zorder=1.5,
        )


def _draw_settings(axes: Axes, placed: list[Setting], style: Style) -> None:
    """Draw a marker for each setting, hollow if it may not be chosen though it ran."""
    kinds: dict[tuple[bool, str], list[Setting]] = {}
    for setting in sorted(placed, key=lambda s: bool(s.why_not)):
        kinds.setdefault((bool(setting.why_not), setting.precision), []).append(setting)
    for (hollow, precision), own in kinds.items():
        look = style.of_precision(precision)
        if hollow:
            look["label"] += ", may not be chosen"
        axes.plot(
            [s.peak_gib for s in own],
            [s.key_value for s in own],
            linestyle="none",
            fillstyle="none" if hollow else "full",
            alpha=0.75,
            markersize=6,
            zorder=2.8,
            **look,
        )


def _draw_roles(axes: Axes, placed: list[Setting], style: Style) -> None:
    """Draw the settings that have a role larger, with their intervals."""
    for setting in placed:
        if not setting.roles or not setting.value:
            continue
        value, low, high = setting.value
        look = style.of_precision(setting.precision)
        is_chosen = "chosen" in setting.roles
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
            "*" if is_chosen else look["marker"],
            markersize=17 if is_chosen else 10,
            color=look["color"],
            fillstyle="none" if setting.why_not else "full",
            markeredgecolor=style.colours.ink,
            markeredgewidth=1.1,
            zorder=3,
        )


def _draw_capacity(axes: Axes, report: Report, style: Style) -> None:
    """Draw the end of the GPU's memory if the settings come near it."""
    high, capacity = axes.get_xlim()[1], report.capacity_gib
    if capacity and capacity < 1.5 * high:
        name = f"all memory of the GPU, {capacity:.1f} GiB"
        axes.axvline(capacity, color=style.colours.bad, lw=1.2, label=name)
        axes.set_xlim(right=max(high, capacity * 1.04))


def _draw_out_of_memory(axes: Axes, report: Report, style: Style) -> None:
    """Mark what ran out of memory at its predicted peak, else at the right edge."""
    low, high = axes.get_xlim()
    edge = high - 0.015 * (high - low)
    places = [
        min(edge, s.peak_gib or s.expected.peak_gib or report.capacity_gib or edge)
        for s in report.settings
        if s.outcome == "oom"
    ]
    if places:
        mark_failed(axes, places, style, "out of memory, at the predicted peak")


_OFFSETS = tuple(
    (x * far, y * far, across, up)
    for far in (1.0, 1.8, 3.0, 4.6, 7.0, 10.0)
    for x, y, across, up in (
        (9, 0, "left", "center"),
        (-9, 0, "right", "center"),
        (0, 10, "center", "bottom"),
        (0, -10, "center", "top"),
        (8, 9, "left", "bottom"),
        (8, -9, "left", "top"),
        (-8, 9, "right", "bottom"),
        (-8, -9, "right", "top"),
    )
)
"""Where a label may stand beside its point [points], the best places first."""


def _draw_labels(
    figure: Figure, axes: Axes, placed: list[Setting], style: Style
) -> None:
    """Write the roles, and the settings of the frontier where there is room."""
    settle(figure)
    with_role = [s for s in placed if s.roles]
    with_role.sort(key=lambda s: "chosen" not in s.roles)
    front = [s for s in placed if s.on_frontier and not s.roles]
    if len(front) > MAX_LABELS or style.narrow:
        front = []
    half, taken = 6 * figure.dpi / 72, list[Bbox]()
    dots = []
    for setting in placed:
        x, y = axes.transData.transform((setting.peak_gib, setting.key_value))
        dots.append(Bbox.from_extents(x - half, y - half, x + half, y + half))
    for setting in (*with_role, *front):
        costs: list[tuple[int, int, Bbox]] = []
        for offset in _OFFSETS if setting.roles else _OFFSETS[:8]:
            note = _annotate(axes, setting, offset, style)
            box = note.get_window_extent().padded(ROOM)  # browsers have other fonts
            costs.append((_cost(box, axes, taken, dots), len(costs), box))
            note.remove()
        cost, best, box = min(costs, key=lambda each: each[:2])
        if setting.roles or cost == 0:
            note = _annotate(axes, setting, _OFFSETS[best], style, is_final=True)
            note.set_in_layout(False)
            taken.append(box)


def _cost(box: Bbox, axes: Axes, taken: list[Bbox], dots: list[Bbox]) -> int:
    """Return how bad a place is: outside and on a label is worse than on points."""
    frame = axes.get_window_extent()
    inside = frame.contains(box.x0, box.y0) and frame.contains(box.x1, box.y1)
    unreadable = (not inside) + box.count_overlaps(taken)
    return 100 * unreadable + min(99, box.count_overlaps(dots))


def _annotate(
    axes: Axes,
    setting: Setting,
    offset: tuple[float, float, str, str],
    style: Style,
    *,
    is_final: bool = False,
) -> Annotation:
    """Write a setting's label; a line to its point if the place is final."""
    role = f"{setting.role_names}:\n{textwrap.fill(setting.short_label, 30)}"
    return axes.annotate(
        setting.role_names if style.narrow else role if setting.roles else role[2:],
        (setting.peak_gib, setting.key_value),
        offset[:2],
        textcoords="offset points",
        ha=offset[2],
        va=offset[3],
        fontweight="bold" if setting.roles else "normal",
        color=style.colours.ink,
        bbox={"facecolor": style.colours.paper, "alpha": 0.75, "lw": 0, "pad": 1.0},
        arrowprops={"arrowstyle": "-", "color": style.colours.muted, "lw": 0.8}
        if is_final
        else None,
        zorder=2.6,
    )
