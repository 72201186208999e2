"""What one rank holds per parameter under transformers' Trainer (``shared``).

A trainer says ``parallel`` (``ddp``, ``fsdp1``, ``fsdp2``, ``zero1`` to ``zero3``;
``""`` for one GPU alone), and ``loaded_bytes`` per parameter of the weights as its
script loads them.

FSDP keeps weights in fp32 and computes in bf16. (FSDP2 of Accelerate 1.13 warns that it
casts them, and does not: fsdp2_prepare_model drops the cast.) Without it the Trainer
computes under autocast, and the weights stay as they were loaded.

``python -m benchmarks.hugging_face.memory`` compares the estimate with the live memory
of the real Trainer.

Source: accelerate 1.15.0, accelerator.py and utils/fsdp_utils.py; transformers 5.23.0,
trainer.py; deepspeed 0.19.8, runtime/zero.
"""

from __future__ import annotations

from fp8tune.job import Job, Unknown, known

BF16, FP32 = 2, 4

MAX_LIVE = 1e9
"""Parameters that ZeRO 3 keeps gathered (``stage3_max_live_parameters``)."""

FUSED, FOREACH = "adamw_torch_fused", "adamw_torch"


def sharded(parallel: str) -> bool:
    """Whether FSDP shards the weights."""
    return parallel.startswith("fsdp")


def zero_stage(parallel: str) -> int:
    """What ZeRO shards: 1 optimizer state, 2 and gradients, 3 and weights; or 0."""
    return int(parallel.removeprefix("zero")) if parallel.startswith("zero") else 0


def shards(sharded: bool, zero_stage: int, world_size: int) -> int:
    """Ranks that share one copy of the weights: all, with FSDP and ZeRO 3."""
    return world_size if sharded or zero_stage == 3 else 1


def dp_shard(shards: int) -> int:
    """Shards of the weights."""
    return shards


def dp_replicate(shards: int, world_size: int) -> int:
    """Copies of the weights: one on each GPU if they are not sharded."""
    return world_size // shards


def fused(optimizer: str) -> bool:
    """Whether AdamW is one fused kernel."""
    return optimizer == FUSED


def compute_bytes(precision: str) -> int:
    """Bytes of a value in compute; inputs and outputs of FP8 linears are bf16."""
    return known("compute_bytes", {"bf16": BF16, "fp8": BF16}.get(precision))


def fsdp_upcasts() -> bool:
    """Whether FSDP casts the weights to fp32: by default it does."""
    return True


def weight_bytes(
    job: Job, covered: bool, sharded: bool, zero_stage: int, fsdp_upcasts: bool
) -> int:
    """Bytes per parameter of the weights: FSDP casts them to fp32, ZeRO to bf16."""
    if not covered:
        raise Unknown("memory.switch")
    if zero_stage:
        return BF16
    upcast = sharded and fsdp_upcasts
    return FP32 if upcast else int(job["loaded_bytes"])


def optimizer_bytes(
    optimizer: str, weight_bytes: int, zero_stage: int, world_size: int
) -> float:
    """Bytes per parameter of AdamW's two moments, in the weights' dtype.

    ZeRO keeps them and a copy of the weights in fp32, sharded over all GPUs.
    """
    if optimizer not in (FUSED, FOREACH):
        raise Unknown("optimizer_bytes")
    if zero_stage:
        return 3 * FP32 / (world_size if zero_stage < 3 else 1)
    return 2 * weight_bytes


def optimizer_temporary_bytes(
    optimizer: str, weight_bytes: int, params_rank: float, shards: int
) -> float:
    """Bytes that a step allocates: without the fused kernel a square root of each."""
    return 0.0 if optimizer == FUSED else weight_bytes * params_rank / shards


def gradient_bytes(weight_bytes: int, zero_stage: int, world_size: int) -> float:
    """Bytes per parameter of gradients before the step: in the weights' dtype.

    ZeRO has them in bf16, of stage 2 on its shard twice, and its shard in fp32.
    """
    whole = {1: BF16 + FP32 / world_size, 2: 8 / world_size, 3: 0}
    return whole.get(zero_stage, weight_bytes)


def kept_gradient_bytes(
    parallel: str, zero_stage: int, world_size: int, weight_bytes: int
) -> int:
    """Bytes per parameter of DDP's buckets, which it copies the gradients to.

    ZeRO 3 keeps its shard of the gradients in fp32.
    """
    if zero_stage == 3:
        return FP32
    return weight_bytes if parallel == "ddp" and world_size > 1 else 0


def accumulated_gradient_bytes() -> int:
    """Bytes per parameter of summed gradients that FSDP has reduced: none.

    The Trainer reduces those of the last micro-batch alone (``no_sync``).
    """
    return 0


def reduces_each_micro_batch() -> bool:
    """Whether FSDP reduces the gradients of each micro-batch: of the last alone."""
    return False


def unsharded_gradient_bytes(
    grad_accum: int, sharded: bool, zero_stage: int, world_size: int, weight_bytes: int
) -> float:
    """Bytes per parameter of gradients that are summed whole on each rank."""
    if grad_accum == 1 or zero_stage == 3:
        return 0
    whole = BF16 if sharded else weight_bytes
    return whole / world_size if zero_stage == 2 else whole


def gathered_bytes(sharded: bool) -> int:
    """Bytes per parameter of a block that FSDP holds in its backward pass.

    Weights of two blocks in bf16, and a gradient in bf16 that is reduced. Without FSDP
    the block's copy in bf16, which is counted with its activations.
    """
    return 3 * BF16 if sharded else 0


def tables_apart() -> bool:
    """Whether FSDP gathers embedding and head each by itself: not by default."""
    return False


def live_bytes(zero_stage: int, params_rank: float) -> float:
    """Bytes of weights that ZeRO 3 has gathered: up to its ``max_live_parameters``."""
    return BF16 * min(params_rank, MAX_LIVE) if zero_stage == 3 else 0


def bucket_bytes() -> float:
    """Bytes of the buffer from which ZeRO reduces gradients: there is none."""
    return 0
