"""Peak memory of rank 0: the largest of its instants, and what it is made of.

``docs/accuracy.md`` compares with every published run that we hold.
"""

from __future__ import annotations

from fp8tune.facts.memory import COPIES, GATHERED, GIB, PADDING, RECOMPUTED, Parts
from fp8tune.job import Words


def peak_gib(
    memory_init_gib: float,
    memory_gather_gib: float,
    memory_forward_gib: float,
    memory_loss_gib: float,
    memory_regather_gib: float,
    memory_backward_gib: float,
    memory_backward_end_gib: float,
    memory_experts_gib: float,
    memory_embedding_gib: float,
    memory_reduce_gib: float,
    memory_optimizer_gib: float,
) -> float:
    """Peak memory allocated on rank 0 [GiB].

    As ``torch.cuda.max_memory_allocated`` counts it. The CUDA context, NCCL's buffers
    and the allocator's reserve come on top, several GiB. With a pipeline the last stage
    holds more than this, because it has the logits.
    """
    blocks = max(memory_backward_gib, memory_backward_end_gib, memory_experts_gib)
    tables = max(memory_regather_gib, memory_embedding_gib, memory_reduce_gib)
    begin = max(memory_init_gib, memory_gather_gib, memory_forward_gib)
    return max(begin, memory_loss_gib, blocks, tables, memory_optimizer_gib)


def peak_at(
    memory_peak_gib: float,
    memory_init_gib: float,
    memory_gather_gib: float,
    memory_forward_gib: float,
    memory_loss_gib: float,
    memory_regather_gib: float,
    memory_embedding_gib: float,
    memory_reduce_gib: float,
    memory_optimizer_gib: float,
    memory_state_gib: float,
    memory_expert_instants: dict[str, dict[str, float]],
) -> str:
    """Moment of the peak: init, loss, a part of the backward pass, or the step."""
    experts = {
        memory_state_gib + sum(parts.values()): name
        for name, parts in memory_expert_instants.items()
    }
    instants = experts | {
        memory_reduce_gib: "reduction of embedding and head",
        memory_embedding_gib: "backward of the embedding",
        memory_regather_gib: "gathering of embedding and head",
        memory_optimizer_gib: "optimizer step",
        memory_gather_gib: "gathering of the first block",
        memory_forward_gib: "end of the forward pass",
        memory_loss_gib: "loss",
        memory_init_gib: "init",
    }
    return Words(instants.get(memory_peak_gib, "backward"))


def block_parts(
    optimizer_temporary_bytes: float,
    memory_gradients_gib: float,
    memory_late_gradients_gib: float,
    memory_reduced_gradients_gib: float,
    memory_gathered_gib: float,
    memory_activations_gib: float,
    memory_stacked_gib: float,
    memory_queued_gib: float,
    memory_head_gib: float,
    memory_logits_gib: float,
    memory_held_logits_gib: float,
    memory_recompute_gib: float,
    memory_routers_gib: float,
    memory_backward_gib: float,
    memory_backward_end_gib: float,
    stage_layers: int,
) -> dict[str, Parts]:
    """Memory by part in the loss, the blocks' backward pass and the step [GiB]."""
    late = memory_backward_end_gib > memory_backward_gib
    kept = memory_activations_gib / (stage_layers if late else 1)
    return {
        "loss": {
            "gradients": memory_gradients_gib,
            "activations": memory_activations_gib
            - memory_stacked_gib
            + memory_head_gib,
            COPIES: memory_stacked_gib,
            "logits": memory_logits_gib,
        },
        "backward": {
            "gradients": memory_late_gradients_gib if late else memory_gradients_gib,
            "activations": memory_queued_gib + kept,
            "logits": memory_held_logits_gib,
            RECOMPUTED: memory_recompute_gib,
            GATHERED: memory_gathered_gib,
        },
        "optimizer step": {
            "gradients": memory_reduced_gradients_gib,
            "logits": memory_held_logits_gib,
            "kept by routers": memory_routers_gib,
            "temporaries of the step": optimizer_temporary_bytes / GIB,
        },
    }


def table_parts(
    memory_gradients_gib: float,
    memory_other_gradients_gib: float,
    memory_activations_gib: float,
    memory_stacked_gib: float,
    memory_head_gib: float,
    memory_held_logits_gib: float,
    memory_new_logits_gib: float,
    memory_routers_gib: float,
) -> dict[str, Parts]:
    """Memory by part at the moments of embedding and head, without the two [GiB]."""
    late = {
        "gradients": memory_other_gradients_gib,
        "logits": memory_held_logits_gib,
        "kept by routers": memory_routers_gib,
    }
    early = {
        "gradients": memory_gradients_gib,
        "activations": memory_activations_gib - memory_stacked_gib + memory_head_gib,
        COPIES: memory_stacked_gib,
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


def breakdown(
    memory_peak_at: str,
    memory_init_gib: float,
    params_padded: float,
    weight_bytes: int,
    optimizer_bytes: float,
    kept_gradient_bytes: float,
    shards: int,
    memory_block_parts: dict[str, Parts],
    memory_table_parts: dict[str, Parts],
    memory_expert_instants: dict[str, Parts],
    memory_peak_gib: float,
    memory_workspaces_gib: float,
) -> dict[str, float]:
    """Parts of the peak, largest first [GiB].

    Memory that torch does not allocate comes on top: the CUDA context, NCCL's buffers
    and the allocator's reserve.
    """
    if memory_peak_at == "init":
        return {"the whole model": memory_init_gib}
    each = params_padded / shards / GIB
    found = {"weights": each * weight_bytes, "optimizer state": each * optimizer_bytes}
    instants = memory_block_parts | memory_table_parts | memory_expert_instants
    found |= instants[memory_peak_at]
    found["gradients"] += each * kept_gradient_bytes
    found["cuBLAS workspaces"] = memory_workspaces_gib
    left = memory_peak_gib - sum(found.values())
    if memory_peak_at in memory_table_parts:
        found["embedding and head"] = left
    return dict(sorted(found.items(), key=lambda part: -part[1]))


EXACT = (
    "weights",
    "optimizer state",
    "gradients",
    "logits",
    "embedding and head",
    "cuBLAS workspaces",
    GATHERED,
    PADDING,
)
"""Parts that are arithmetic of number formats."""


def exact_gib(memory_breakdown: dict[str, float]) -> float:
    """Part of the peak that number formats and shards give exactly [GiB].

    Measured runs correct the rest of it first.
    """
    return sum(gib for name, gib in memory_breakdown.items() if name in EXACT)


def largest_parts(memory_breakdown: dict[str, float]) -> str:
    """The three largest parts of the peak, in words."""
    largest = list(memory_breakdown.items())[:3]
    return Words(", ".join(f"{name} {gib:.0f}" for name, gib in largest))
