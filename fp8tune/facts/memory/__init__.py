"""Memory of rank 0, its peak, and whether the peak fits the GPU.

``held`` has the parts; ``instants`` and ``experts`` add up those that exist at the same
instant. ``peak`` takes the largest instant, ``fit`` compares it with the GPU, and
``sizing`` looks for values that fit.
"""

from __future__ import annotations

GIB, MIB = 2**30, 2**20

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
