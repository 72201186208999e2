"""Throughput against memory, with the frontier."""

from __future__ import annotations

import textwrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import StrMethodFormatter

from fp8tune.search.report.data import Case, Setting
from fp8tune.search.report.figures.canvas import (
    Absent,
    Figure,
    Style,
    canvas,
    mark_lost,
    shared_legend,
)
from fp8tune.search.report.figures.labels import place
from fp8tune.search.report.words import gib, interval, listed, plural, rate

NAME, TITLE = "memory", "Throughput against memory"
HEAD = (
    *("setting", "marked", "outcome", "runs"),
    *("tokens/s", "tokens/s, measured again", "peak GiB", "frontier"),
)
MARKS = {"fp8": "o", "bf16": "s"}
MOST_LABELS = 6
MOST_NAMED = 3


def memory(case: Case) -> Figure | Absent:
    """The plot of all settings, or why there is none."""
    if not _placed(case):
        return Absent(NAME, TITLE, "No trial told both its speed and its memory.")
    ordered = sorted(case.settings, key=_speed, reverse=True)
    rows = tuple(
        (
            s.label,
            s.marked,
            _outcome(s),
            str(s.runs),
            interval(s.before),
            interval(s.again) if s.again else "-",
            gib(s.peak_gib),
            "yes" if s.front else "",
        )
        for s in ordered
    )
    return Figure(
        NAME,
        _title(case),
        _about(case),
        HEAD,
        rows,
        lambda style: _draw(case, style),
        " ".join(filter(None, (case.timing, _hollow(case)))),
    )


def _outcome(setting: Setting) -> str:
    why = f", may not be chosen: {setting.unfit}" if setting.unfit else ""
    return f"{setting.outcome}{why}"


def _hollow(case: Case) -> str:
    """Which settings in the plot are not sound, and why; ``""`` if none is."""
    found = [s for s in _placed(case) if s.unfit]
    found.sort(key=_speed, reverse=True)
    named = [f"{s.label} ({s.unfit})" for s in found[:MOST_NAMED]]
    rest = len(found) - len(named)
    named += [f"{rest} more that the table names"] if rest else []
    return f"Hollow, as they may not be chosen: {listed(named)}." if found else ""


def _placed(case: Case) -> list[Setting]:
    return [s for s in case.settings if s.before and s.peak_gib]


def _speed(setting: Setting) -> float:
    """Tokens/s of the search; 0 where it has none."""
    return setting.before.value if setting.before else 0.0


def _title(case: Case) -> str:
    chosen, placed = case.of_role("chosen"), _placed(case)
    if chosen not in placed or chosen is None:
        return f"{TITLE} of {plural(len(case.settings), 'setting')}"
    free = [s for s in case.settings if s == chosen or (s.free and s in placed)]
    best = max(free, key=_speed, default=chosen)
    said = (
        "the fastest of {} that may be chosen" if best == chosen else "chosen from {}"
    )
    said += ", by the confirmation" * bool(best != chosen and chosen.again)
    among = f", {said.format(plural(len(free), 'setting'))}" if len(free) > 1 else ""
    speed = f"{rate(_speed(chosen))} tokens/s"
    return (
        f"{chosen.short}: {speed} in {gib(chosen.peak_gib)} GiB{among}"
        f"{_faster(chosen, placed)}"
    )


def _faster(chosen: Setting, placed: list[Setting]) -> str:
    """That a setting which may not be chosen is faster."""
    faster = [s for s in placed if not s.free and _speed(s) > _speed(chosen)]
    kinds = {"" if s.unfit else s.precision for s in faster}
    one = "bf16" if kinds == {"bf16"} else "one that may not be chosen"
    return f"; {one} is faster" if faster else ""


def _about(case: Case) -> str:
    front = sorted((s for s in case.settings if s.front), key=lambda s: s.peak_gib)
    steps = "; ".join(
        f"{s.label}: {gib(s.peak_gib)} GiB, {rate(_speed(s))} tokens/s" for s in front
    )
    lost = sum(s.outcome == "oom" for s in case.settings)
    return (
        f"Tokens per second against peak memory. On the frontier, from small to large: "
        f"{steps}. {plural(lost, 'setting')} ran out of memory."
    )


def _draw(case: Case, style: Style) -> Canvas:
    made, (axes,) = canvas(style, height=5.2 if style.narrow else 5.0)
    placed = _placed(case)
    _frontier(axes, placed, style)
    kinds: dict[tuple[bool, str], list[Setting]] = {}
    for setting in sorted(placed, key=lambda setting: bool(setting.unfit)):
        kinds.setdefault((bool(setting.unfit), setting.precision), []).append(setting)
    for (hollow, precision), own in kinds.items():
        name = {"fp8": "FP8"}.get(precision, precision or "measured")
        axes.plot(
            [s.peak_gib for s in own],
            [_speed(s) for s in own],
            MARKS.get(precision, "o"),
            color=style.precision(precision),
            fillstyle="none" if hollow else "full",
            alpha=0.75,
            markersize=6,
            zorder=2.8,
            label=f"{name}, may not be chosen" if hollow else name,
        )
    axes.margins(x=0.12, y=0.18)
    _marks(axes, placed, style)
    _capacity(axes, case, style)
    _lost(axes, case, style)
    axes.set_xlabel(
        "peak memory allocated on one GPU [GiB]"
        if not case.rehearsal
        else "peak memory of the process [GiB]"
    )
    axes.set_ylabel("tokens/s over all GPUs" if not case.rehearsal else "tokens/s")
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    shared_legend(made, [axes], style)
    _labels(made, axes, placed, style)
    return made


def _frontier(axes: Axes, placed: list[Setting], style: Style) -> None:
    front = sorted((s for s in placed if s.front), key=lambda s: s.peak_gib)
    if len(front) > 1:
        axes.plot(
            [s.peak_gib for s in front],
            [_speed(s) for s in front],
            drawstyle="steps-post",
            color=style.colours.muted,
            linewidth=1.2,
            linestyle=(0, (4, 2)),
            label="frontier: no setting is faster in less",
            zorder=1.5,
        )


def _marks(axes: Axes, placed: list[Setting], style: Style) -> None:
    """Rings around the marked settings, and their intervals."""
    for setting in placed:
        if setting.roles and setting.before:
            speed = setting.before
            axes.errorbar(
                setting.peak_gib,
                speed.value,
                [[speed.value - speed.low], [speed.high - speed.value]],
                color=style.precision(setting.precision),
                capsize=3,
                linewidth=1.2,
            )
            big = "chosen" in setting.roles
            axes.plot(
                setting.peak_gib,
                speed.value,
                "*" if big else MARKS.get(setting.precision, "o"),
                markersize=17 if big else 10,
                color=style.precision(setting.precision),
                fillstyle="none" if setting.unfit else "full",
                markeredgecolor=style.colours.ink,
                markeredgewidth=1.1,
                zorder=3,
            )


def _capacity(axes: Axes, case: Case, style: Style) -> None:
    """The end of the GPU's memory, where that is near enough to be shown."""
    high = axes.get_xlim()[1]
    if case.capacity_gib and case.capacity_gib < 1.5 * high:
        name = f"all memory of the GPU, {case.capacity_gib:.1f} GiB"
        axes.axvline(case.capacity_gib, color=style.colours.bad, lw=1.2, label=name)
        axes.set_xlim(right=max(high, case.capacity_gib * 1.04))


def _lost(axes: Axes, case: Case, style: Style) -> None:
    """What ran out of memory, at its predicted place, else at the right edge."""
    lost = [s for s in case.settings if s.outcome == "oom"]
    if not lost:
        return
    low, high = axes.get_xlim()
    edge = high - 0.015 * (high - low)
    known = {s.point: case.capacity_gib or edge for s in lost}
    places = [min(edge, s.place_gib or known[s.point]) for s in lost]
    mark_lost(axes, places, style, "out of memory, at the predicted peak")


def _labels(made: Canvas, axes: Axes, placed: list[Setting], style: Style) -> None:
    """Names of the marked settings, and of the frontier where there is room."""
    marked = [s for s in placed if s.roles]
    marked.sort(key=lambda setting: "chosen" not in setting.roles)
    front = [s for s in placed if s.front and not s.roles]
    texts = [(s, _marked(s, style), "bold") for s in marked]
    if len(front) <= MOST_LABELS and not style.narrow:
        texts += [(s, s.short, "normal") for s in front]
    labels = [(s.peak_gib, _speed(s), text, weight) for s, text, weight in texts]
    points = [(s.peak_gib, _speed(s)) for s in placed]
    place(made, axes, labels, points, style)


def _marked(setting: Setting, style: Style) -> str:
    role = setting.marked
    if style.narrow:
        return role
    return f"{role}:\n{textwrap.fill(setting.short, 30)}"
