"""Instants at which blocks with experts take most memory, part by part.

FSDP2 gathers such a block whole or, with EP, its attention and then its experts; each
group comes in one buffer and is copied out of it. In the backward pass it gathers the
group before while one is differentiated, and reduces the group after in fp32
(``benchmarks/step_memory.py``). What a block adds is computed first, then what is held
at its place in the model.
"""

from __future__ import annotations

from fp8tune.facts.memory import (
    COPIES,
    GATHERED,
    GIB,
    RECOMPUTED,
    Parts,
    added,
    filled,
    total,
)

FORWARD, BACKWARD = "forward pass of experts", "backward"
REDUCED = "reduction of experts"


Place = dict[str, float]
"""What is there when a block is reached: see `expert_places`."""


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
    """FSDP's memory for the groups ``before`` and ``after`` the experts [GiB].

    Weights of the one, gathered ahead, and gradients of the other while they are
    reduced. Accumulated gradients are counted elsewhere.
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
    """Memory that one block with experts adds in the forward pass [GiB].

    While FSDP copies it out of its buffer, the buffer of the group before still exists.
    With expert parallelism the attention is included, as while the experts compute.
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
    """Memory that one block with experts adds in its backward pass [GiB].

    At three moments: before any gradient of its routed weights exists, with the
    gradient of one matrix, and with all. The gradients of unpacked experts are copied
    out of a stack. Those of shared experts are included.
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
    """Memory while the gradients of one block's experts are reduced [GiB].

    First their source, or shards of it. Then, without what accumulation kept, the
    backward pass of the dense block before them (with EP of their attention) and the
    next gathered group, which may have experts.
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


def expert_places(ep: int, moe_layers: int, moe_every: int) -> dict[str, Place]:
    """Positions of a block with experts in the model, and what memory holds by then.

    Forward pass: the first and the last such block. Backward pass: the last, the next,
    the second and the first. Reduction: the gradients of the last and of the first. For
    each position: how many ``blocks`` have their activations, how many of them are
    blocks ``with experts``, and which share of all ``routers`` keeps something.
    """
    if not moe_layers:
        return {}
    every, each = moe_every, 1 / moe_layers
    two = min(2, moe_layers)
    near = two if ep > 1 else 1
    gone = 0 if ep > 1 else 1
    last = every * moe_layers
    places = {
        "forward, first": (every, 1, 1 - each),
        "forward, last": (last, moe_layers, 0.0),
        "last": (last, moe_layers, 0.0),
        "next": (last - every, moe_layers - 1, each),
        "second": (two * every, two, 1 - two * each),
        "first": (every, 1, 1 - each),
        "last reduced": (last - gone, moe_layers - 1, each),
        "first reduced": (near * every - gone, near - 1, 1 - near * each),
    }
    names = ("blocks", "with experts", "routers")
    return {
        place: dict(zip(names, there, strict=True))
        for place, there in places.items()
        if place != "next" or moe_layers > 1
    }


def expert_gradients(
    layers: int,
    moe_layers: int,
    moe_every: int,
    grad_accum: int,
    shards: int,
    gradient_bytes: int,
    unsharded_gradient_bytes: int,
    reduce_bytes: int,
    params_rank: float,
    params_root: float,
    params_dense_block: float,
    params_first_block: float,
    params_first_group: float,
    params_period: float,
    memory_gradients_gib: float,
    memory_late_gradients_gib: float,
) -> dict[str, float]:
    """Gradients at those positions that accumulation does not keep [GiB].

    Near the first block all exist. Of two micro-batches, the first has left no
    gradients of the blocks before it by then. The second reduces them, and has none of
    the blocks after it: what is being reduced counts as such.
    """
    early, late = memory_gradients_gib, memory_late_gradients_gib
    if not unsharded_gradient_bytes:
        new = (
            gradient_bytes * params_first_block / shards / GIB if reduce_bytes else 0.0
        )
        return {"second": late, "first": late + new, "first reduced": late}
    each = unsharded_gradient_bytes / GIB
    after = each * (layers - moe_layers * moe_every) * params_dense_block
    next_ = early - after - each * params_period
    if grad_accum > 2:
        return {"next": next_, "second": late, "first": late, "first reduced": late}
    before = late - each * (moe_every - 1) * params_dense_block
    new = early - each * (params_rank - params_root - params_period)
    first = max(before, new)
    last = dict.fromkeys(("last", "last reduced"), early - after)
    reduced = each * params_first_group if layers > 1 else 0.0
    alone = max(before - reduced, new)
    firsts = {"second": late - reduced, "first": alone, "first reduced": first}
    return last | firsts | {"next": next_}


def expert_held(
    layers: int,
    moe_layers: int,
    params_root: float,
    params_head_gradient: float,
    compute_bytes: int,
    reduce_bytes: int,
    memory_gradients_gib: float,
    memory_activations_gib: float,
    memory_dense_activations_gib: float,
    memory_expert_activations_gib: float,
    memory_stacked_gib: float,
    memory_routers_gib: float,
    memory_held_logits_gib: float,
    memory_expert_places: dict[str, Place],
    memory_expert_gradients: dict[str, float],
) -> dict[str, Parts]:
    """Memory in addition to one block with experts, by its position in the model [GiB].

    Includes the gathered embedding and head.
    """
    tables = bool(reduce_bytes) * compute_bytes * params_root / GIB
    both = tables + bool(reduce_bytes) * compute_bytes * params_head_gradient / GIB
    whole = memory_activations_gib - memory_stacked_gib
    more = memory_expert_activations_gib - memory_dense_activations_gib
    return {
        place: {
            "gradients": memory_expert_gradients.get(place, memory_gradients_gib),
            "activations": whole
            - (layers - there["blocks"]) * memory_dense_activations_gib
            - (moe_layers - there["with experts"]) * more,
            COPIES: memory_stacked_gib * there["with experts"] / moe_layers,
            "logits": memory_held_logits_gib,
            "kept by routers": memory_routers_gib * there["routers"],
            GATHERED: tables if place.startswith("forward") else both,
        }
        for place, there in memory_expert_places.items()
    }


def expert_instants(
    moe_layers: int,
    moe_every: int,
    layers: int,
    params_side_by_side: bool,
    memory_expert_held: dict[str, Parts],
    memory_expert_neighbours: dict[str, Parts],
    memory_expert_forward: list[Parts],
    memory_expert_backward: list[Parts],
    memory_expert_reduced: list[Parts],
) -> dict[str, Parts]:
    """Largest peaks with experts: forward pass, backward pass and reduction [GiB].

    By part; none for dense models. The sum of the memory at a position, FSDP's memory
    for the neighbouring groups, and what the block itself adds.
    """
    if not moe_layers:
        return {}
    held, near = memory_expert_held, memory_expert_neighbours
    both = added(near["before"], near["after"])
    alone = near["after"] if params_side_by_side else both
    early = alone if layers == 2 else both
    places = held["forward, first"], held["forward, last"]
    forward = [added(h, f) for h in places for f in memory_expert_forward]
    last = near["before"] if moe_layers * moe_every == layers else early
    beside = {"last": last, "next": early, "first": alone}
    if params_side_by_side and layers > 2:
        beside["second"] = both
    backward = [
        added(held[place], more, work)
        for place, more in beside.items()
        if place in held
        for work in memory_expert_backward
    ]
    places = held["last reduced"], held["first reduced"]
    reduced = [added(h, r) for h in places for r in memory_expert_reduced]
    return {
        name: max(found, key=total)
        for name, found in (
            (FORWARD, forward),
            (BACKWARD, backward),
            (REDUCED, reduced),
        )
        if found
    }


def experts_gib(
    memory_state_gib: float, memory_expert_instants: dict[str, Parts]
) -> float:
    """Largest peak at a block with experts, 0 in dense models [GiB]."""
    most = max(map(total, memory_expert_instants.values()), default=0.0)
    return memory_state_gib + most if most else 0.0
