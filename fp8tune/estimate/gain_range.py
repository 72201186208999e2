"""FP8's gain where settings are unknown: its range over what they may be."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

from fp8tune.job import Job, Unknown

POSSIBLE: dict[str, tuple[Any, ...]] = {
    "micro_batch": (1, 2, 4, 8),
    "seq_len": (2048, 8192, 32768),
    "ac": ("none", "full"),
    "tp": (1, 2, 4, 8),
    "cp": (1, 2),
    "grad_accum": (1, 8, 64),
}
"""What a setting may be, by field, where the config does not say it."""


class GainRange(NamedTuple):
    """The ends of all bands [ratio], what is open, and the key that narrows them most.

    ``left`` is how wide the range is on average once that key is known.
    """

    low: float
    high: float
    open: dict[str, tuple[Any, ...]]
    narrows: str
    left: float


def gain_range(job: Job) -> GainRange | None:
    """Return the range of FP8's gain over unknown settings; ``None`` if it is known.

    Also if something else than a setting of ``POSSIBLE`` is unknown.
    """
    fields = _open(job)
    if not fields:
        return None
    bands: dict[tuple[Any, ...], tuple[float, float]] = {}
    for values in product(*(POSSIBLE[field] for field in fields)):
        changed = job.with_values(dict(zip(fields, values, strict=True)))
        low, high = (changed.find(f"speed.fp8_gain_{end}") for end in ("low", "high"))
        if low is not None and high is not None:
            bands[values] = low, high
    if not bands:
        return None
    widths = {field: _left(bands, at) for at, field in enumerate(fields)}
    narrows = min(widths, key=lambda field: widths[field])
    low, high = _ends(bands.values())
    possible = {job.key(field): POSSIBLE[field] for field in fields}
    return GainRange(low, high, possible, job.key(narrows), widths[narrows])


def _open(job: Job) -> list[str]:
    """Return the unknown settings that the gain needs; none if it needs others too."""
    fields: list[str] = []
    while True:
        try:
            _ = job["speed.fp8_gain"]
        except Unknown as error:
            field = _field(job, str(error.args[0]))
            if not field or field in fields:
                return []
            fields.append(field)
            job = job.with_values({field: POSSIBLE[field][0]})
        else:
            return fields


def _field(job: Job, name: str) -> str:
    """Return the setting that is unknown by its own name or by its key's."""
    names = {field: (field, f"{field}.unsaid", job.key(field)) for field in POSSIBLE}
    return next((field for field, mine in names.items() if name in mine), "")


def _left(bands: dict[tuple[Any, ...], tuple[float, float]], at: int) -> float:
    """Return the mean width of the range once the setting at an index is known."""
    widths = []
    for value in {values[at] for values in bands}:
        low, high = _ends(band for values, band in bands.items() if values[at] == value)
        widths.append(high - low)
    return sum(widths) / len(widths)


def _ends(bands: Any) -> tuple[float, float]:
    lows, highs = zip(*bands, strict=True)
    return min(lows), max(highs)


def gain_words(possible: GainRange) -> Iterator[str]:
    """Yield the range in words, and what would narrow it."""
    low, high, unknown, narrows, left = possible
    sets = [f"`{key}` {_listed(values)}" for key, values in unknown.items()]
    yield f"{low:.2f} to {high:.2f} times bf16 for {' and '.join(sets)}"
    if len(unknown) > 1:
        yield f"`{narrows}` would narrow it most, to a width of {left:.2f} on average"


def _listed(values: tuple[Any, ...]) -> str:
    *most, last = map(str, values)
    return f"{', '.join(most)} or {last}"
