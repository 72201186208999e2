"""Matrix products of a step: their cost, and how much of it can run in FP8.

FLOPs are those of one rank and one micro-batch, including what activation checkpointing
repeats. Attention is causal: half of the square.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fp8tune.facts.linears import Gemm


def m(fp8_tokens: tuple[int, ...]) -> int:
    """M of the blocks' linears: tokens per GEMM on one rank [tokens]."""
    return fp8_tokens[0]


def flops(gemms: tuple[Gemm, ...]) -> float:
    """FLOPs of all linears of one micro-batch on one rank [FLOP].

    The sum over all pipeline stages.
    """
    return sum(gemm.flops for gemm in gemms)


def attention_flops(
    micro_batch: int,
    seq_len: int,
    heads: int,
    head_dim: int,
    layers: int,
    tp: int,
    attention_passes: float,
    cp: int = 1,
) -> float:
    """FLOPs of attention's two products, which stay in bf16 in every recipe [FLOP].

    The backward pass of flash attention costs 2.5 forward passes: five products against
    two (https://arxiv.org/abs/2205.14135).
    """
    forward = 2.0 * micro_batch * seq_len**2 * heads * head_dim * layers / tp / cp
    return forward * attention_passes


def attention_share(gemm_flops: float, gemm_attention_flops: float) -> float:
    """Share of a step's matrix FLOPs that attention's two products have."""
    return gemm_attention_flops / (gemm_flops + gemm_attention_flops)


def table(
    gemms: tuple[Gemm, ...],
    gemm_flops: float,
    gemm_attention_flops: float,
    fp8_obstacle: str,
    speed_linear_gains: dict[str, float] | None = None,
) -> list[dict[str, Any]]:
    """Every matrix product: M, K, N, count, FLOP share, FP8, expected speed-up.

    The speed-up is that of an FP8 linear on an H100 (``speed.linear_gains``). It is
    absent if H100 measurements do not apply to the GPU or to the recipe, or the job
    cannot run in FP8.
    """
    total = gemm_flops + gemm_attention_flops
    gains = speed_linear_gains or {}
    rows: list[dict[str, Any]] = [
        {
            "name": gemm.name,
            "m": gemm.m,
            "k": gemm.k,
            "n": gemm.n,
            "count": gemm.copies,
            "flop_share": gemm.flops / total,
            "fp8": fp8,
            "speedup": gains.get(gemm.name) if fp8 else None,
        }
        for gemm in gemms
        for fp8 in [gemm.fp8 and not fp8_obstacle]
    ]
    attention = {"name": "attention", "m": None, "k": None, "n": None, "count": None}
    share = {"flop_share": gemm_attention_flops / total, "fp8": False, "speedup": None}
    return [*rows, {**attention, **share}]
