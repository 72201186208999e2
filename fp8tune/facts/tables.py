"""Instants of a step at which embedding and head weigh most.

FSDP2 keeps both in the root group, which is gathered when the backward pass begins and
reduced after all blocks. They are the peak where a micro-batch has few tokens against
the vocabulary (``benchmarks/step_memory.py``).
"""

from __future__ import annotations

from fp8tune.facts.memory import GIB


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

    Embedding and head are whole; of both groups also the buffer that they came in. The
    logits of the micro-batch before are there.
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
    """At the end of the forward pass: the logits, and those of before [GiB].

    FSDP holds embedding and head, and the buffer that the last block came in.
    """
    both = params_root + params_last_group
    whole = compute_bytes * both / GIB if reduce_bytes else 0
    logits = memory_held_logits_gib + memory_new_logits_gib
    held = memory_state_gib + memory_gradients_gib + memory_activations_gib
    return held + memory_head_gib + logits + whole


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

    Into one buffer, and out of it; all activations, the logits and their gradient.
    """
    whole = 2 * compute_bytes * params_root / GIB if reduce_bytes else 0
    held = memory_state_gib + memory_gradients_gib + memory_activations_gib
    return held + memory_head_gib + 2 * memory_held_logits_gib + whole


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
    """In the backward pass of the embedding: its gradient, and the head's [GiB].

    Those of a tied weight are added up in a third. FSDP holds the weights of both, and
    the last block's gradients while they are reduced; before the last micro-batch none
    are.
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

    Copied into a buffer of another type, whole; then that buffer, the shard that comes
    of it, the shard in its own type, and the head's gradient, which a loop variable
    keeps (``foreach_reduce`` of torch.distributed.fsdp).
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


def table_parts(
    memory_gradients_gib: float,
    memory_other_gradients_gib: float,
    memory_activations_gib: float,
    memory_stacked_gib: float,
    memory_head_gib: float,
    memory_held_logits_gib: float,
    memory_new_logits_gib: float,
    memory_routers_gib: float,
) -> dict[str, dict[str, float]]:
    """What is held at each of these instants beside embedding and head [GiB]."""
    late = {
        "gradients": memory_other_gradients_gib,
        "logits": memory_held_logits_gib,
        "kept by routers": memory_routers_gib,
    }
    early = {
        "gradients": memory_gradients_gib,
        "activations": memory_activations_gib - memory_stacked_gib + memory_head_gib,
        "copies of experts": memory_stacked_gib,
        "logits": 2 * memory_held_logits_gib,
    }
    logits = memory_held_logits_gib + memory_new_logits_gib
    first = {"gradients": memory_gradients_gib, "logits": memory_held_logits_gib}
    return {
        "gathering of the first block": first,
        "end of the forward pass": early | {"logits": logits},
        "gathering of embedding and head": early,
        "backward of the embedding": late,
        "reduction of embedding and head": late,
    }
