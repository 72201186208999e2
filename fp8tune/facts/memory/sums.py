"""Parts of a peak: their names and sums. No facts."""

from __future__ import annotations

GATHERED, RECOMPUTED = "gathered by FSDP", "one block recomputed"
PADDING, COPIES = "padding of experts", "copies of experts"
Parts = dict[str, float]
"""GiB by name."""


def added(*several: Parts) -> Parts:
    """The sums of parts with the same name."""
    found: Parts = {}
    for parts in several:
        for name, gib in parts.items():
            found[name] = found.get(name, 0.0) + gib
    return found


def filled(each: float, group: float, padding: float) -> Parts:
    """The memory of a group of parameters that FSDP holds, and of its padding.

    ``each`` is GiB per parameter; ``group`` includes the parameters of the padding.
    """
    return {GATHERED: each * (group - padding), PADDING: each * padding}


def total(parts: Parts) -> float:
    """The sum of all parts [GiB]."""
    return sum(parts.values())
