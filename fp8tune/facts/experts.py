"""What one block with experts adds to what is held, part by part.

FSDP2 gathers such a block whole or, with EP, its attention and then its experts; each
group comes in one buffer and is copied out of it. In the backward pass it gathers the
group before while one is differentiated, and reduces the group after in fp32
(``benchmarks/step_memory.py``).
"""

from __future__ import annotations

from fp8tune.facts.memory import GIB
from fp8tune.facts.sums import COPIES, RECOMPUTED, Parts, added, filled


def expert_neighbours(
    layers: int,
    grad_accum: int,
    compute_bytes: int,
    reduce_bytes: int,
    unsharded_gradient_bytes: int,
    expert_padding: int,
    params_first_group: float,
    params_group_before_experts: float,
    params_side_by_side: bool,
) -> dict[str, Parts]:
    """What FSDP holds of the groups ``before`` and ``after`` experts [GiB].

    Weights of the one, gathered ahead; gradients of the other, while they are reduced:
    accumulated ones are counted already.
    """
    ahead = bool(reduce_bytes) * compute_bytes / GIB
    whole = unsharded_gradient_bytes > 0 and grad_accum > 2
    reduced = reduce_bytes / GIB if layers > 1 and not whole else 0.0
    filling = params_side_by_side * expert_padding
    return {
        "before": filled(ahead, params_group_before_experts, filling),
        "after": filled(reduced, params_first_group, filling),
    }


def expert_forward(
    ep: int,
    block_tokens: int,
    compute_bytes: int,
    reduce_bytes: int,
    expert_padding: int,
    expert_copies: float,
    stacked_bytes: float,
    params_expert_group: float,
    expert_work: Parts,
    memory_expert_neighbours: dict[str, Parts],
) -> list[Parts]:
    """What one block with experts adds in the forward pass [GiB].

    While it is copied out of its buffer, that of the group before is there; with EP
    also the attention itself, as while experts compute.
    """
    each = 2 * bool(reduce_bytes) * compute_bytes / GIB
    own = filled(each, params_expert_group, expert_padding)
    before = memory_expert_neighbours["before"]
    attention = before if ep > 1 else {}
    computed = {
        RECOMPUTED: block_tokens * expert_work["forward"] / GIB,
        COPIES: (0 if stacked_bytes else expert_copies) / GIB,
    }
    return [added(own, before, attention), added(own, attention, computed)]


def expert_backward(
    block_tokens: int,
    ffn_matrices: int,
    compute_bytes: int,
    reduce_bytes: int,
    expert_padding: int,
    expert_copies: float,
    stacked_bytes: float,
    params_expert_group: float,
    params_routed_experts: float,
    params_shared_experts: float,
    expert_work: Parts,
) -> list[Parts]:
    """What one block with experts adds while it is differentiated [GiB].

    Before there is a gradient of its routed weights, beside that of one matrix, and
    beside all: of experts that are not packed they are copied out of a stack. Those of
    shared experts are there.
    """
    each = bool(reduce_bytes) * compute_bytes / GIB
    own = filled(each, params_expert_group, expert_padding)
    again = 0 if stacked_bytes else expert_copies
    stacks = {COPIES: again / GIB}
    unstacked = expert_copies / ffn_matrices + again - expert_copies
    matrix = each * params_routed_experts / ffn_matrices
    shared = each * params_shared_experts
    before, beside, after = (
        {RECOMPUTED: block_tokens * expert_work[name] / GIB}
        for name in ("before", "beside", "after")
    )
    copied = {COPIES: unstacked / GIB, "gradients": ffn_matrices * matrix}
    return [
        added(own, stacks, before, {"gradients": shared}),
        added(own, stacks, beside, {"gradients": shared + matrix}),
        added(own, copied, after),
    ]


def expert_reduced(
    ep: int,
    layers: int,
    moe_layers: int,
    moe_every: int,
    block_tokens: int,
    shards: int,
    compute_bytes: int,
    gradient_bytes: int,
    reduce_bytes: int,
    unsharded_gradient_bytes: int,
    expert_padding: int,
    params_expert_group: float,
    params_dense_block: float,
    params_side_by_side: bool,
    memory_recompute_gib: float,
    memory_expert_neighbours: dict[str, Parts],
    expert_work: Parts,
) -> list[Parts]:
    """What is there while gradients of one block's experts are reduced [GiB].

    What they are copied from, or shards of them; then without what accumulation had of
    them, the dense block before is differentiated, or with EP their attention, and the
    next group gathered, which may have experts.
    """
    if not reduce_bytes:
        return []
    reduced = filled(reduce_bytes / GIB, params_expert_group, expert_padding)
    group = (params_expert_group - expert_padding) / GIB
    kept = unsharded_gradient_bytes
    parts = (reduce_bytes + gradient_bytes) / shards
    own = (max(kept or compute_bytes, parts) - kept) * group
    before = memory_expert_neighbours["before"]
    found = [added(reduced, before, {"gradients": own})]
    if params_side_by_side or layers == 1:
        return found
    each = compute_bytes / GIB
    ahead = filled(each, params_dense_block, 0)
    if moe_layers > 1 and moe_every == (2 if ep == 1 else 1):
        ahead = filled(each, params_expert_group, expert_padding)
    tokens = block_tokens * expert_work["after"] / GIB
    again = {
        RECOMPUTED: tokens if ep > 1 else memory_recompute_gib,
        "gradients": -unsharded_gradient_bytes * group,
    }
    return [*found, added(reduced, before, ahead, again)]
