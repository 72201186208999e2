"""Draw the learning rate and the precision of a run in phases over its steps."""

from __future__ import annotations

from fp8tune.phases.plan import PhasedRun

COLOURS = {"bf16": "#4c78a8", "fp8": "#f58518"}
POINTS = 1000
"""Most points that are drawn of one phase."""


def draw(plan: PhasedRun, path: str) -> None:
    """Draw each phase's own learning rate over the unbroken run's, as PNG or SVG."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 3.6), layout="constrained")
    whole = plan.learning_rate()
    steps = [*range(1, plan.total + 1, max(1, plan.total // POINTS))]
    label = "unbroken run"
    axes.plot(steps, [*map(whole, steps)], color="0.75", linewidth=5, label=label)
    for phase, rate in plan.rates():
        own = range(phase.start + 1, phase.end + 1)
        steps = [*own[:: max(1, len(own) // POINTS)], phase.end]
        colour = COLOURS[phase.precision]
        label = f"phase {phase.number}: {phase.precision}"
        axes.plot(steps, [*map(rate, steps)], color=colour, label=label)
        axes.axvspan(phase.start, phase.end, color=colour, alpha=0.12, linewidth=0)
    axes.set(xlabel="optimizer step", ylabel="learning rate", xlim=(0, plan.total))
    axes.set_ylim(bottom=0)
    axes.legend()
    figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)
    pyplot.close(figure)
