"""Instants of the backward pass of blocks, and the gradients that are there."""

from __future__ import annotations

from fp8tune.facts.memory import GIB


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
    """In the backward pass of the last block: all activations, one recomputed [GiB].

    Of dense models: 0 in others.
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

    While accumulating, of a micro-batch that is not reduced: all, from the third on;
    before, without what this block and the root lack. Those of the last two blocks and
    of the root are not there yet; runs of VLMs say that they hold as much. Without FSDP
    all are whole, and a compiled graph returns new ones beside the accumulated. A
    pipeline stage has gathered all its weights too.
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
    """In the backward pass of the first block: all gradients, one activation [GiB].

    Of dense models: 0 in others.
    """
    if moe_layers:
        return 0.0
    held = memory_state_gib + memory_late_gradients_gib + memory_gathered_gib
    kept = memory_activations_gib / stage_layers + memory_queued_gib
    return held + kept + memory_held_logits_gib + memory_recompute_gib
