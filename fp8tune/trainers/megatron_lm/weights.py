"""Parameters of one rank of Megatron, and bytes per parameter.

Tensor parallelism splits linears and tables, expert parallelism the experts; norms,
routers and biases of row-parallel linears are whole. Bytes are those of Megatron-LM's
docs/user-guide/features/dist_optimizer.md.

Source: megatron/core/transformer, core/distributed/param_and_grad_buffer.py and
core/optimizer at d98e8a64d.
"""

from __future__ import annotations

from typing import NamedTuple

from fp8tune.job import Unknown
from fp8tune.trainers.megatron_lm.stages import Stage

FP8_COPIES = 2
"""Bytes of an FP8 weight: as the forward and as the backward pass reads it.

Hopper's FP8 GEMMs take one layout, so that the backward pass needs a transposed copy.
Transformer Engine keeps both for all micro-batches of a step (module/base.py,
``get_weight_workspace``).
"""


def memory_lighter(
    fp8_weight_bytes: int,
    optimizer_sharded: bool,
    half_precision: bool,
    half_gradients: bool,
    lighter_keys: tuple[tuple[str, bool], tuple[str, bool]],
) -> dict[str, tuple[bool, str]]:
    """Settings that free memory at the same speed: their values, and what they do."""
    (weights, fp8_alone), (gradients, reduced) = lighter_keys
    found = {}
    if fp8_weight_bytes and optimizer_sharded:
        found[weights] = fp8_alone, "FP8 weights without those in bf16"
    if half_precision and not half_gradients:
        found[gradients] = reduced, "gradients summed in bf16"
    return found


class Weights(NamedTuple):
    """Parameters of one layer on one rank.

    ``attention``, ``ffn``, ``shared`` and ``experts`` are those of linears, which FP8
    converts; the others are biases, norms and routers: of every layer, of dense FFNs,
    of those with experts, and of the experts.
    """

    attention: float
    ffn: float
    shared: float
    experts: float
    others: float
    ffn_others: float
    moe_others: float
    expert_others: float


def layer_weights(
    hidden_size: int,
    heads: int,
    head_dim: int,
    kv_heads: int,
    ffn_size: int,
    ffn_matrices: int,
    experts: int,
    expert_size: int,
    shared_expert_size: int,
    tp: int,
    ep: int,
    etp: int,
    norm_vectors: int,
    linear_biases: bool,
    qkv_biases: bool,
) -> Weights:
    """Parameters of one layer on one rank."""
    columns = (heads + 2 * kv_heads) * head_dim
    norms = 2 * norm_vectors * hidden_size
    attention_biases = columns / tp * qkv_biases + hidden_size * linear_biases

    def biases(width: float) -> float:
        return ((ffn_matrices - 1) * width + hidden_size) * linear_biases

    mine = experts / ep
    return Weights(
        attention=hidden_size * (columns + heads * head_dim) / tp,
        ffn=ffn_matrices * hidden_size * ffn_size / tp,
        shared=ffn_matrices * hidden_size * shared_expert_size / tp,
        experts=mine * ffn_matrices * hidden_size * expert_size / etp,
        others=norms + attention_biases,
        ffn_others=biases(ffn_size / tp),
        moe_others=hidden_size * experts,
        expert_others=mine * biases(expert_size / etp),
    )


class Held(NamedTuple):
    """Parameters of one stage on one rank: all, of experts, and of FP8 linears."""

    dense: float
    experts: float
    converted: float


def held(stage: Stage, each: Weights, table: float, others: float) -> Held:
    """Parameters of one stage; ``table`` is a rank's part of one table."""
    attention = stage.layers * each.attention
    ffn = stage.dense * each.ffn + stage.moe * each.shared
    experts = stage.moe * each.experts
    small = stage.layers * each.others + stage.dense * each.ffn_others
    small += stage.moe * each.moe_others + stage.tables * table + others
    kept = stage.bf16_layers / stage.layers
    return Held(
        dense=attention + ffn + small,
        experts=experts + stage.moe * each.expert_others,
        converted=(attention + ffn + experts) * (1 - kept),
    )


def weight_bytes(compute_bytes: int) -> int:
    """Bytes per parameter of the weights that compute reads, without FP8 copies."""
    return compute_bytes


def gradient_bytes(half_gradients: bool) -> int:
    """Bytes per parameter of the gradients to which all micro-batches are added."""
    return 2 if half_gradients else 4


def optimizer_bytes(optimizer: str, half_precision: bool, lower_moments: bool) -> int:
    """Bytes per parameter of Adam's state, which the distributed optimizer shards.

    Two moments, and weights in fp32 where compute reads others.
    """
    if optimizer != "adam":
        raise Unknown("optimizer_bytes")
    if lower_moments:
        raise Unknown("optimizer_bytes.lower", 4)
    return 8 + 4 * half_precision


def optimizer_temporary_bytes(half_gradients: bool) -> int:
    """Bytes per parameter that a step allocates: gradients in fp32, where they are not.

    The distributed optimizer shards them. They are freed before the next step.
    """
    return 4 * half_gradients


def fp8_weight_bytes(precision: str, fp8_weights: bool, compute_bytes: int) -> int:
    """Bytes per parameter of FP8 linears beyond those of other weights.

    Two copies in FP8 beside the weight; or, with FP8 weights, in its place: in bf16
    that is as much, because the backward pass needs a transposed copy.
    """
    if precision != "fp8":
        return 0
    return FP8_COPIES - compute_bytes * fp8_weights
