"""What would fit: the breakdown of the peak and values to set instead."""

from __future__ import annotations

from fp8tune.facts.memory import GIB
from fp8tune.facts.peak import BANDS
from fp8tune.job import Job, Unknown, Words

WIDEST = max(BANDS[family][1] for family in ("dense", "one GPU"))
"""How far above the estimate a peak under full AC may lie."""


def breakdown(
    memory_peak_at: str,
    memory_init_gib: float,
    params_rank: float,
    weight_bytes: int,
    optimizer_bytes: int,
    optimizer_temporary_bytes: int,
    kept_gradient_bytes: int,
    shards: int,
    memory_gradients_gib: float,
    memory_late_gradients_gib: float,
    memory_reduced_gradients_gib: float,
    memory_gathered_gib: float,
    memory_activations_gib: float,
    memory_queued_gib: float,
    memory_head_gib: float,
    memory_logits_gib: float,
    memory_held_logits_gib: float,
    memory_recompute_gib: float,
    memory_routers_gib: float,
    memory_backward_gib: float,
    memory_backward_end_gib: float,
    stage_layers: int,
    moe_layers: int,
) -> dict[str, float]:
    """Parts of the peak, largest first [GiB].

    What is not allocated by torch comes on top: the CUDA context, NCCL's buffers, and
    what the allocator reserves beside it.
    """
    if memory_peak_at == "init":
        return {"the whole model": memory_init_gib}
    each = params_rank / shards / GIB
    late = memory_backward_end_gib > memory_backward_gib
    kept = memory_activations_gib / (stage_layers if late else 1)
    routers = memory_routers_gib * (1 - 1 / max(1, moe_layers))
    parts = {
        "loss": {
            "gradients": memory_gradients_gib,
            "activations": memory_activations_gib + memory_head_gib,
            "logits": memory_logits_gib,
        },
        "backward": {
            "gradients": memory_late_gradients_gib if late else memory_gradients_gib,
            "activations": memory_queued_gib + kept,
            "logits": memory_held_logits_gib,
            "one block recomputed": memory_recompute_gib,
            "gathered by FSDP": memory_gathered_gib,
            "kept by routers": routers if late else 0.0,
        },
        "optimizer step": {
            "gradients": memory_reduced_gradients_gib,
            "logits": memory_held_logits_gib,
            "kept by routers": memory_routers_gib,
            "temporaries of the step": each * optimizer_temporary_bytes,
        },
    }
    found = {"weights": each * weight_bytes, "optimizer state": each * optimizer_bytes}
    found |= parts[memory_peak_at]
    found["gradients"] += each * kept_gradient_bytes
    return dict(sorted(found.items(), key=lambda part: -part[1]))


def largest_parts(memory_breakdown: dict[str, float]) -> str:
    """The three largest parts of the peak, in words."""
    largest = list(memory_breakdown.items())[:3]
    return Words(", ".join(f"{name} {gib:.0f}" for name, gib in largest))


def largest_micro_batch(
    job: Job,
    micro_batch: int,
    estimate_family: str,
    memory_usable_gib: float,
    memory_cached_weights_gib: float,
    memory_state_gib: float,
    memory_gradients_gib: float,
    memory_late_gradients_gib: float,
    memory_gathered_gib: float,
    memory_init_gib: float,
    memory_loss_gib: float,
    memory_backward_gib: float,
    memory_backward_end_gib: float,
) -> int:
    """Largest micro-batch whose whole band is usable, 0 if there is none."""
    limit = memory_usable_gib - memory_cached_weights_gib
    limit /= 1 + BANDS[estimate_family][1]
    if memory_init_gib > limit:
        return 0
    early = memory_state_gib + memory_gradients_gib
    late = memory_state_gib + memory_late_gradients_gib + memory_gathered_gib
    instants = (
        (early, memory_loss_gib),
        (early + memory_gathered_gib, memory_backward_gib),
        (late, memory_backward_end_gib),
    )
    fits = (micro_batch * (limit - held) / (gib - held) for held, gib in instants)
    found = max(0, int(min(fits)))
    while found and _too_much(job, found, memory_usable_gib):
        found -= 1
    return found


def _too_much(job: Job, batch: int, usable: float) -> bool:
    """Whether a micro-batch fits by proportion only: a chunk of the loss is fixed."""
    high: float = job.with_values({"micro_batch": batch})["memory.high_gib"]
    return high > usable


def full_ac_gib(
    ac: str,
    hidden_size: int,
    ffn_size: int,
    moe_layers: int,
    stage_layers: int,
    block_tokens: int,
    tp: int,
    params_block: float,
    activation_bytes: float,
    norm_bytes: int,
    attention_bytes: float,
    memory_init_gib: float,
    memory_loss_gib: float,
    memory_backward_gib: float,
    memory_backward_end_gib: float,
    memory_optimizer_gib: float,
    memory_activations_gib: float,
    memory_recompute_gib: float,
) -> float:
    """The most that the config would need if every block were checkpointed [GiB].

    An upper bound: a block is computed anew as in eager mode, gated, and FSDP holds 3
    bytes more of each of its parameters. Unknown for mixtures of experts.
    """
    if moe_layers:
        raise Unknown("memory.full_ac_gib")
    saved = 0.0 if ac == "full" else 1 - 2 * hidden_size / activation_bytes
    less = saved * memory_activations_gib
    split = 11 * hidden_size if tp > 1 else 0
    block = 12 * ffn_size / tp + 2 * norm_bytes + attention_bytes + split
    anew = (block * block_tokens + 3 * params_block) / GIB - memory_recompute_gib
    backward = memory_backward_gib - less + anew
    end = memory_backward_end_gib - less / stage_layers + anew
    rest = max(memory_init_gib, memory_optimizer_gib)
    return max(rest, memory_loss_gib - less, backward, end)


def sizing(memory_largest_micro_batch: int) -> str:
    """The words before the micro-batch that is advised."""
    found = "set" if memory_largest_micro_batch else "it does not fit even with"
    return Words(found)


def otherwise(
    ac: str,
    memory_usable_gib: float,
    memory_largest_micro_batch: int,
    memory_full_ac_gib: float | None = None,
) -> str:
    """What to do besides, or instead, in words: full AC only where it surely fits."""
    full = memory_full_ac_gib
    if ac != "full" and full is not None and full * (1 + WIDEST) <= memory_usable_gib:
        return Words(f", or full AC: at most {full:.0f} GiB")
    return Words("" if memory_largest_micro_batch else "; shard over more GPUs")


def one_batch_gib(
    grad_accum: int,
    memory_state_gib: float,
    memory_gathered_gib: float,
    memory_activations_gib: float,
    memory_head_gib: float,
    memory_logits_gib: float,
    memory_held_logits_gib: float,
    memory_recompute_gib: float,
) -> float:
    """The peak with all micro-batches of a step at once, without accumulation [GiB]."""
    loss = memory_head_gib + memory_logits_gib
    backward = memory_held_logits_gib + memory_recompute_gib
    gathered = 2 * memory_gathered_gib
    once = grad_accum * (memory_activations_gib + max(loss, backward))
    return memory_state_gib + gathered + once
