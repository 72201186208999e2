"""Labels beside points, where they cover neither a point nor each other."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

from fp8tune.search.report.figures.canvas import Style

OFFSETS = tuple(
    (x * far, y * far, ha, va)
    for far in (1.0, 1.8, 3.0, 4.6)
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

Label = tuple[float, float, str, str]
"""Place, text and weight of a label."""


def place(
    made: Canvas,
    axes: Axes,
    labels: Sequence[Label],
    points: Sequence[tuple[float, float]],
    style: Style,
) -> None:
    """Write each label at the first of the places that is free; leave out the rest.

    What is bold is never left out.
    """
    made.draw_without_rendering()
    dots = [_box(*axes.transData.transform(point), made.dpi) for point in points]
    taken: list[Bbox] = []
    for x, y, text, weight in labels:
        own = _box(*axes.transData.transform((x, y)), made.dpi)
        others = [dot for dot in dots if not dot.overlaps(own)]
        for offset in OFFSETS:
            note = _note(axes, (x, y, text, weight), offset, style)
            box = note.get_window_extent()
            clear = not any(box.overlaps(other) for other in (*taken, *others))
            if clear and _within(box, axes.get_window_extent()):
                taken.append(box)
                break
            note.remove()
        else:
            if weight == "bold":
                note = _note(axes, (x, y, text, weight), OFFSETS[0], style)
                taken.append(note.get_window_extent())


def _note(
    axes: Axes, label: Label, offset: tuple[float, float, str, str], style: Style
) -> Annotation:
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
        zorder=5,
    )
    note.set_in_layout(False)
    return note


def _box(x: float, y: float, dpi: float) -> Bbox:
    half = 5 * dpi / 72
    return Bbox.from_bounds(x - half, y - half, 2 * half, 2 * half)


def _within(box: Bbox, frame: Bbox) -> bool:
    inside = frame.x0 <= box.x0 and box.x1 <= frame.x1
    return inside and frame.y0 <= box.y0 and box.y1 <= frame.y1
