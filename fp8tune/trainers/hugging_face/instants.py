"""Instants of a step under transformers' Trainer, where they differ (``shared``).

Of the instants of ``facts/memory`` those with embedding and head, which FSDP and ZeRO
gather and reduce in other groups here, and the range of the peak.
"""

from __future__ import annotations

from fp8tune.facts.memory import GIB
from fp8tune.job import Words

BF16, FP32 = 2, 4

BANDS = {
    "ddp": (0.05, 0.08),
    "fsdp": (0.10, 0.10),
    "te": (0.2, 0.2),
    "zero": (0.12, 0.12),
    "ddp, mixture of experts": (0.05, 0.08),
    "fsdp, mixture of experts": (0.10, 0.10),
    "te, mixture of experts": (0.2, 0.2),
    "zero, mixture of experts": (0.12, 0.12),
}
"""How far below and above the estimate a peak may lie, as shares of it.

More than the worst errors of the real Trainer on the CPU (``results/hf_memory.md``),
because a CPU does not show the workspaces of kernels. No run of Transformer Engine was
measured.
"""


def memory_tables_bytes(
    parallel: str,
    sharded: bool,
    tables_apart: bool,
    params_embedding: int,
    params_head: float,
    params_block: float,
    cast_bytes: int,
    live_bytes: float,
) -> float:
    """Bytes of embedding and head in bf16 when the backward pass begins.

    FSDP2 gathers both at once, or the head alone; FSDP1 the last block too. Autocast
    has a copy of the head, ZeRO 3 the weights that it has gathered.
    """
    if not sharded:
        return cast_bytes * params_embedding + live_bytes
    embedding = 0 if tables_apart else params_head
    block = params_block if parallel == "fsdp1" else 0
    return BF16 * (params_embedding + embedding + block)


def memory_gathered_gib(
    sharded: bool,
    params_root: float,
    params_head_gradient: float,
    params_block: float,
    gathered_bytes: float,
    live_bytes: float,
    bucket_bytes: float,
) -> float:
    """Weights and gradients that are whole in the backward pass [GiB].

    Of FSDP's two blocks, embedding and head, and the head's gradient.
    """
    root = BF16 * (params_root + params_head_gradient) if sharded else live_bytes
    return (root + gathered_bytes * params_block + bucket_bytes) / GIB


def copies_gib(
    params_rank: float,
    params_root: float,
    moe_layers: int,
    params_routed_experts: float,
    cast_bytes: int,
) -> float:
    """Copies of all linears in bf16 that live through the forward pass [GiB].

    Not of experts, which are no linears.
    """
    linears = params_rank - params_root - moe_layers * params_routed_experts
    return cast_bytes * linears / GIB


def memory_activations_gib(
    block_tokens: int,
    stage_layers: int,
    activation_bytes: float,
    ac_applied: str,
    copies_gib: float,
) -> float:
    """Activations of all blocks, without AC with the copies of their weights [GiB]."""
    copies = copies_gib if ac_applied == "none" else 0.0
    return block_tokens * stage_layers * activation_bytes / GIB + copies


def memory_forward_gib(
    memory_state_gib: float,
    memory_gradients_gib: float,
    memory_activations_gib: float,
    memory_head_gib: float,
    memory_new_logits_gib: float,
    params_root: float,
    params_last_group: float,
    sharded: bool,
    ac_applied: str,
    copies_gib: float,
) -> float:
    """At the end of the forward pass [GiB].

    With what FSDP has gathered, a table and the last block, or autocast's copies.
    """
    gathered = BF16 * (params_root / 2 + params_last_group) / GIB if sharded else 0.0
    copies = copies_gib if ac_applied != "none" else 0.0
    held = memory_state_gib + memory_gradients_gib + memory_activations_gib
    return held + memory_head_gib + memory_new_logits_gib + gathered + copies


def memory_embedding_gib(
    parallel: str,
    sharded: bool,
    tables_apart: bool,
    shards: int,
    grad_accum: int,
    gradient_bytes: int,
    params_rank: float,
    params_root: float,
    params_embedding: int,
    params_head_gradient: float,
    params_tied: bool,
    bucket_bytes: float,
    memory_state_gib: float,
    memory_other_gradients_gib: float,
) -> float:
    """Embedding's backward pass: its gradient and the head's [GiB].

    FSDP has the gradients of the group in bf16 and the buffer from which it reduces
    them; FSDP1 its weights too, FSDP2 the shard of that buffer, and where tables are
    apart the shard in the weights' dtype.
    Gradients of a tied weight are added in a third tensor.
    """
    if not sharded:
        tables = params_embedding * (1 + params_tied) + params_head_gradient
        if grad_accum > 1 and not params_tied:
            tables = params_embedding
        new = (gradient_bytes * tables + bucket_bytes) / GIB
        return memory_state_gib + memory_other_gradients_gib + new
    group = params_embedding if tables_apart else params_root
    others = gradient_bytes * (params_rank - group) / shards
    more = (BF16 + gradient_bytes * tables_apart) / shards
    more = BF16 if parallel == "fsdp1" else more
    whole = (2 * BF16 + more + BF16 * params_tied) * group
    return memory_state_gib + (others + whole) / GIB


def memory_reduced_gradients_gib(
    params_rank: float, gradient_bytes: int, shards: int
) -> float:
    """Gradients at the end of the backward pass [GiB]."""
    return params_rank * gradient_bytes / shards / GIB


def memory_added_gradients_gib() -> float:
    """New gradients that are added to kept ones: DDP copies them to its buckets."""
    return 0.0


def estimate_family(
    sharded: bool, zero_stage: int, moe_layers: int, te_recipe: str = ""
) -> str:
    """The group of measured runs from which the estimate's error is taken."""
    kind = "zero" if zero_stage else "fsdp" if sharded else "ddp"
    kind = "te" if te_recipe else kind
    return Words(f"{kind}, mixture of experts" if moe_layers else kind)


def memory_band(estimate_family: str) -> tuple[float, float]:
    """How far below and above the estimate the peak may lie, as shares of it."""
    return BANDS[estimate_family]
