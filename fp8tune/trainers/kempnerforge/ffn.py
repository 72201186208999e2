"""Values that an FFN keeps and computes per token, by its activation."""

from __future__ import annotations

from fp8tune.job import Unknown


def kept_values(size: int, activation: str) -> int:
    """Bytes in bf16 that an FFN of that size keeps per row; with ReLU not measured."""
    if activation == "relu":
        raise Unknown("ffn_bytes")
    return (8 if activation == "silu" else 4) * size


def computed_values(activation: str) -> int:
    """Values of FFN size per row, gradients of half of them among them."""
    return 6 if activation == "silu" else 3
