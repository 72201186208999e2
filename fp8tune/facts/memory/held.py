"""GPU memory of one rank, part by part.

Every part is of rank 0, which with a pipeline is the first stage. A trainer's adapter
says what it keeps per parameter and per token.
"""

from __future__ import annotations

from collections.abc import Sequence

from fp8tune.facts.memory import GIB, MIB

WORKSPACES = {9.0: 32 * MIB, 9.4: 128 * MIB}
"""Bytes of a cuBLAS workspace by compute capability (9.4: MI300X); else 8,519,680.

CublasHandlePool.cpp, parseChosenWorkspaceSize; torch allocates it like a tensor
(https://github.com/pytorch/pytorch/issues/95668).
"""


def workspaces_gib(gpu_compute_capability: float = 0.0) -> float:
    """Workspaces of cuBLAS: one for the forward and one for the backward thread [GiB].

    None if the GPU is unknown.
    """
    each = WORKSPACES.get(gpu_compute_capability, 8_519_680)
    return 2 * each / GIB if gpu_compute_capability else 0.0


def state_gib(
    params_padded: float,
    weight_bytes: int,
    optimizer_bytes: float,
    kept_gradient_bytes: float,
    shards: int,
    memory_workspaces_gib: float,
) -> float:
    """Memory that is held from the first step on [GiB].

    Sharded weights, optimizer state, gradients that outlive a step, and workspaces.
    """
    bytes_each = weight_bytes + optimizer_bytes + kept_gradient_bytes
    return params_padded * bytes_each / shards / GIB + memory_workspaces_gib


def gradients_gib(
    params_rank: float,
    unsharded_gradient_bytes: int,
    accumulated_gradient_bytes: int,
    shards: int,
) -> float:
    """Gradients that gradient accumulation keeps, unsharded or sharded [GiB]."""
    each = unsharded_gradient_bytes + accumulated_gradient_bytes / shards
    return params_rank * each / GIB


def reduced_gradients_gib(
    params_padded: float,
    gradient_bytes: int,
    kept_gradient_bytes: float,
    sharded: bool,
    shards: int,
) -> float:
    """Sharded gradients at the end of the backward pass [GiB].

    Without FSDP new gradients are added to those that outlived the last step.
    """
    added = 0 if sharded else kept_gradient_bytes
    return params_padded * (gradient_bytes - added) / shards / GIB


def added_gradients_gib(
    sharded: bool,
    params_rank: float,
    params_root: float,
    gradient_bytes: int,
    kept_gradient_bytes: float,
) -> float:
    """New block gradients that are added to kept ones, without FSDP [GiB].

    If any gradients are kept, those of embedding and head are among them.
    """
    if sharded:
        return 0.0
    kept = kept_gradient_bytes * params_rank - gradient_bytes * params_root
    return max(0.0, kept) / GIB


def other_gradients_gib(
    params_padded: float,
    params_root: float,
    gradient_bytes: int,
    unsharded_gradient_bytes: int,
    accumulated_gradient_bytes: int,
    shards: int,
    memory_added_gradients_gib: float,
) -> float:
    """Gradients other than the new ones of embedding and head, at the end [GiB].

    The reduced ones of all blocks, and the accumulated ones of the two tables.
    """
    kept = unsharded_gradient_bytes + accumulated_gradient_bytes / shards
    blocks = (params_padded - params_root) * gradient_bytes / shards
    return (blocks + params_root * kept) / GIB - memory_added_gradients_gib


def stacked_gib(stacked_bytes: float) -> float:
    """Copies of expert weights that all blocks keep for one micro-batch [GiB]."""
    return stacked_bytes / GIB


def activations_gib(
    block_tokens: int,
    stage_layers: int,
    activation_bytes: float,
    cross_bytes: float,
    memory_stacked_gib: float,
) -> float:
    """Activations of all blocks for one micro-batch [GiB]."""
    each = stage_layers * activation_bytes + cross_bytes
    return block_tokens * each / GIB + memory_stacked_gib


def dense_activations_gib(block_tokens: int, dense_block_bytes: float) -> float:
    """Activations of one dense block for one micro-batch [GiB]."""
    return block_tokens * dense_block_bytes / GIB


def expert_activations_gib(block_tokens: int, expert_block_bytes: float) -> float:
    """Activations of one block with experts, without stacks [GiB]."""
    return block_tokens * expert_block_bytes / GIB


def queued_gib(
    memory_activations_gib: float,
    in_flight: int,
    pp: int,
    grad_accum: int,
    block_tokens: int,
    hidden_size: int,
    compute_bytes: int,
) -> float:
    """Memory of a pipeline stage for the other micro-batches in flight [GiB].

    Their activations and outputs, and a buffer for the gradient of each
    (torch.distributed.pipelining, PipelineStage).
    """
    if pp == 1:
        return 0.0
    sent = (in_flight + grad_accum) * block_tokens * compute_bytes * hidden_size / GIB
    return (in_flight - 1) * memory_activations_gib + sent


def head_gib(head_tokens: int, head_bytes: float) -> float:
    """Activations of final norm and head [GiB]."""
    return head_tokens * head_bytes / GIB


def logits_gib(head_tokens: int, vocab_size: int, logit_bytes: float) -> float:
    """Logits and their gradients in the backward pass of the loss [GiB]."""
    return head_tokens * vocab_size * logit_bytes / GIB


def held_logits_gib(head_tokens: int, vocab_size: int, held_logit_bytes: int) -> float:
    """Logits that stay for the whole backward pass [GiB]."""
    return head_tokens * vocab_size * held_logit_bytes / GIB


def new_logits_gib(head_tokens: int, vocab_size: int, new_logit_bytes: float) -> float:
    """New logits at the end of the forward pass [GiB].

    In addition to those of the last micro-batch.
    """
    return head_tokens * vocab_size * new_logit_bytes / GIB


def recompute_gib(
    block_tokens: int,
    recompute_bytes: float,
    params_block: float,
    other_instants: Sequence[tuple[float, float]] = (),
) -> float:
    """Recomputed activations and gradients of one dense block [GiB].

    In its backward pass, for one micro-batch. Also how much more another moment of it
    takes, by tokens and by weights.
    """
    others = (
        block_tokens * per_token + params_block * per_weight
        for per_token, per_weight in other_instants
    )
    return (block_tokens * recompute_bytes + max((0.0, *others))) / GIB


def routers_gib(block_tokens: int, moe_layers: int, router_bytes: float) -> float:
    """What all MoE blocks keep after their backward pass [GiB]."""
    return block_tokens * moe_layers * router_bytes / GIB


def spare_gib(block_tokens: int, spare_bytes: float) -> float:
    """Part of the activations of compiled blocks that may not be kept [GiB]."""
    return block_tokens * spare_bytes / GIB


def gathered_gib(
    pp: int,
    params_root: float,
    params_head_gradient: float,
    params_block: float,
    gathered_bytes: float,
    compute_bytes: int,
) -> float:
    """Weights and gradients that FSDP holds unsharded in the backward pass [GiB].

    Of one dense block. Without a pipeline also embedding, head and the head's gradient.
    """
    whole = pp == 1 and gathered_bytes
    root = compute_bytes * (params_root + params_head_gradient) if whole else 0
    return (root + gathered_bytes * params_block) / GIB
