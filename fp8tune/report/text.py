"""Format text and numbers of a report; text from outside is made harmless here."""

from __future__ import annotations

import re
import statistics
from collections.abc import Container, Iterable, Sequence
from typing import Any

from fp8tune.lint.wording import plain
from fp8tune.search.outcome import Estimate
from fp8tune.trials.space import Knob, Point, shown

_NO_UTF8 = re.compile("[\ud800-\udfff\ufffe\uffff]")
"""What no file in UTF-8 or XML can hold."""


def clean(text: str, most: int = 300) -> str:
    """Return one line of bounded length without control and direction characters."""
    short = text if len(text) <= most else f"{text[: most - 4]} ..."
    return _NO_UTF8.sub(lambda match: f"\\u{ord(match[0]):04x}", plain(short))


def capital(text: str) -> str:
    """Return a text with a capital first letter, except ``bf16``."""
    return text if text.startswith("bf16") else f"{text[:1].upper()}{text[1:]}"


def number(value: float) -> str:
    """Return a measured value with three digits, or all digits of a large one."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def interval(measured: Estimate | None) -> str:
    """Return a value with its 95 % interval if it has one: ``150 (149 to 151)``."""
    if measured is None:
        return "not measured"
    value, low, high = measured
    if low is None or high is None:
        return number(value)
    return f"{number(value)} ({number(low)} to {number(high)})"


def gib(value: float) -> str:
    """Return a memory size [GiB], or a dash if it is unknown."""
    return "-" if not value else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def duration_ms(value: float) -> str:
    """Return a time [ms] in the unit that fits: ``31 s``, ``412 ms``, ``1.3 ms``."""
    if value >= 1e4:
        return f"{value / 1e3:,.0f} s"
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.3g} ms"


def listed(parts: Sequence[str]) -> str:
    """Return ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def median(values: Iterable[float]) -> float:
    """Return the median, 0 if there are no values."""
    return statistics.median([*values] or [0.0])


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
