"""Labels beside points, where they cover neither a point nor each other."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox

from fp8tune.search.report.figures.canvas import Style, lay_out

OFFSETS = tuple(
    (x * far, y * far, ha, va)
    for far in (1.0, 1.8, 3.0, 4.6, 7.0, 10.0)
    for x, y, ha, va in (
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
"""Where a label may stand [points], the best places first."""

UNREADABLE, MARKED = 100.0, 20
"""The cost of what cannot be read, and of covering a point that has a name of its own,
where other points cost 1."""

Offset = tuple[float, float, str, str]
Label = tuple[float, float, str, str]
"""Place, text and weight of a label."""


def place(
    made: Canvas,
    axes: Axes,
    labels: Sequence[Label],
    points: Sequence[tuple[float, float]],
    style: Style,
) -> None:
    """Write each label at its best place; what is not bold only where that is free."""
    lay_out(made)
    dots = [_box(axes, point, made.dpi) for point in points]
    taken: list[Bbox] = []
    marked = {label[:2] for label in labels if label[3] == "bold"}
    for label in labels:
        pairs = zip(points, dots, strict=True)
        others = [
            dot
            for point, dot in pairs
            if point != label[:2]
            for _ in range(MARKED if point in marked else 1)
        ]
        boxes = _boxes(axes, label, style, made.dpi)
        costs = [
            _cost(box, axes, taken, others) + n / 100 for n, box in enumerate(boxes)
        ]
        best = costs.index(min(costs))
        if label[3] == "bold" or costs[best] < 1:
            _note(axes, label, OFFSETS[best], style)
            taken.append(boxes[best])


def _cost(box: Bbox, axes: Axes, taken: Sequence[Bbox], dots: Sequence[Bbox]) -> float:
    """How bad a place is: on a label or out of the plot is worse than on any point."""
    outside = not _within(box, axes.get_window_extent())
    labels = sum(box.overlaps(other) for other in taken)
    points = sum(box.overlaps(dot) for dot in dots)
    return UNREADABLE * (outside + labels) + min(points, UNREADABLE - 1)


def _boxes(axes: Axes, label: Label, style: Style, dpi: float) -> list[Bbox]:
    """The room that a label takes at each of the places."""
    note = _note(axes, label, OFFSETS[0], style)
    size = Text.get_window_extent(note)  # an annotation's own counts its line
    note.remove()
    x, y = axes.transData.transform(label[:2])
    left = {"left": 0.0, "center": 0.5, "right": 1.0}
    below = {"bottom": 0.0, "center": 0.5, "top": 1.0}
    return [
        Bbox.from_bounds(
            x + dx * dpi / 72 - left[across] * size.width,
            y + dy * dpi / 72 - below[up] * size.height,
            size.width,
            size.height,
        )
        for dx, dy, across, up in OFFSETS
    ]


def _note(axes: Axes, label: Label, offset: Offset, style: Style) -> Annotation:
    x, y, text, weight = label
    note = axes.annotate(
        text,
        (x, y),
        offset[:2],
        textcoords="offset points",
        ha=offset[2],
        va=offset[3],
        fontweight=weight,
        color=style.colours.ink,
        bbox={"facecolor": style.colours.paper, "alpha": 0.75, "lw": 0, "pad": 1.0},
        arrowprops={"arrowstyle": "-", "color": style.colours.muted, "lw": 0.8},
        zorder=2.6,
    )
    note.set_in_layout(False)
    return note


def _box(axes: Axes, point: tuple[float, float], dpi: float) -> Bbox:
    """The room that a point takes."""
    x, y = axes.transData.transform(point)
    half = 6 * dpi / 72
    return Bbox.from_bounds(x - half, y - half, 2 * half, 2 * half)


def _within(box: Bbox, frame: Bbox) -> bool:
    across = frame.x0 <= box.x0 and box.x1 <= frame.x1
    return bool(across and frame.y0 <= box.y0 and box.y1 <= frame.y1)
