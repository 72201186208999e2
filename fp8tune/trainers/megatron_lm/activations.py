"""What a layer of Megatron keeps per token for its backward pass.

Closed forms: inputs of norms, linears and attention. Linears of Transformer Engine keep
their input in FP8 where they compute in FP8. Experts get the same number of tokens
each. For FFNs of 4 times the hidden size these are the 34 bytes per token and hidden
size of Korthikanti et al., https://arxiv.org/abs/2205.05198, without attention scores.

Source: megatron/core/transformer and core/fusions at d98e8a64d; Transformer Engine
d0067d0da, pytorch/module.
"""

from __future__ import annotations

from typing import NamedTuple

from fp8tune.job import Unknown

FLOAT, MASK = 4, 1
"""Bytes of a value in fp32, and of one in the mask of a dropout."""

RECOMPUTED = ("core_attn", "mlp", "moe", "moe_act", "layernorm", "shared_experts")
"""Modules of selective recomputation whose memory is known."""

SLOT = 12
"""Bytes of one token in one expert: its probability, and its place before and after."""


class Layer(NamedTuple):
    """Bytes per token of one layer on one rank.

    ``attention`` and the two kinds of FFN are kept; ``work`` is what the backward pass
    of the larger FFN adds.
    """

    attention: float
    ffn: float
    experts: float
    work: float
    expert_work: float


def stream_share(tp: int, sequence_parallel: bool) -> float:
    """Share of the residual stream that a rank has."""
    return 1 / tp if sequence_parallel else 1


def saved_bytes(precision: str, compute_bytes: int) -> int:
    """Bytes of a value in the input that a linear keeps."""
    return 1 if precision == "fp8" else compute_bytes


def score_bytes(
    keeps_scores: bool,
    heads: int,
    seq_len: int,
    cp: int,
    tp: int,
    compute_bytes: int,
    attention_dropout: float,
) -> float:
    """Bytes per token that attention keeps of its scores.

    Flash and fused kernels keep one sum per head. Unfused attention keeps them after
    the softmax, and with dropout the mask and the result.
    """
    if not keeps_scores:
        return FLOAT * heads / tp
    if cp > 1:
        raise Unknown("shards.cp")
    more = MASK + compute_bytes if attention_dropout else 0
    return (compute_bytes + more) * heads * seq_len / tp


def attention_kept(
    hidden_size: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    tp: int,
    stream_share: float,
    compute_bytes: int,
    saved_bytes: int,
    score_bytes: float,
    hidden_dropout: float,
    qk_norm: bool,
    recomputed: tuple[str, ...],
) -> float:
    """Bytes per token that attention keeps, with the norm before it."""
    queries, pairs = heads * head_dim, 2 * kv_heads * head_dim
    norm = stream_share * hidden_size * (compute_bytes + saved_bytes)
    inputs = compute_bytes * (queries + pairs) / tp
    if qk_norm:
        inputs += compute_bytes * (queries + pairs / 2) / tp
    result = compute_bytes * queries / tp
    copy = queries / tp if saved_bytes < compute_bytes else 0
    scores = 0 if "core_attn" in recomputed else score_bytes
    mask = MASK * stream_share * hidden_size * bool(hidden_dropout)
    return norm + inputs + result + copy + scores + mask


def ffn_kept(
    hidden_size: int,
    ffn_size: int,
    ffn_matrices: int,
    tp: int,
    stream_share: float,
    compute_bytes: int,
    saved_bytes: int,
    hidden_dropout: float,
    recomputed: tuple[str, ...],
) -> float:
    """Bytes per token that a dense FFN keeps, with the norm before it."""
    mask = MASK * stream_share * hidden_size * bool(hidden_dropout)
    entry = stream_share * hidden_size * compute_bytes
    if "mlp" in recomputed:
        return entry + mask
    norm = stream_share * hidden_size * saved_bytes
    width = ffn_size / tp
    inner = (ffn_matrices - 1) * width * compute_bytes + width * saved_bytes
    return entry + norm + inner + mask


def expert_rows(moe_router_topk: int, stream_share: float, etp: int) -> float:
    """Rows of the experts' GEMMs on one rank, per token, if all get as many."""
    return moe_router_topk * stream_share * etp


def experts_kept(
    hidden_size: int,
    experts: int,
    expert_size: int,
    shared_expert_size: int,
    ffn_matrices: int,
    expert_rows: float,
    tp: int,
    etp: int,
    stream_share: float,
    compute_bytes: int,
    saved_bytes: int,
    hidden_dropout: float,
    recomputed: tuple[str, ...],
) -> float:
    """Bytes per token that an FFN with experts keeps, with the norm before it.

    Gated activations are fused with the router's probabilities; others are kept before
    and after them.
    """
    if not experts:
        return 0
    entry = stream_share * hidden_size * compute_bytes
    mask = MASK * stream_share * hidden_size * bool(hidden_dropout)
    norm = 0 if "layernorm" in recomputed else entry
    if "moe" in recomputed:
        return entry + entry + mask
    gated = ffn_matrices == 3

    def inner(width: float, activation: bool) -> float:
        before = (ffn_matrices - 1) * width * compute_bytes
        return before + activation * width * saved_bytes

    width = expert_size / etp
    rows = hidden_size * saved_bytes + inner(width, "moe_act" not in recomputed)
    rows += SLOT + (0 if gated else width * compute_bytes)
    shared = inner(shared_expert_size / tp, activation=True)
    shared *= "shared_experts" not in recomputed
    router = 3 * FLOAT * experts * stream_share
    return entry + norm + mask + router + expert_rows * rows + shared


def layer_bytes(
    attention_kept: float,
    ffn_kept: float,
    experts_kept: float,
    ffn_size: int,
    expert_size: int,
    ffn_matrices: int,
    expert_rows: float,
    tp: int,
    etp: int,
    compute_bytes: int,
) -> Layer:
    """Bytes per token of one layer; in its backward pass the FFN's gradients too."""
    return Layer(
        attention_kept,
        ffn_kept,
        experts_kept,
        work=ffn_matrices * compute_bytes * ffn_size / tp,
        expert_work=ffn_matrices * compute_bytes * expert_rows * expert_size / etp,
    )
