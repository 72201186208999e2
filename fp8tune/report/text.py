"""Format text and numbers of a report; text from outside is made harmless here."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from fp8tune.search.answer.answer import Estimate
from fp8tune.search.objective import show_value


def capital(text: str) -> str:
    """Return a text with a capital first letter, except ``bf16``."""
    return text if text.startswith("bf16") else f"{text[:1].upper()}{text[1:]}"


def number(value: float) -> str:
    """Return a measured value with three digits, or all digits of a large one."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def interval(measured: Estimate | None, objective: str) -> str:
    """Return a value with its 95 % interval if it has one: ``150 (149 to 151)``."""
    if measured is None:
        return "not measured"
    value, low, high = (end and show_value(end, objective) for end in measured)
    return f"{value} ({low} to {high})" if low and high else str(value)


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
