"""Instants of a step, in order, at which memory of rank 0 may peak.

FSDP2 keeps embedding and head in the root group, which is gathered when the backward
pass begins and reduced after all blocks. They are the peak where a micro-batch has few
tokens against the vocabulary (``benchmarks/step_memory.py``). Blocks with experts have
instants of their own (``experts.py``).
"""

from __future__ import annotations

from fp8tune.facts.memory import GIB


def init_gib(
    pp: int, params_decoder: int, init_bytes: int, params_rank: float = 0.0
) -> float:
    """While the whole model is built, before FSDP shards it [GiB]."""
    return (params_decoder if pp == 1 else params_rank) * init_bytes / GIB


def gather_gib(
    params_root: float,
    params_first_group: float,
    compute_bytes: int,
    reduce_bytes: int,
    memory_state_gib: float,
    memory_gradients_gib: float,
    memory_held_logits_gib: float,
) -> float:
    """When FSDP gathers the first block of a micro-batch [GiB].

    Embedding and head are unsharded, and the buffers of both groups still exist. The
    logits of the last micro-batch are still held.
    """
    both = params_root + params_first_group
    whole = 2 * compute_bytes * both / GIB if reduce_bytes else 0
    return memory_state_gib + memory_gradients_gib + memory_held_logits_gib + whole


def forward_gib(
    memory_state_gib: float,
    memory_gradients_gib: float,
    memory_activations_gib: float,
    memory_head_gib: float,
    memory_held_logits_gib: float,
    memory_new_logits_gib: float,
    params_root: float,
    params_last_group: float,
    compute_bytes: int,
    reduce_bytes: int,
) -> float:
    """At the end of the forward pass, with new and old logits [GiB].

    FSDP holds embedding, head and the buffer of the last block.
    """
    both = params_root + params_last_group
    whole = compute_bytes * both / GIB if reduce_bytes else 0
    logits = memory_held_logits_gib + memory_new_logits_gib
    held = memory_state_gib + memory_gradients_gib + memory_activations_gib
    return held + memory_head_gib + logits + whole


def loss_gib(
    memory_state_gib: float,
    memory_gradients_gib: float,
    memory_activations_gib: float,
    memory_head_gib: float,
    memory_logits_gib: float,
) -> float:
    """In the backward pass of the loss: all activations and all logits [GiB]."""
    held = memory_state_gib + memory_gradients_gib
    return held + memory_activations_gib + memory_head_gib + memory_logits_gib


def regather_gib(
    memory_state_gib: float,
    memory_gradients_gib: float,
    memory_activations_gib: float,
    memory_head_gib: float,
    memory_held_logits_gib: float,
    params_root: float,
    compute_bytes: int,
    reduce_bytes: int,
) -> float:
    """When FSDP gathers embedding and head again, after the loss [GiB].

    Into one buffer and out of it, with all activations, the logits and their gradient.
    """
    whole = 2 * compute_bytes * params_root / GIB if reduce_bytes else 0
    held = memory_state_gib + memory_gradients_gib + memory_activations_gib
    return held + memory_head_gib + 2 * memory_held_logits_gib + whole


def backward_gib(
    memory_state_gib: float,
    memory_gradients_gib: float,
    memory_gathered_gib: float,
    memory_activations_gib: float,
    memory_queued_gib: float,
    memory_held_logits_gib: float,
    memory_recompute_gib: float,
    moe_layers: int,
) -> float:
    """Last block's backward pass: all activations, one block's recomputed [GiB].

    For dense models; 0 in others.
    """
    if moe_layers:
        return 0.0
    held = memory_state_gib + memory_gradients_gib + memory_gathered_gib
    kept = memory_activations_gib + memory_queued_gib + memory_held_logits_gib
    return held + kept + memory_recompute_gib


def late_gradients_gib(
    sharded: bool,
    pp: int,
    compile: bool,  # noqa: A002
    grad_accum: int,
    params_rank: float,
    params_root: float,
    params_head_gradient: float,
    params_block: float,
    params_first_block: float,
    gradient_bytes: int,
    compute_bytes: int,
    unsharded_gradient_bytes: int,
    shards: int,
    extra_parameters: int,
    memory_gradients_gib: float,
    memory_reduced_gradients_gib: float,
    memory_added_gradients_gib: float,
) -> float:
    """Gradients in the backward pass of the first block [GiB].

    With accumulation, for a micro-batch that is not reduced: from the third on all.
    Before that without what this block and the root lack. Those of the last two blocks
    and of the root do not exist yet; runs of VLMs show that they hold as much.

    Without FSDP all gradients are unsharded, and a compiled graph returns new ones in
    addition to the accumulated ones. A pipeline stage has gathered all its weights too.
    """
    if sharded and pp > 1:
        return memory_gradients_gib + compute_bytes * params_rank / GIB
    if sharded:
        late = (params_root / 2 + params_block) * unsharded_gradient_bytes / GIB
        lacking = late if grad_accum == 2 else 0.0
        missing = params_root + 2 * params_first_block if not extra_parameters else 0
        new = missing * gradient_bytes / shards / GIB
        reduced = memory_reduced_gradients_gib - new
        return max(reduced, memory_gradients_gib - lacking)
    fresh = params_rank - params_root + params_head_gradient - params_block / 2
    new = fresh * gradient_bytes / GIB - memory_added_gradients_gib
    return memory_gradients_gib + (new if compile or grad_accum == 1 else 0.0)


def backward_end_gib(
    memory_state_gib: float,
    memory_late_gradients_gib: float,
    memory_gathered_gib: float,
    memory_activations_gib: float,
    stage_layers: int,
    moe_layers: int,
    memory_queued_gib: float,
    memory_held_logits_gib: float,
    memory_recompute_gib: float,
) -> float:
    """First block's backward pass: all gradients, one block's activations [GiB].

    For dense models; 0 in others.
    """
    if moe_layers:
        return 0.0
    held = memory_state_gib + memory_late_gradients_gib + memory_gathered_gib
    kept = memory_activations_gib / stage_layers + memory_queued_gib
    return held + kept + memory_held_logits_gib + memory_recompute_gib


def embedding_gib(
    sharded: bool,
    pp: int,
    compile: bool,  # noqa: A002
    grad_accum: int,
    params_rank: float,
    params_root: float,
    params_embedding: int,
    params_head_gradient: float,
    params_tied: bool,
    params_first_group: float,
    compute_bytes: int,
    gradient_bytes: int,
    unsharded_gradient_bytes: int,
    reduce_bytes: int,
    memory_state_gib: float,
    memory_gradients_gib: float,
    memory_late_gradients_gib: float,
    memory_other_gradients_gib: float,
    memory_routers_gib: float,
    memory_held_logits_gib: float,
) -> float:
    """Embedding's backward pass: its gradient and the head's [GiB].

    Gradients of a tied weight are added in a third tensor. FSDP holds the weights of
    both, and the last block's gradients while they are reduced. Before the last
    micro-batch nothing is reduced.
    """
    held = memory_state_gib + memory_routers_gib + memory_held_logits_gib
    new = gradient_bytes * params_embedding / GIB
    both = new + gradient_bytes * params_head_gradient / GIB + params_tied * new
    if pp > 1:
        return held + memory_late_gradients_gib + new
    if sharded:
        whole = both + compute_bytes * params_root / GIB
        last = memory_other_gradients_gib + reduce_bytes * params_first_group / GIB
        middle = grad_accum > 2 and unsharded_gradient_bytes
        return held + whole + max(last, memory_gradients_gib if middle else 0)
    if grad_accum > 1 and compile:
        both += gradient_bytes * (params_rank - params_root) / GIB
    elif grad_accum > 1 and not params_tied:
        both = new
    return held + memory_other_gradients_gib + both


def reduce_gib(
    params_root: float,
    params_head: float,
    compute_bytes: int,
    gradient_bytes: int,
    unsharded_gradient_bytes: int,
    reduce_bytes: int,
    shards: int,
    memory_state_gib: float,
    memory_other_gradients_gib: float,
    memory_routers_gib: float,
    memory_held_logits_gib: float,
) -> float:
    """While FSDP reduces the gradients of embedding and head [GiB].

    First they are copied, unsharded, into a buffer of another dtype. Then memory holds
    that buffer, its shard, the shard in its final dtype, and the head's gradient, which
    a loop variable keeps (``foreach_reduce`` of torch.distributed.fsdp).
    """
    if not reduce_bytes:
        return 0.0
    held = memory_state_gib + memory_routers_gib + memory_held_logits_gib
    each = unsharded_gradient_bytes or compute_bytes
    cast = gradient_bytes if gradient_bytes != reduce_bytes else 0
    shard = (reduce_bytes + cast) * params_root / shards
    last = each * params_head if shards > 1 else 0
    copied = (each - unsharded_gradient_bytes) * params_root
    after = shard + last - unsharded_gradient_bytes * params_root
    most = (reduce_bytes * params_root + max(copied, after)) / GIB
    return held + memory_other_gradients_gib + most


def optimizer_gib(
    memory_state_gib: float,
    memory_reduced_gradients_gib: float,
    memory_held_logits_gib: float,
    memory_routers_gib: float,
    optimizer_temporary_bytes: float,
) -> float:
    """In the optimizer step [GiB]."""
    temporary = optimizer_temporary_bytes / GIB
    held = memory_state_gib + memory_reduced_gradients_gib + temporary
    return held + memory_held_logits_gib + memory_routers_gib
