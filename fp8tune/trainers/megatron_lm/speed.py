"""The step of Megatron: its linears, attention and experts, for the model of speed.

Source: megatron/core/transformer and core/extensions/transformer_engine.py at
d98e8a64d.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fp8tune.job import Unknown, Words, known

if TYPE_CHECKING:
    from fp8tune.facts.linears import Decoder, Gemm


def fp8_tp_refused() -> bool:
    """Whether FP8 is refused with tensor parallelism: never."""
    return False


def fp8_against(local_layers: bool, half_precision: bool) -> str:
    """Why FP8 cannot pay with these settings; empty if it may."""
    if local_layers:
        return Words("Megatron's own layers have no FP8")
    slow = "without bf16 all but the FP8 GEMMs runs in fp32: slower than bf16 alone"
    return Words("" if half_precision else slow)


def speed_engine() -> str:
    """What runs the linears in FP8: Transformer Engine, as Megatron uses it."""
    return Words("te-megatron")


def speed_gathers_each() -> bool:
    """Whether weights are gathered for each pass: once per step, after it."""
    return False


def reduces_each_micro_batch() -> bool:
    """Whether gradients are reduced after each micro-batch: once per step.

    Source: megatron/core/distributed/distributed_data_parallel.py, ``no_sync``, in
    which megatron/core/pipeline_parallel/schedules.py runs all but the last.
    """
    return False


def expert_routes(moe_pattern: list[int], moe_router_topk: int | None = None) -> int:
    """Experts that get a token in a layer that has experts; 0 without any."""
    return known("moe_router_topk", moe_router_topk) if any(moe_pattern) else 0


def speed_routed(
    fp8_tokens: tuple[int, ...], moe_pattern: list[int], expert_routes: int
) -> float:
    """Copies of tokens that go to experts in all layers, with balanced routing."""
    return fp8_tokens[0] * expert_routes * sum(moe_pattern)


def speed_ffn_width(
    moe_pattern: list[int],
    ffn_size: int,
    expert_size: int,
    shared_expert_size: int,
    expert_routes: int,
    tp: int,
) -> float:
    """Width of a block's FFN on one rank, of all experts that get a token."""
    share = sum(moe_pattern) / len(moe_pattern)
    experts = expert_routes * expert_size + shared_expert_size
    return ((1 - share) * ffn_size + share * experts) / tp


def ac_applied(ac: str) -> str:
    """AC mode that is applied to whole layers: selective repeats attention alone."""
    return Words("attention" if ac == "selective" else ac)


def attention_passes(
    recomputed: tuple[str, ...], recomputed_layers: tuple[float, float]
) -> float:
    """Forward passes of attention that a step costs."""
    return 4.5 if "core_attn" in recomputed else 3.5 + recomputed_layers[0]


def gemms(
    known_step: bool,
    keeps_scores: bool,
    fp8_tokens: tuple[int, ...],
    hidden_size: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    ffn_size: int,
    ffn_matrices: int,
    moe_pattern: list[int],
    vocab_size: int,
    tp: int,
    recomputed_layers: tuple[float, float],
    bf16_ends: tuple[int, int],
    expert_gemms: tuple[Gemm, ...],
    speed_frozen: bool,
) -> tuple[Gemm, ...]:
    """Every linear, those of the layers that FP8 leaves out apart.

    Those of adapters are not counted: they are narrow and stay in bf16.
    """
    from fp8tune.facts.linears import Decoder

    if not known_step or keeps_scores:
        raise Unknown("speed.math" if keeps_scores else "memory.trainer")
    layers = len(moe_pattern)
    sizes = (hidden_size, heads, kv_heads, head_dim, ffn_size, ffn_matrices)
    shape = Decoder(layers, *sizes, vocab_size, layers - sum(moe_pattern))
    (tokens,) = fp8_tokens
    out = min(sum(bf16_ends), layers)
    passes = 3 + recomputed_layers[0]
    block = _block(shape, tokens, tp, out, passes)
    gemms = (*block[:-1], *expert_gemms, block[-1])
    return tuple(g._replace(passes=g.passes - 1) if speed_frozen else g for g in gemms)


def _block(
    shape: Decoder, tokens: int, tp: int, bf16_layers: int, passes: float
) -> tuple[Gemm, ...]:
    """The linears of all layers, those of ``bf16_layers`` apart, and the head."""
    from fp8tune.facts.linears import of_decoder

    dense = max(shape.dense_layers - bf16_layers, 0)
    kinds = (
        (True, shape._replace(layers=shape.layers - bf16_layers, dense_layers=dense)),
        (
            False,
            shape._replace(
                layers=bf16_layers, dense_layers=min(shape.dense_layers, bf16_layers)
            ),
        ),
    )
    gemms: list[Gemm] = []
    for fp8, part in kinds:
        *block, head = of_decoder(
            part, tokens, tokens, tp=tp, head_tp=tp, fp8_head=False, fused=True
        )
        gemms += [gemm._replace(fp8=fp8, passes=passes) for gemm in block]
    return (*gemms, head)


def expert_gemms(
    fp8_tokens: tuple[int, ...],
    hidden_size: int,
    ffn_matrices: int,
    expert_size: int,
    shared_expert_size: int,
    moe_pattern: list[int],
    experts: int,
    ep: int,
    etp: int,
    tp: int,
    recomputed_layers: tuple[float, float],
    expert_routes: int,
) -> tuple[Gemm, ...]:
    """The linears of experts on one rank, with balanced routing."""
    from fp8tune.facts.linears import of_experts

    blocks = sum(moe_pattern)
    if not blocks:
        return ()
    (tokens,), passes = fp8_tokens, 3 + recomputed_layers[0]
    each = tokens * expert_routes * ep * etp // tp // experts
    routed = of_experts(
        each,
        hidden_size,
        expert_size // etp,
        ffn_matrices,
        blocks * experts // ep,
        fp8=True,
        fused=True,
        passes=passes,
    )
    if not shared_expert_size:
        return routed
    width = shared_expert_size // tp
    shared = of_experts(
        tokens,
        hidden_size,
        width,
        ffn_matrices,
        blocks,
        name="shared",
        fp8=True,
        fused=True,
        passes=passes,
    )
    return (*shared, *routed)
