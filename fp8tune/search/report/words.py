"""Foreign text made harmless, and numbers as people read them."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import Any

from fp8tune.lint.wording import plain
from fp8tune.search.statistics import Speed
from fp8tune.trials.space import Knob, Point, shown

_LONE = re.compile("[\ud800-\udfff\ufffe\uffff]")
"""What no file in UTF-8 or XML can hold."""


def clean(text: str, most: int = 300) -> str:
    """One line of bounded length without control and direction characters."""
    short = text if len(text) <= most else f"{text[: most - 4]} ..."
    return _LONE.sub(lambda match: f"\\u{ord(match[0]):04x}", plain(short))


def rate(value: float) -> str:
    """Tokens/s with the digits that mean something."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def interval(speed: Speed | None) -> str:
    """Tokens/s with its 95 % interval."""
    if speed is None:
        return "not measured"
    return f"{rate(speed.value)} ({rate(speed.low)} to {rate(speed.high)})"


def percent(ratio: float) -> str:
    """A ratio as a change: ``+12.3 %``."""
    return f"{100 * (ratio - 1):+,.1f} %"


def gib(value: float) -> str:
    """Memory, or a dash where it is not known."""
    return "-" if not value else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def duration_ms(value: float) -> str:
    """A time in the unit that fits: ``31 s``, ``412 ms``, ``1.3 ms``."""
    if value >= 1e4:
        return f"{value / 1e3:,.0f} s"
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.3g} ms"


def plural(count: int, word: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{count:,} {word}{'s' * (count != 1)}"


def listed(parts: list[str]) -> str:
    """``a, b and c``."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if parts[1:] else parts)


def label(
    knobs: Sequence[Knob], point: Point, keys: Container[str] | None = None
) -> str:
    """A setting in a few words: ``batch 4, AC full, compiled, FP8``.

    ``keys`` are the knobs to name, if not all.
    """
    return ", ".join(
        worded(knob, knob.values[index])
        for knob, index in zip(knobs, point, strict=True)
        if keys is None or knob.key in keys
    )


def worded(knob: Knob, value: Any) -> str:
    """One value of a knob in a word or two."""
    if knob.role == "compile" and isinstance(value, bool):
        return "compiled" if value else "eager"
    if knob.role == "precision":
        return {"fp8": "FP8"}.get(str(value), clean(str(value), 24))
    if isinstance(value, str) and not knob.role:
        return clean(value, 24)
    named = {"micro_batch": "batch", "ac": "AC"}.get(knob.role)
    name = named or clean(knob.key.rpartition(".")[2], 24)
    return f"{name} {clean(shown(value), 24)}"
