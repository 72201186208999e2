"""Parts of a peak: their names, and how they add up. No facts."""

from __future__ import annotations

GATHERED, RECOMPUTED = "gathered by FSDP", "one block recomputed"
PADDING, COPIES = "padding of experts", "copies of experts"
Parts = dict[str, float]
"""GiB by name."""


def added(*several: Parts) -> Parts:
    """Parts of the same name added up."""
    found: Parts = {}
    for parts in several:
        for name, gib in parts.items():
            found[name] = found.get(name, 0.0) + gib
    return found


def filled(each: float, group: float, padding: float) -> Parts:
    """Bytes of a group of parameters that FSDP holds, and what it fills it up by.

    ``each`` is GiB per parameter, ``group`` counts those of the padding too.
    """
    return {GATHERED: each * (group - padding), PADDING: each * padding}


def total(parts: Parts) -> float:
    """All parts [GiB]."""
    return sum(parts.values())
