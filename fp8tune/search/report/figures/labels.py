"""Labels beside points, where they cover neither a point nor each other."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
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
    legend = axes.get_legend()
    taken = [legend.get_window_extent()] if legend else []
    for x, y, text, weight in labels:
        own = _box(*axes.transData.transform((x, y)), made.dpi)
        others = [dot for dot in dots if not dot.overlaps(own)]
        best = None
        for offset in OFFSETS:
            note = axes.annotate(
                text,
                (x, y),
                offset[:2],
                textcoords="offset points",
                ha=offset[2],
                va=offset[3],
                fontweight=weight,
                color=style.colours.ink,
                zorder=5,
            )
            box = note.get_window_extent()
            clear = not any(box.overlaps(other) for other in (*taken, *others))
            if clear and _within(box, axes.get_window_extent()):
                best = box
                break
            note.remove()
        if best is None and weight == "bold":
            note = axes.annotate(text, (x, y), (9, 0), textcoords="offset points",
                                 va="center", fontweight=weight, zorder=5)
            best = note.get_window_extent()
        if best is not None:
            taken.append(best)


def _box(x: float, y: float, dpi: float) -> Bbox:
    half = 5 * dpi / 72
    return Bbox.from_bounds(x - half, y - half, 2 * half, 2 * half)


def _within(box: Bbox, frame: Bbox) -> bool:
    inside = frame.x0 <= box.x0 and box.x1 <= frame.x1
    return inside and frame.y0 <= box.y0 and box.y1 <= frame.y1
