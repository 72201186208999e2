"""Settings in a few words, by their knobs."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from fp8tune.search.answer.answer import changes
from fp8tune.search.plan import Plan
from fp8tune.trials.space import Knob, Point, shown
from fp8tune.words import clean


def setting(differing: Mapping[str, Any]) -> str:
    """Return a setting by the knobs in which it differs from the baseline."""
    pairs = differing.items()
    parts = (f"{key.rpartition('.')[2]} = {shown(value)}" for key, value in pairs)
    return ", ".join(parts) or "your config"


def describe(plan: Plan, point: Point) -> str:
    """Return a setting by the knobs in which it differs from the baseline."""
    return setting(changes(plan.space, plan.baseline, point))


def setting_label(
    knobs: Sequence[Knob], point: Point, keys: Container[str] | None = None
) -> str:
    """Return a setting in a few words: ``batch 4, AC full, compiled, FP8``.

    ``keys`` are the knobs to name; by default all.
    """
    return ", ".join(
        value_label(knob, knob.values[index])
        for knob, index in zip(knobs, point, strict=True)
        if keys is None or knob.key in keys
    )


def short_label(plan: Plan, point: Point) -> str:
    """Return the label of the knobs in which a setting differs from the baseline."""
    differing = changes(plan.space, plan.baseline, point)
    return setting_label(plan.space.knobs, point, differing) or "your config"


def value_label(knob: Knob, value: Any) -> str:
    """Return one value of a knob in a word or two."""
    if knob.role == "compile" and isinstance(value, bool):
        return "compiled" if value else "eager"
    if knob.role == "precision":
        return precision_label(clean(str(value), 24))
    if isinstance(value, str) and not knob.role:
        return clean(value, 24)
    name = knob.traits.label or clean(knob.key.rpartition(".")[2], 24)
    return f"{name} {clean(shown(value), 24)}"


def precision_label(precision: str) -> str:
    """Return the name of a precision as people write it."""
    return "FP8" if precision == "fp8" else precision
