"""What would fit: the breakdown of the peak and values to set instead."""

from __future__ import annotations

from fp8tune.facts.peak import BANDS
from fp8tune.job import Words


def breakdown(
    memory_peak_at: str,
    memory_state_gib: float,
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
) -> dict[str, float]:
    """Parts of the peak, largest first [GiB]."""
    late = memory_backward_end_gib > memory_backward_gib
    kept = memory_activations_gib + memory_head_gib
    parts = {
        "init": {"the whole model": 0.0},
        "loss": {
            "gradients": memory_gradients_gib,
            "activations": kept,
            "logits": memory_logits_gib,
        },
        "backward": {
            "gradients": memory_late_gradients_gib if late else memory_gradients_gib,
            "activations": memory_queued_gib + (0.0 if late else kept),
            "logits": memory_held_logits_gib,
            "one block recomputed": memory_recompute_gib,
            "gathered by FSDP": memory_gathered_gib,
            "kept by routers": memory_routers_gib if late else 0.0,
        },
        "optimizer step": {
            "gradients": memory_reduced_gradients_gib,
            "logits": memory_held_logits_gib,
        },
    }
    found = {"weights and optimizer": memory_state_gib} | parts[memory_peak_at]
    return dict(sorted(found.items(), key=lambda part: -part[1]))


def largest_parts(memory_breakdown: dict[str, float]) -> str:
    """The three largest parts of the peak, in words."""
    largest = list(memory_breakdown.items())[:3]
    return Words(", ".join(f"{name} {gib:.0f}" for name, gib in largest))


def largest_micro_batch(
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
    return max(0, int(min(fits)))


def full_ac_gib(
    ac: str,
    hidden_size: int,
    activation_bytes: float,
    memory_loss_gib: float,
    memory_activations_gib: float,
) -> float:
    """What the loss would need if every block were checkpointed [GiB]."""
    saved = 0.0 if ac == "full" else 1 - 2 * hidden_size / activation_bytes
    return memory_loss_gib - saved * memory_activations_gib


def sizing(memory_largest_micro_batch: int) -> str:
    """The words before the micro-batch that is advised."""
    found = "set" if memory_largest_micro_batch else "it does not fit even with"
    return Words(found)


def otherwise(
    ac: str,
    memory_full_ac_gib: float,
    memory_usable_gib: float,
    memory_largest_micro_batch: int,
) -> str:
    """What to do besides, or instead, in words."""
    if ac != "full" and memory_full_ac_gib <= memory_usable_gib:
        return Words(f", or full AC: about {memory_full_ac_gib:.0f} GiB")
    if memory_largest_micro_batch:
        return Words("")
    full = "" if ac == "full" else "checkpoint all blocks (full AC), or "
    return Words(f"; {full}shard over more GPUs")


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
