"""Speed of an FP8 linear relative to bf16 on an H100, from published measurements.

The table is torchao's for the rowwise recipe, 216 shapes (``fp8_gemm_h100.csv``).
Tensorwise measurements exist for single shapes only; a power law through them
corrects the table (``docs/accuracy.md`` shows how well it meets them, with sources).
"""

from __future__ import annotations

import math
import os.path
from functools import cache

from fp8tune.job import Unknown

SIZES = (1024, 2048, 4096, 8192, 16384, 32768)
"""M, K and N of the table."""

SLOPES = (0.32, 0.18, 0.33)
"""Below the table speed falls with these powers of M, K, N: its mean first steps."""

SMALLEST = 256
"""Below that it is not followed."""

SCALE, POWER = 1.38, 0.659
"""Tensorwise speed-up = SCALE x rowwise speed-up ** POWER."""

CEILING = 1.83
"""Best FP8 matmul against best bf16 matmul, 1453.4 / 794.5 TFLOPS on an H200.

https://github.com/stas00/ml-engineering/blob/744d01e/compute/accelerator/README.md
"""

ERROR = 0.15
"""Largest relative error against the single shapes, rounded up."""


@cache
def cells() -> dict[tuple[int, int, int], float]:
    """The speed-up of the rowwise recipe by M, K, N."""
    path = os.path.join(os.path.dirname(__file__), "fp8_gemm_h100.csv")
    with open(path, encoding="utf-8") as file:
        lines = [line.split(",") for line in file if line[0].isdigit()]
    return {
        (int(m), int(k), n): float(value)
        for m, k, *row in lines
        for n, value in zip(SIZES, row, strict=True)
    }


@cache
def rowwise(m: int, k: int, n: int) -> float:
    """The speed-up of a rowwise linear, interpolated between the table's cells.

    Interpolation is linear in the logarithms; beyond the table its last cells are used.
    """
    table = cells()
    total = 0.0
    for i, u in _weights(m):
        for j, v in _weights(k):
            for q, w in _weights(n):
                total += u * v * w * math.log(table[SIZES[i], SIZES[j], SIZES[q]])
    for size, slope in zip((m, k, n), SLOPES, strict=True):
        total += slope * math.log(min(max(size, SMALLEST), SIZES[0]) / SIZES[0])
    return math.exp(total)


def _weights(size: int) -> tuple[tuple[int, float], tuple[int, float]]:
    """The two cells next to a size, and the weight of each."""
    octave = math.log2(min(max(size, SIZES[0]), SIZES[-1]) / SIZES[0])
    below = min(int(octave), len(SIZES) - 2)
    return (below, below + 1 - octave), (below + 1, octave - below)


def speedup(recipe: str, m: int, k: int, n: int) -> float:
    """The speed-up of a linear with a recipe; that of a bf16 run is tensorwise.

    Unknown for ``rowwise_with_gw_hp``: no linear of it is published.
    """
    if recipe == "rowwise":
        return rowwise(m, k, n)
    if recipe not in ("", "tensorwise"):
        raise Unknown(unmeasured(recipe))
    return tensorwise(m, k, n)


def unmeasured(recipe: str) -> str:
    """The gap of an FP8 recipe of whose speed nothing is published."""
    return "speed.te" if recipe == "delayed" else "speed.recipe"


def tensorwise(m: int, k: int, n: int) -> float:
    """The speed-up of a tensorwise linear, corrected from the rowwise table."""
    return corrected(rowwise(m, k, n), SCALE, POWER)


def corrected(rowwise_speedup: float, scale: float, power: float) -> float:
    """The tensorwise speed-up for a rowwise one."""
    return float(min(CEILING, scale * rowwise_speedup**power))
