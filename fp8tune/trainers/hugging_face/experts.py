"""What one rank holds of mixtures of experts under transformers' Trainer (``shared``).

Since transformers 5 a block's experts are two 3-D parameters. A grouped product of
PyTorch computes all of them (``grouped_mm``, the default): tokens are sorted by expert,
and its memory does not depend on how they are routed. Autocast does not reach it: with
weights in fp32 experts compute in fp32, and no copies of them are made.

Source: transformers 5.0.0 to 5.23.0, integrations/moe.py (grouped_mm_experts_forward),
models/mixtral, models/qwen2_moe and models/qwen3_moe; torch 2.13, torch.distributed.
"""

from __future__ import annotations

from typing import Any

from fp8tune.facts.memory import GATHERED, GIB, RECOMPUTED, Parts, added, total
from fp8tune.job import Job, Unknown

BF16, FP32, INT64 = 2, 4, 8

INDICES = 4
"""64-bit index tensors of the sorting, one value for each row, that autograd keeps."""

UP, DOWN = 2 / 3, 1 / 3
"""Shares of a gated expert's weights: gate and up are one parameter, down another."""


def experts_grouped(
    experts_implementation: Any = None,
    transformers_release: str = "",
    transformers_at_most: str = "",
) -> bool:
    """Whether one grouped product computes all experts.

    So by default since transformers 5, which is assumed where no file pins a release.
    """
    default = experts_implementation in (None, "grouped_mm")
    release = transformers_release or transformers_at_most
    return default and not release.startswith("4")


def experts_per_token(sizes: dict[str, Any]) -> int:
    """Experts that process a token; ``top_k`` is another key of LLaMA-Factory."""
    return int(sizes.get("top_k", 0))


def expert_padding(job: Job, experts: int) -> float:
    """Parameters of experts that FSDP2 adds to a block, as rows of zeros.

    It shards 3-D parameters along the experts, and pads them to the number of shards.
    """
    if not experts or job["parallel"] != "fsdp2" or not job["experts_grouped"]:
        return 0.0
    each = float(job["params.routed_experts"]) / experts
    return -experts % int(job["shards"]) * each


def expert_bytes(
    hidden_size: int,
    experts: int,
    shared_experts: int,
    expert_size: int,
    experts_per_token: int,
    residual_bytes: int,
    experts_grouped: bool,
) -> float:
    """Bytes per token that router and experts of an eager block save.

    Of each of the token's experts: its input, gate and up, the activation, the product
    and the output. The router's probabilities are fp32; the few bytes of a loss on them
    are not counted. Other implementations keep at least this in bf16.
    """
    value = residual_bytes if experts_grouped else BF16
    rows = experts_per_token * value * (2 * hidden_size + 4 * expert_size)
    router = FP32 * experts + (INDICES * INT64 + FP32) * experts_per_token
    shared = BF16 * (4 * expert_size * shared_experts + hidden_size)
    casts = 4 if shared_experts else 1  # of router, gate, up and the shared gate
    found = rows + router + (shared if shared_experts else 0)
    found += casts * BF16 * hidden_size if residual_bytes == FP32 else 0
    if experts and not experts_grouped:
        raise Unknown("experts_grouped", found)
    return found


def expert_backward_bytes(
    hidden_size: int,
    expert_size: int,
    experts_per_token: int,
    residual_bytes: int,
    block_bytes: float,
    model_family: str,
) -> dict[str, float]:
    """Bytes per token of a block with experts at three moments of its backward pass.

    ``before`` any gradient of weights: three gradients of all experts' outputs, in fp32
    in Mixtral, whose router does not cast its weights, and then one cast. ``beside``
    that of the down projections: that of their outputs, or of gate and up. ``after``
    that of gate and up too.
    """
    gradient = residual_bytes * hidden_size
    outputs = FP32 if model_family == "mixtral" else residual_bytes
    cast = residual_bytes if outputs != residual_bytes else 0
    row = experts_per_token * residual_bytes
    rest = block_bytes - row * (2 * hidden_size + 4 * expert_size) + gradient
    wider = max(hidden_size, expert_size)
    gradients = experts_per_token * hidden_size * (3 * outputs + cast)
    return {
        "before": block_bytes + gradient + gradients,
        "beside": rest + row * (hidden_size + 5 * expert_size + wider),
        "after": rest + row * (2 * hidden_size + 2 * expert_size),
    }


def new_gradient_bytes(sharded: bool, zero_stage: int, weight_bytes: int) -> int:
    """Bytes per parameter of a gradient that the backward pass has just computed."""
    return BF16 if sharded or zero_stage else weight_bytes


def expert_backward_gib(
    grad_accum: int,
    sharded: bool,
    block_tokens: int,
    ac_applied: str,
    hidden_size: int,
    residual_bytes: int,
    new_gradient_bytes: int,
    params_routed_experts: float,
    params_block: float,
    expert_backward_bytes: dict[str, float],
) -> list[Parts]:
    """Memory of one block with experts at those moments [GiB].

    Gradients that are added to accumulated ones are freed one by one. FSDP holds the
    whole group until the block is done.
    """
    kept = residual_bytes == FP32 and ac_applied != "none"
    input_bytes = residual_bytes * hidden_size if kept else 0
    freed = grad_accum > 1 and not sharded
    gradients = {
        "before": 0.0,
        "beside": DOWN * params_routed_experts,
        "after": UP * params_routed_experts if freed else params_block,
    }
    return [
        {
            RECOMPUTED: block_tokens * (per_token - input_bytes) / GIB,
            "gradients": new_gradient_bytes * gradients[moment] / GIB,
        }
        for moment, per_token in expert_backward_bytes.items()
    ]


def expert_gathered_bytes(
    layers: int,
    moe_layers: int,
    parallel: str,
    sharded: bool,
    tables_apart: bool,
    params_expert_group: float,
    params_head: float,
) -> dict[int, float]:
    """Bytes that FSDP holds for a block and its neighbours, by blocks before it.

    Of the last two and the first two blocks; what is held changes evenly between them.
    Weights of the block and of the one before it, gathered ahead, and the buffer from
    which the gradients of the one after it are reduced. FSDP1 holds no such buffer, but
    gathers its gradients in one.
    """
    if not moe_layers:
        return {}
    ends = (layers, max(1, layers - 1), min(2, layers), 1)
    places = dict.fromkeys(ends, 0.0)
    for place in places if sharded else ():
        groups = 1 + (place > 1) + (place < layers or parallel == "fsdp1")
        places[place] = BF16 * params_expert_group * groups
    if sharded and tables_apart:
        places[layers] += BF16 * params_head
    return places


def expert_held_gradients_gib(
    layers: int,
    compile: bool,  # noqa: A002
    grad_accum: int,
    sharded: bool,
    tables_apart: bool,
    shards: int,
    zero_stage: int,
    world_size: int,
    gradient_bytes: float,
    unsharded_gradient_bytes: float,
    params_block: float,
    params_head: float,
    params_head_gradient: float,
    memory_gradients_gib: float,
    expert_gathered_bytes: dict[int, float],
) -> dict[int, float]:
    """Gradients of other blocks, and accumulated ones, at those places [GiB].

    The head's is reduced before them if FSDP gathers it apart. ZeRO makes its copies in
    fp32 after the backward pass.
    """
    copies = FP32 / world_size if zero_stage in (1, 2) else 0
    new = gradient_bytes / shards - copies
    head = params_head_gradient
    if sharded:
        new = new - unsharded_gradient_bytes
        head = params_head if tables_apart else 0
    elif grad_accum > 1 and not compile:
        new = 0
    return {
        place: memory_gradients_gib
        + new * ((layers - place) * params_block + head) / GIB
        for place in expert_gathered_bytes
    }


def memory_expert_instants(
    layers: int,
    memory_activations_gib: float,
    memory_gathered_gib: float,
    gathered_bytes: float,
    params_block: float,
    params_head: float,
    tables_apart: bool,
    expert_gathered_bytes: dict[int, float],
    expert_held_gradients_gib: dict[int, float],
    expert_backward_gib: list[Parts],
    ac_applied: str,
    experts_grouped: bool,
) -> dict[str, Parts]:
    """The largest peak in the backward pass of blocks with experts [GiB].

    Embedding and head are not gathered then if each is a group of its own.
    """
    if not expert_gathered_bytes:
        return {}
    if not experts_grouped:
        raise Unknown("experts_grouped", {})
    apart = tables_apart and params_head
    block = gathered_bytes * params_block / GIB
    tables = 0.0 if apart else memory_gathered_gib - block
    own = 1 if ac_applied == "none" else 0
    found = [
        added(
            {
                "gradients": expert_held_gradients_gib[place],
                "activations": memory_activations_gib * (place - own) / layers,
                GATHERED: tables + around / GIB,
            },
            work,
        )
        for place, around in expert_gathered_bytes.items()
        for work in expert_backward_gib
    ]
    return {"backward": max(found, key=total)}
