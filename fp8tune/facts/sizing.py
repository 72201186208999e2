"""What would fit: the breakdown of the peak and values to set instead."""

from __future__ import annotations

import contextlib
from typing import Any

from fp8tune.facts.gpus import largest
from fp8tune.facts.memory import GIB
from fp8tune.facts.peak import BANDS
from fp8tune.job import Job, Prose, Unknown, Words

RECOMPUTED, GATHERED = "one block recomputed", "gathered by FSDP"

FACTORS = (2, 4, 8, 16, 32, 64)
"""How many times as many GPUs are tried."""


def breakdown(
    memory_peak_at: str,
    memory_init_gib: float,
    params_padded: float,
    weight_bytes: int,
    optimizer_bytes: float,
    optimizer_temporary_bytes: float,
    kept_gradient_bytes: float,
    shards: int,
    memory_gradients_gib: float,
    memory_late_gradients_gib: float,
    memory_reduced_gradients_gib: float,
    memory_table_parts: dict[str, dict[str, float]],
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
    memory_peak_gib: float,
    memory_workspaces_gib: float,
    memory_stacked_gib: float,
    stage_layers: int,
    moe_layers: int,
) -> dict[str, float]:
    """Parts of the peak, largest first [GiB].

    What is not allocated by torch comes on top: the CUDA context, NCCL's buffers, and
    what the allocator reserves beside it.
    """
    if memory_peak_at == "init":
        return {"the whole model": memory_init_gib}
    each = params_padded / shards / GIB
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
            RECOMPUTED: memory_recompute_gib,
            GATHERED: memory_gathered_gib,
            "kept by routers": routers if late else 0.0,
        },
        "optimizer step": {
            "gradients": memory_reduced_gradients_gib,
            "logits": memory_held_logits_gib,
            "kept by routers": memory_routers_gib,
            "temporaries of the step": optimizer_temporary_bytes / GIB,
        },
    }
    parts["reduction of experts"] = {
        name: gib
        for name, gib in parts["backward"].items()
        if name not in (RECOMPUTED, GATHERED)
    }
    parts |= memory_table_parts
    found = {"weights": each * weight_bytes, "optimizer state": each * optimizer_bytes}
    found |= parts[memory_peak_at]
    found["gradients"] += each * kept_gradient_bytes
    found["cuBLAS workspaces"] = memory_workspaces_gib
    if memory_stacked_gib and "activations" in found:
        last = late and memory_peak_at in ("backward", "reduction of experts")
        found["copies of experts"] = memory_stacked_gib / (stage_layers if last else 1)
        found["activations"] -= found["copies of experts"]
    left = memory_peak_gib - sum(found.values())
    if memory_peak_at in memory_table_parts:
        found["embedding and head"] = left
    elif memory_peak_at == "reduction of experts":
        found[GATHERED] = left
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
    memory_gather_gib: float,
    memory_forward_gib: float,
    memory_loss_gib: float,
    memory_regather_gib: float,
    memory_backward_gib: float,
    memory_backward_end_gib: float,
    memory_embedding_gib: float,
    memory_reduce_gib: float,
    memory_optimizer_gib: float,
    memory_routers_gib: float,
    memory_activations_gib: float,
    memory_stacked_gib: float,
    memory_head_gib: float,
    memory_held_logits_gib: float,
    memory_new_logits_gib: float,
    stage_layers: int,
    fp8_batch_step: int = 1,
) -> int:
    """Largest micro-batch whose whole band is usable, 0 if there is none."""
    limit = memory_usable_gib - memory_cached_weights_gib
    limit /= 1 + BANDS[estimate_family][1]
    kept = memory_held_logits_gib + memory_routers_gib
    tables = max(memory_gather_gib, memory_embedding_gib, memory_reduce_gib)
    last = max(tables, memory_optimizer_gib)
    if max(memory_init_gib, last - kept) > limit:
        return 0
    fixed = memory_state_gib + memory_stacked_gib
    grows = memory_activations_gib - memory_stacked_gib
    grows += memory_head_gib + memory_held_logits_gib
    forward = memory_forward_gib - grows - memory_new_logits_gib
    regather = memory_regather_gib - grows - memory_held_logits_gib
    early = fixed + memory_gradients_gib
    late = memory_state_gib + memory_stacked_gib / stage_layers
    late += memory_late_gradients_gib + memory_gathered_gib
    instants = (
        (early, memory_loss_gib),
        (forward, memory_forward_gib),
        (regather, memory_regather_gib),
        (early + memory_gathered_gib, memory_backward_gib),
        (late, memory_backward_end_gib),
        (last - kept, last),
    )
    fits = (
        micro_batch * (limit - held) / (gib - held)
        for held, gib in instants
        if gib > held
    )
    found = max(0, int(min(fits))) // fp8_batch_step * fp8_batch_step
    while found and _too_much(job, found, memory_usable_gib):
        found -= fp8_batch_step
    return found


def _too_much(job: Job, batch: int, usable: float) -> bool:
    """Whether a micro-batch fits by proportion only: a chunk of the loss is fixed."""
    high: float = job.with_values({"micro_batch": batch})["memory.high_gib"]
    return high > usable


def advice(
    job: Job,
    micro_batch: int,
    grad_accum: int,
    ac: str,
    ac_usable: tuple[str, ...],
    pp: int,
    memory_fit: str,
    memory_largest_micro_batch: int | None = None,
) -> str:
    """What to set where the run does not surely fit, in words.

    Of a family of GPUs, on the largest of them.

    A smaller micro-batch or full AC if either surely fits, else both, else less
    accumulation, whose gradients may be whole; values with which it hardly fits if
    there are no better; else on how many GPUs the least of the run would fit. No values
    where nothing is known to fit: how much of the GPU is usable, or a pipeline's last
    stage.
    """
    member = largest(job["gpu"])
    if member:
        on_member = job.on_gpu(member)
        return Prose(f"on {member}, the largest, {on_member['memory.advice']}")
    if memory_largest_micro_batch is None or pp > 1:
        return Prose(_what_matters(job, micro_batch, ac, ac_usable))
    full = {"ac": "full"} if "full" in ac_usable and ac != "full" else {}
    once = {"grad_accum": 1} if grad_accum > 1 else {}
    if memory_largest_micro_batch:
        smaller = _said(job, {"micro_batch": memory_largest_micro_batch})
        other = job.with_values(full)
        surely = full and _fit(other) == "fits"
        words = f", or {_said(job, full)}: {_most(other)}" if surely else ""
        return Prose(f"set {smaller}{words}")
    for wanted in ("fits", "tight")[: 1 + (memory_fit == "out-of-memory")]:
        for changes in (full, once, full | once):
            found = _with_batch(job, changes, micro_batch, wanted)
            if changes and found:
                other = job.with_values(found)
                hardly = ", which hardly fits" if wanted == "tight" else ""
                return Prose(f"set {_said(job, found)}: {_most(other)}{hardly}")
    least = {"micro_batch": job["fp8.batch_step"]}
    return Prose(_on_more_gpus(job, full | once | least))


def _what_matters(job: Job, micro_batch: int, ac: str, modes: tuple[str, ...]) -> str:
    fuller = "full" in modes and ac != "full"
    options = (
        f"a smaller `{job.key('micro_batch')}`" if micro_batch > 1 else "",
        f'`{job.key("ac")} = "full"`' if fuller else "",
        "more GPUs",
    )
    *some, last = filter(None, options)
    return f"it takes {', '.join(some)}{', or ' if some else ''}{last}"


def _with_batch(
    job: Job, changes: dict[str, Any], micro_batch: int, wanted: str
) -> dict[str, Any]:
    """The changes with the largest micro-batch tried that fits so, empty for none."""
    sizes = [micro_batch]
    with contextlib.suppress(Unknown):
        sizes.append(job.with_values(changes)["memory.largest_micro_batch"])
    while sizes[-1] > 1:
        sizes.append(sizes[-1] // 2)
    for size in filter(None, sizes):
        found = changes | ({} if size == micro_batch else {"micro_batch": size})
        if _fit(job.with_values(found)) == wanted:
            return found
    return {}


def _on_more_gpus(job: Job, least: dict[str, Any]) -> str:
    """On how many GPUs the least of the run would surely fit, in words."""
    words = f"it does not fit even with {_said(job, least)}"
    shards, gpus, fit = job["dp_shard"], job["world_size"], "unknown"
    for factor in FACTORS:
        shared = least | {"dp_shard": shards * factor}
        fit = _fit(job.with_values(shared, gpus * factor))
        if fit == "fits":
            return f"{words}; with these it takes {gpus * factor} GPUs"
    if fit == "unknown":
        return words
    if job["memory.init_gib"] > job["gpu.memory_limit_gib"]:
        return f"{words}: each GPU builds the whole model before it is sharded"
    words += f", nor on {gpus * FACTORS[-1]} GPUs"
    length = job["seq_len"]
    says = [key for key in job.keys_of("seq_len") if job.given.get(key) == length]
    for factor in FACTORS:
        sequence = {key: max(1, length // factor) for key in says[:1]}
        if sequence and _fit(job.with_values(least | sequence)) == "fits":
            return f"{words}; it would with {_said(job, sequence)}"
    return words


def _fit(job: Job) -> str:
    """Whether a job fits; unknown where no FP8 GEMM takes its tokens."""
    try:
        odd = job["micro_batch"] % job["fp8.batch_step"]
        return "unknown" if odd else str(job["memory.fit"])
    except Unknown:
        return "unknown"


def _most(job: Job) -> str:
    return f"at most {job['memory.high_gib']:.0f} GiB"


def _said(job: Job, changes: dict[str, Any]) -> str:
    values = {n: f'"{v}"' if isinstance(v, str) else v for n, v in changes.items()}
    pairs = [f"`{job.key(name)} = {value}`" for name, value in values.items()]
    return " and ".join(filter(None, (", ".join(pairs[:-1]), *pairs[-1:])))


def one_batch_gib(
    grad_accum: int,
    memory_init_gib: float,
    memory_state_gib: float,
    memory_gathered_gib: float,
    memory_activations_gib: float,
    memory_stacked_gib: float,
    memory_head_gib: float,
    memory_logits_gib: float,
    memory_held_logits_gib: float,
    memory_recompute_gib: float,
) -> float:
    """The peak with all micro-batches of a step at once, without accumulation [GiB]."""
    loss = memory_head_gib + memory_logits_gib
    backward = memory_held_logits_gib + memory_recompute_gib
    gathered = 2 * memory_gathered_gib
    grows = memory_activations_gib - memory_stacked_gib + max(loss, backward)
    held = memory_state_gib + gathered + memory_stacked_gib
    return max(memory_init_gib, held + grad_accum * grows)
