"""What one rank of NeMo Automodel holds of mixtures of experts.

Known for Qwen3's, with backends that are plain PyTorch. ``dispatcher: torch`` gathers
the tokens of all expert-parallel ranks; ``experts: torch_mm`` sorts their rows by
expert and computes them by grouped products. The rows are taken to be spread evenly
over these ranks. With EP, FSDP shards the rest of a block, and the experts only over
the ranks that EP leaves; it keeps gathered weights until the backward pass.

Source: Automodel at commit 36044ad3d, components/moe/experts.py, layers.py,
parallelizer.py and fsdp_mixin.py, components/models/qwen3_moe.
"""

from __future__ import annotations

from typing import Any

from fp8tune.facts.memory import GIB, held
from fp8tune.facts.memory.experts import FORWARD
from fp8tune.facts.memory.sums import GATHERED, RECOMPUTED, Parts, added, total
from fp8tune.job import Job, Unknown

BF16, FP32, INT64 = 2, 4, 8

FAMILY = "qwen3_moe"

PLAIN: dict[str, tuple[Any, ...]] = {
    "attn": ("sdpa",),
    "linear": ("torch",),
    "rms_norm": (None, "torch_fp32"),
    "dispatcher": ("torch",),
    "experts": (None, "torch_mm", "te", "gmm"),
    "compile_attn": (None, False),
}
"""Values of ``model.backend`` that are modelled.

The default of the first two is Transformer Engine where it is installed; ``te`` and
``gmm`` are torch_mm with this dispatcher.
"""

INDICES = INT64 * 3 + FP32 + 1
"""Bytes of a row that the sorting keeps: three indices, its weight and a mask."""

DOWN = 1 / 3
"""Share of a gated expert's weights that project down."""


def experts_modelled(
    job: Job, layers: int, moe_layers: int, precision: str, sizes: dict[str, Any]
) -> bool:
    """True for dense models, and for mixtures of experts whose memory is known."""
    if not moe_layers:
        return True
    backend = (job.find(f"model.backend.{n}") in v for n, v in PLAIN.items())
    if sizes.get("family") != FAMILY or moe_layers != layers or not all(backend):
        raise Unknown("memory.dispatcher", False)
    if _moe(job).get("reshard_after_forward"):
        raise Unknown("memory.gathered", False)
    with_ep = job["expert_ranks"] > 1
    if job["shards"] % job["expert_ranks"]:
        raise Unknown("shards.product", False)
    cast = with_ep and job["weight_bytes"] != BF16
    padded = not with_ep and job["experts"] % job["shards"]
    if precision != "bf16" or job["compile"] or cast or padded:
        raise Unknown("memory.expert_setting", False)
    return True


def _moe(job: Job) -> dict[str, Any]:
    """The section of the parallelizer of mixtures of experts."""
    found = job.find("distributed.moe")
    return found if isinstance(found, dict) else {}


def expert_attention_bytes(
    hidden_size: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    compute_bytes: int,
    sharded: bool,
) -> float:
    """Bytes per token that norms and attention of a block with experts save.

    Queries and keys before their norms, queries, keys and values, and the output of
    attention as it is computed and as it is laid out for the projection.
    """
    queries, pairs = heads * head_dim, kv_heads * head_dim
    rotary = (2 if compute_bytes == BF16 else 0) * (1 if sharded else 2) * head_dim
    values = 4 * hidden_size + 4 * queries + 3 * pairs
    return compute_bytes * values + FP32 * (2 * heads + kv_heads + 2) + rotary


def expert_bytes(
    hidden_size: int,
    experts: int,
    expert_size: int,
    top_k: int,
    compute_bytes: int,
) -> float:
    """Bytes per token that router and experts save.

    Of each of the token's experts its input, gate and up, and their product, which is
    weighted.
    """
    row = compute_bytes * (hidden_size + 3 * expert_size) + INDICES
    return top_k * row + FP32 * experts


def expert_block_bytes(
    experts_modelled: bool, expert_attention_bytes: float, expert_bytes: float
) -> float:
    """Bytes per token that a whole block with experts saves."""
    return expert_attention_bytes + expert_bytes if experts_modelled else 0


def expert_saved_bytes(
    job: Job,
    ac_applied: str,
    expert_ranks: int,
    hidden_size: int,
    experts: int,
    top_k: int,
    head_dim: int,
    compute_bytes: int,
    sharded: bool,
    expert_block_bytes: float,
) -> float:
    """Bytes per token that one block with experts keeps.

    With full AC its input. Without EP AC wraps norms, attention and experts each. With
    EP it keeps what the router computed, unless ``ignore_router_for_ac`` is false.
    """
    if ac_applied == "none":
        return expert_block_bytes
    one = compute_bytes * hidden_size
    if ac_applied != "full":
        raise Unknown("activation_bytes.selective", one)
    cast = BF16 * head_dim if sharded else 0
    if expert_ranks == 1:
        return 4 * one + cast
    router = compute_bytes * experts + (FP32 + INT64) * top_k
    kept = _moe(job).get("ignore_router_for_ac") is not False
    return one + cast + (router if kept else 0)


def expert_forward_bytes(
    hidden_size: int, expert_ranks: int, top_k: int, compute_bytes: int
) -> float:
    """Bytes per token of the experts' output: its rows, also in fp32, and their sum.

    With EP also the gathered input, in parts and whole.
    """
    gathered = 2 * compute_bytes * expert_ranks if expert_ranks > 1 else 0
    rows = top_k * (compute_bytes + FP32)
    return hidden_size * (rows + FP32 * expert_ranks + gathered)


def expert_backward_bytes(
    hidden_size: int,
    expert_size: int,
    expert_ranks: int,
    top_k: int,
    compute_bytes: int,
    ac_applied: str,
    expert_bytes: float,
    expert_block_bytes: float,
    expert_forward_bytes: float,
) -> dict[str, float]:
    """Bytes per token of one block at three moments of its backward pass.

    ``before`` any gradient of weights: while AC computes the experts' output again,
    beside its gradient, or while the gradient is spread over the rows. ``beside`` that
    of the down projections, ``after`` that of gate and up too.
    """
    one, row = compute_bytes * hidden_size, top_k * compute_bytes
    parts = ac_applied == "full" and expert_ranks == 1
    saved = expert_bytes if parts else expert_block_bytes
    grad = one + FP32 * expert_ranks * hidden_size
    if expert_ranks > 1:  # gathered inputs take part in a sum, times zero
        grad += compute_bytes * expert_ranks * hidden_size
    rows = top_k * (compute_bytes + FP32) * hidden_size
    before = max(rows, expert_forward_bytes if ac_applied == "full" else 0)
    product, gates = row * expert_size, 2 * row * expert_size
    return {
        "before": saved + grad + before,
        "beside": saved + one + row * hidden_size + product + gates,
        "after": saved + one + gates + row * hidden_size - product,
    }


def params_expert_local(params_routed_experts: float, expert_ranks: int) -> float:
    """Parameters of one block's experts on one expert-parallel rank."""
    return params_routed_experts / expert_ranks


def params_fsdp_block(
    expert_ranks: int,
    shards: int,
    params_block: float,
    params_routed_experts: float,
    params_expert_local: float,
) -> float:
    """Parameters of one block that FSDP gathers: with EP perhaps without experts."""
    if expert_ranks == 1:
        return params_block
    outside = params_block - params_routed_experts
    return outside + (params_expert_local if shards > expert_ranks else 0)


def memory_expert_gradients(
    layers: int,
    expert_ranks: int,
    grad_accum: int,
    sharded: bool,
    shards: int,
    weight_bytes: int,
    compute_bytes: int,
    unsharded_gradient_bytes: int,
    params_block: float,
    params_head_gradient: float,
    memory_gradients_gib: float,
) -> dict[int, float]:
    """Gradients of other blocks and accumulated ones, by blocks before them [GiB].

    In the backward pass of the last block, the one before it, and the first.
    """
    each = weight_bytes / shards if sharded else compute_bytes
    head = compute_bytes * params_head_gradient if expert_ranks == 1 else 0
    if grad_accum > 1 and (not sharded or unsharded_gradient_bytes):
        each = head = 0
    return {
        place: memory_gradients_gib
        + (each * (layers - place) * params_block + head) / GIB
        for place in {layers, max(1, layers - 1), 1}
    }


def memory_expert_gathered(
    layers: int,
    expert_ranks: int,
    sharded: bool,
    prefetched_blocks: int,
    unsharded_gradient_bytes: int,
    params_root: float,
    params_fsdp_block: float,
    memory_expert_gradients: dict[int, float],
) -> dict[int, float]:
    """Weights that FSDP holds at those places, and its buffer for gradients [GiB]."""
    found = dict.fromkeys(memory_expert_gradients, 0.0)
    for place in found if sharded else ():
        whole = place if expert_ranks > 1 else min(place, 1 + prefetched_blocks)
        reduced = place < layers and not unsharded_gradient_bytes
        block = BF16 * whole + (FP32 if reduced else 0)
        found[place] = (BF16 * params_root + block * params_fsdp_block) / GIB
    return found


def expert_backward_gib(
    block_tokens: int,
    expert_ranks: int,
    compute_bytes: int,
    params_block: float,
    params_expert_local: float,
    expert_backward_bytes: dict[str, float],
) -> list[Parts]:
    """Memory of one block at the moments of its backward pass [GiB]."""
    gradients = {
        "before": 0.0,
        "beside": DOWN * params_expert_local,
        "after": params_expert_local if expert_ranks > 1 else params_block,
    }
    return [
        {
            RECOMPUTED: block_tokens * per_token / GIB,
            "gradients": compute_bytes * gradients[moment] / GIB,
        }
        for moment, per_token in expert_backward_bytes.items()
    ]


def memory_expert_instants(
    moe_layers: int,
    layers: int,
    ac_applied: str,
    block_tokens: int,
    experts_modelled: bool,
    expert_saved_bytes: float,
    expert_block_bytes: float,
    expert_forward_bytes: float,
    memory_gradients_gib: float,
    memory_held_logits_gib: float,
    memory_expert_gradients: dict[int, float],
    memory_expert_gathered: dict[int, float],
    expert_backward_gib: list[Parts],
) -> dict[str, Parts]:
    """The largest peaks in blocks with experts, forward and backward [GiB]."""
    if not (moe_layers and experts_modelled):
        return {}
    own = 1 if ac_applied == "none" else 0
    each = block_tokens * expert_saved_bytes / GIB
    last = {
        "gradients": memory_gradients_gib,
        "activations": each * (layers - own),
        RECOMPUTED: block_tokens * (expert_block_bytes + expert_forward_bytes) / GIB,
        GATHERED: memory_expert_gathered[layers],
    }
    backward = [
        added(
            {
                "gradients": memory_expert_gradients[place],
                "activations": each * (place - own),
                "logits": memory_held_logits_gib,
                GATHERED: memory_expert_gathered[place],
            },
            work,
        )
        for place in memory_expert_gradients
        for work in expert_backward_gib
    ]
    found = {"backward": max(backward, key=total)}
    return found if ac_applied == "full" else found | {FORWARD: last}


def params_first_group(
    moe_layers: int, params_dense_block: float, params_fsdp_block: float
) -> float:
    """Parameters of the block that FSDP gathers first and reduces last."""
    return params_fsdp_block if moe_layers else params_dense_block


def params_last_group(params_first_group: float) -> float:
    """Parameters of the block that FSDP gathers last: all blocks are alike."""
    return params_first_group


def memory_gradients_gib(
    expert_ranks: int,
    shards: int,
    layers: int,
    grad_accum: int,
    weight_bytes: int,
    params_rank: float,
    params_root: float,
    params_fsdp_block: float,
    params_expert_local: float,
    unsharded_gradient_bytes: int,
    accumulated_gradient_bytes: int,
) -> float:
    """Gradients that accumulation keeps [GiB].

    With EP those of experts that FSDP does not shard have the dtype of the weights.
    """
    if expert_ranks == 1:
        return held.gradients_gib(
            params_rank, unsharded_gradient_bytes, accumulated_gradient_bytes, shards
        )
    each = unsharded_gradient_bytes + accumulated_gradient_bytes / shards
    found = each * (params_root + layers * params_fsdp_block)
    if shards == expert_ranks and grad_accum > 1:
        found += weight_bytes * layers * params_expert_local
    return found / GIB
