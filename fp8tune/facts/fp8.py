"""What FP8 linears ask of a job's shapes.

``torch._scaled_mm`` on CUDA needs K and N divisible by 16 in the forward pass,
and M too in the backward pass, where M is the contraction dimension of the
weight gradient. Source: aten/src/ATen/native/cuda/Blas.cpp; pytorch/ao#571,
#1268, #3111.
"""

from __future__ import annotations

import math

ALIGNMENT = 16


def kv_size(kv_heads: int, head_dim: int) -> int:
    """N of the key and value projections."""
    return kv_heads * head_dim


def hidden_size_below(hidden_size: int, heads: int) -> int:
    """The next smaller hidden size that FP8 and the heads both divide."""
    step = math.lcm(ALIGNMENT, 2 * heads)
    return hidden_size // step * step


def hidden_size_above(hidden_size: int, heads: int) -> int:
    """The next larger hidden size that FP8 and the heads both divide."""
    step = math.lcm(ALIGNMENT, 2 * heads)
    return -(-hidden_size // step) * step


def unaligned_tokens(fp8_tokens: tuple[int, ...]) -> int:
    """The first M that is no multiple of 16, or 0 [tokens]."""
    return next((tokens for tokens in fp8_tokens if tokens % ALIGNMENT), 0)
