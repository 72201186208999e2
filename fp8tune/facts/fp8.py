"""What FP8 linears ask of a job's shapes.

``torch._scaled_mm`` on CUDA needs K and N divisible by 16 in the forward pass,
and M too in the backward pass, where M is the contraction dimension of the
weight gradient. Source: aten/src/ATen/native/cuda/Blas.cpp; pytorch/ao#571,
#1268, #3111.
"""

from __future__ import annotations

ALIGNMENT = 16


def kv_size(kv_heads: int, head_dim: int) -> int:
    """N of the key and value projections."""
    return kv_heads * head_dim


def unaligned_tokens(fp8_tokens: tuple[int, ...]) -> int:
    """The first M that is no multiple of 16, or 0 [tokens]."""
    return next((tokens for tokens in fp8_tokens if tokens % ALIGNMENT), 0)
