"""Loss and gradient norm of FP8 beside bf16, step by step."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from fp8tune.search.report.curves import Pair, pair
from fp8tune.search.report.data import Case
from fp8tune.search.report.figures.canvas import Absent, Figure, Style, canvas

NAME, TITLE = "loss", "Loss and gradient norm of FP8 and bf16"


def loss(case: Case) -> Figure | Absent:
    """The plot of a pair of trials, or why there is none."""
    found = pair(case)
    if found is None:
        why = "No setting told its losses in both FP8 and bf16."
        return Absent(NAME, TITLE, why)
    count = min(len(found.fp8), len(found.bf16))
    title = f"FP8's loss stays within {100 * found.gap:.2g} % of bf16's for {count} steps"
    about = (
        f"{found.label}, the same data and seed in both. So few steps can show that "
        f"FP8 goes wrong, not that it converges. FP8 goes from {found.fp8[0]:.3f} to "
        f"{found.fp8[-1]:.3f}, bf16 from {found.bf16[0]:.3f} to {found.bf16[-1]:.3f}."
    )
    longest = max(len(found.fp8), len(found.bf16))
    rows = tuple(
        (str(step), *(_at(s, step) for s in found[1:])) for step in range(longest)
    )
    head = ("step", "loss FP8", "loss bf16", "gradient norm FP8", "gradient norm bf16")
    return Figure(NAME, title, about, head, rows, lambda style: _draw(found, style))


def _at(series: tuple[float, ...], step: int) -> str:
    return f"{series[step]:.4g}" if step < len(series) else "-"


def _draw(found: Pair, style: Style) -> Canvas:
    norms = bool(found.fp8_norms and found.bf16_norms)
    made, panels = canvas(style, 1 + norms, height=3.4 if style.narrow else 4.0)
    _panel(panels[0], found.fp8, found.bf16, style)
    panels[0].set_title("loss")
    panels[0].set_ylabel("cross-entropy [nats per token]")
    if norms:
        _panel(panels[1], found.fp8_norms, found.bf16_norms, style)
        panels[1].set_title("gradient norm")
        panels[1].set_ylabel("norm before clipping")
    return made


def _panel(
    axes: Axes, fp8: tuple[float, ...], bf16: tuple[float, ...], style: Style
) -> None:
    axes.plot(bf16, "s-", color=style.colours.bf16, linewidth=1.6, markersize=5,
              label="bf16")
    axes.plot(fp8, "o--", color=style.colours.fp8, linewidth=1.6, markersize=5,
              markerfacecolor="none", markeredgewidth=1.5, label="FP8")
    axes.set_xlabel("optimizer step")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False)
