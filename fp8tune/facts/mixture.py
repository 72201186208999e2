"""Instants at which blocks with experts weigh most, by their place in the model."""

from __future__ import annotations

from fp8tune.facts.memory import GIB
from fp8tune.facts.sums import COPIES, GATHERED, Parts, added, total

FORWARD, BACKWARD = "forward pass of experts", "backward"
REDUCED = "reduction of experts"


def expert_places(
    ep: int, moe_layers: int, moe_every: int
) -> dict[str, tuple[int, int, float]]:
    """Blocks whose activations are there, how many have experts, and routers that keep.

    When the forward pass is in the first block with experts or the last; when the last
    is differentiated, the next, the second and the first; when gradients of the last
    and the first are reduced.
    """
    if not moe_layers:
        return {}
    every, each = moe_every, 1 / moe_layers
    two = min(2, moe_layers)
    near = two if ep > 1 else 1
    gone = 0 if ep > 1 else 1
    last = every * moe_layers
    return {
        "forward, first": (every, 1, 1 - each),
        "forward, last": (last, moe_layers, 0.0),
        "last": (last, moe_layers, 0.0),
        "next": (last - every, moe_layers - 1, each),
        "second": (two * every, two, 1 - two * each),
        "first": (every, 1, 1 - each),
        "last reduced": (last - gone, moe_layers - 1, each),
        "first reduced": (near * every - gone, near - 1, 1 - near * each),
    }


def expert_held(
    layers: int,
    moe_layers: int,
    params_root: float,
    params_head_gradient: float,
    params_first_block: float,
    params_period: float,
    shards: int,
    compute_bytes: int,
    gradient_bytes: int,
    unsharded_gradient_bytes: int,
    reduce_bytes: int,
    memory_gradients_gib: float,
    memory_late_gradients_gib: float,
    memory_activations_gib: float,
    memory_dense_activations_gib: float,
    memory_expert_activations_gib: float,
    memory_stacked_gib: float,
    memory_routers_gib: float,
    memory_held_logits_gib: float,
    memory_expert_places: dict[str, tuple[int, int, float]],
) -> dict[str, Parts]:
    """What is held beside one block with experts, by its place in the model [GiB].

    Embedding and head are gathered. Near the first block all gradients are there; what
    accumulation kept of blocks is gone when they were reduced.
    """
    tables = bool(reduce_bytes) * compute_bytes * params_root / GIB
    both = tables + bool(reduce_bytes) * compute_bytes * params_head_gradient / GIB
    block = gradient_bytes * params_first_block / shards / GIB
    new = 0.0 if unsharded_gradient_bytes or not reduce_bytes else block
    late = memory_late_gradients_gib
    gone = unsharded_gradient_bytes * params_period / GIB
    gradients = {
        "next": memory_gradients_gib - gone,
        "second": late,
        "first": late + new,
        "first reduced": late,
    }
    whole = memory_activations_gib - memory_stacked_gib
    more = memory_expert_activations_gib - memory_dense_activations_gib
    return {
        place: {
            "gradients": gradients.get(place, memory_gradients_gib),
            "activations": whole
            - (layers - blocks) * memory_dense_activations_gib
            - (moe_layers - mixed) * more,
            COPIES: memory_stacked_gib * mixed / moe_layers,
            "logits": memory_held_logits_gib,
            "kept by routers": memory_routers_gib * routers,
            GATHERED: tables if place.startswith("forward") else both,
        }
        for place, (blocks, mixed, routers) in memory_expert_places.items()
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
    """The largest of these instants, of each kind [GiB]; none for dense models."""
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
    """Where blocks with experts weigh most, 0 in dense models [GiB]."""
    most = max(map(total, memory_expert_instants.values()), default=0.0)
    return memory_state_gib + most if most else 0.0
