"""What one rank holds under transformers' Trainer and Accelerate (``shared``).

For dense decoders that are trained whole with AdamW, sharded by FSDP or ZeRO or copied
by DDP. A trainer says ``parallel`` (``ddp``, ``fsdp1``, ``fsdp2``, ``zero1`` to
``zero3``; ``""`` for one GPU alone),
``loaded_bytes`` per parameter of the weights as its script loads them, and what stands
in the way (``covered``).

FSDP keeps weights in fp32 and computes in bf16. Without it the Trainer computes under
autocast: the weights stay as they were loaded, each linear gets a copy in bf16, and
with fp32 weights the residual stream and the norms are fp32 too.

Bytes per token are closed forms of the tensors that a block of transformers saves for
its backward pass. ``python -m benchmarks.hugging_face.memory`` compares the estimate
with the live memory of the real Trainer.

Source: accelerate 1.15.0, accelerator.py and utils/fsdp_utils.py; transformers 5.23.0,
trainer.py, models/llama/modeling_llama.py and loss/loss_utils.py.
"""

from __future__ import annotations

from typing import Any

from fp8tune.facts.memory import GIB
from fp8tune.job import Unknown, Words, known

BF16, FP32 = 2, 4

BANDS = {
    "ddp": (0.05, 0.08),
    "fsdp": (0.08, 0.10),
    "te": (0.2, 0.2),
    "zero": (0.12, 0.12),
}
"""How far below and above the estimate a peak may lie, as shares of it.

More than the worst errors of the real Trainer on the CPU (``results/hf_memory.md``),
because a CPU does not show the workspaces of kernels. No run of Transformer Engine was
measured.
"""

FURTHER = 0.15
"""How far below a predicted gain the true one may lie with these trainers [ratio]."""

MAX_LIVE = 1e9
"""Parameters that ZeRO 3 keeps gathered (``stage3_max_live_parameters``)."""

FUSED, FOREACH = "adamw_torch_fused", "adamw_torch"


def dense_ffn_layers(layers: int, experts: int) -> int:
    """Blocks with a dense FFN."""
    return 0 if experts else layers


def ffn_size(sizes: dict[str, Any]) -> int:
    """Width of a dense FFN; 0 where every block has experts."""
    return int(sizes.get("ffn", 0))


def cp() -> int:
    """Context-parallel degree: none, if no key says it."""
    return 1


def ep() -> int:
    """Expert-parallel degree: none."""
    return 1


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


def degrees_fit(
    declared_gpus: int | None = None, world_size: int | None = None
) -> bool:
    """Whether the processes are as many as the GPUs."""
    return None in (declared_gpus, world_size) or declared_gpus == world_size


def speed_fp8_gain_low(speed_fp8_gain: float, speed_fp8_gather_gain: float) -> float:
    """Lower end of the gain's band [ratio].

    The only published run of these trainers whose settings are known gained 0.12 less
    than predicted: Axolotl's example ``llama-3/3b-fp8-fsdp2.yaml``, about 1.10
    (https://docs.axolotl.ai/docs/mixed_precision.html).
    """
    return min(speed_fp8_gain - FURTHER, speed_fp8_gain / speed_fp8_gather_gain)


def not_modelled() -> tuple[str, ...]:
    """What the predicted gain leaves out, in words."""
    return (
        "these trainers' own overhead: Axolotl's documentation reports 1.10 for its "
        "Llama 3.2 3B example, for which 1.22 is predicted",
    )


def speed_tokens_per_second() -> float:
    """Tokens/s, which no published run of these trainers lets predict."""
    raise Unknown("speed.trainer")


def fp8_tp_refused() -> bool:
    """Whether it refuses FP8 with tensor parallelism: there is none."""
    return False


def fp8_scales_precomputed() -> bool:
    """Whether one all-reduce gets all scales: no clause is needed on it."""
    return True


def block_tokens(micro_batch: int, seq_len: int) -> int:
    """Tokens of one micro-batch on a rank, at most."""
    return micro_batch * seq_len


def fp8_tokens(block_tokens: int) -> tuple[int, ...]:
    """M of the FP8 linears on one rank [tokens]."""
    return (block_tokens,)


def ac_modes() -> tuple[str, ...]:
    """AC modes: whole blocks, or none."""
    return ("none", "full")


def eager(covered: bool, ac: str, compile: bool) -> bool:  # noqa: A002
    """True where blocks keep what eager ones do: with full AC compiled ones too."""
    if not covered or (compile and ac != "full"):
        raise Unknown("activation_bytes.whole")
    if ac not in ("none", "full"):
        raise Unknown("ac_applied")
    return True


def compute_bytes(precision: str) -> int:
    """Bytes of a value in compute; inputs and outputs of FP8 linears are bf16."""
    return known("compute_bytes", {"bf16": BF16, "fp8": BF16}.get(precision))


def weight_bytes(
    covered: bool, sharded: bool, zero_stage: int, loaded_bytes: int | None = None
) -> int:
    """Bytes per parameter of the weights: FSDP casts them to fp32, ZeRO to bf16."""
    if not covered:
        raise Unknown("memory.switch")
    if zero_stage:
        return BF16
    return FP32 if sharded else known("weights.dtype", loaded_bytes)


def residual_bytes(sharded: bool, weight_bytes: int) -> int:
    """Bytes of a value in the residual stream."""
    return BF16 if sharded else weight_bytes


def fused(optimizer: str) -> bool:
    """Whether AdamW is one fused kernel."""
    return optimizer == FUSED


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


def kept_gradient_bytes(
    parallel: str, zero_stage: int, world_size: int, weight_bytes: int
) -> int:
    """Bytes per parameter of DDP's buckets, which it copies the gradients to.

    ZeRO 3 keeps its shard of the gradients in fp32.
    """
    if zero_stage == 3:
        return FP32
    return weight_bytes if parallel == "ddp" and world_size > 1 else 0


def gradient_bytes(weight_bytes: int, zero_stage: int, world_size: int) -> float:
    """Bytes per parameter of gradients before the step: in the weights' dtype.

    ZeRO has them in bf16, of stage 2 on its shard twice, and its shard in fp32.
    """
    whole = {1: BF16 + FP32 / world_size, 2: 8 / world_size, 3: 0}
    return whole.get(zero_stage, weight_bytes)


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


def memory_gathered_gib(
    sharded: bool,
    params_root: float,
    params_head_gradient: float,
    params_block: float,
    gathered_bytes: float,
    live_bytes: float,
    bucket_bytes: float,
) -> float:
    """Weights and gradients that are whole in the backward pass [GiB].

    Of FSDP's two blocks, embedding and head, and the head's gradient.
    """
    root = BF16 * (params_root + params_head_gradient) if sharded else live_bytes
    return (root + gathered_bytes * params_block + bucket_bytes) / GIB


def cast_bytes(residual_bytes: int, precision: str, te_recipe: str = "") -> int:
    """Bytes per parameter of the copies of linears that autocast makes.

    torchao's linears cast fp32 weights to FP8, so they have no copy in bf16.
    Transformer Engine keeps each in FP8, as it is and transposed
    (https://github.com/NVIDIA/TransformerEngine/issues/1429).
    """
    if te_recipe and precision == "fp8":
        return 2
    return BF16 if residual_bytes == FP32 and precision == "bf16" else 0


def block_bytes(
    hidden_size: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    ffn_size: int,
    qk_norm: bool,
    residual_bytes: int,
    moe_layers: int,
) -> float:
    """Bytes per token that an eager block saves for its backward pass.

    Two norms, each with its input and, if that is not bf16, a cast for every linear;
    queries, keys, values and the output of attention; gate, its activation, up, and
    their product. Norms of queries and keys keep them in fp32 and in bf16.
    """
    if moe_layers:
        raise Unknown("memory.experts", 0)
    queries, pairs = heads * head_dim, kv_heads * head_dim
    whole = residual_bytes == FP32
    norms = (26 if whole else 16) * hidden_size + 2 * FP32
    attention = 4 * queries + 4 * pairs + FP32 * heads
    if qk_norm:
        attention += 6 * (queries + pairs) + FP32 * (heads + kv_heads)
    return norms + attention + 8 * ffn_size


def activation_bytes(
    ac_applied: str,
    eager: bool,
    hidden_size: int,
    residual_bytes: int,
    block_bytes: float,
) -> float:
    """Bytes per token that one block keeps: with full AC its input."""
    return (
        block_bytes if eager and ac_applied == "none" else residual_bytes * hidden_size
    )


def recompute_bytes(
    ac_applied: str,
    hidden_size: int,
    ffn_size: int,
    residual_bytes: int,
    precision: str,
    block_bytes: float,
) -> float:
    """Bytes per token of one block in its backward pass, beyond what it kept.

    What full AC computes again, the gradient of its output, and in the FFN those of
    gate, activation and up, less the product. FP8 casts an input and a gradient.
    """
    gradients = residual_bytes * hidden_size + 4 * ffn_size
    casts = hidden_size + ffn_size if precision == "fp8" else 0
    if ac_applied == "none":
        return gradients + casts
    kept = residual_bytes * hidden_size if residual_bytes == FP32 else 0
    return block_bytes - kept + gradients + casts


def logit_bytes() -> int:
    """Bytes per token and vocabulary entry in the backward pass of the loss.

    Log-probabilities and two gradients, all in fp32.
    """
    return 3 * FP32


def new_logit_bytes() -> int:
    """Bytes per token and vocabulary entry at the end of the forward pass.

    Logits in bf16, in fp32, and their log-probabilities.
    """
    return BF16 + 2 * FP32


def head_bytes(
    hidden_size: int,
    residual_bytes: int,
    block_tokens: int,
    memory_tables_bytes: float,
) -> float:
    """Bytes per token of the final norm in the loss, and of the tables beside it.

    The norm's input in fp32, its output and its cast.
    """
    norm = FP32 + 2 * (FP32 if residual_bytes == FP32 else BF16)
    return norm * hidden_size + memory_tables_bytes / block_tokens


def memory_tables_bytes(
    parallel: str,
    sharded: bool,
    tables_apart: bool,
    params_embedding: int,
    params_head: float,
    params_block: float,
    cast_bytes: int,
    live_bytes: float,
) -> float:
    """Bytes of embedding and head in bf16 when the backward pass begins.

    FSDP2 gathers both at once, or the head alone; FSDP1 the last block too. Autocast
    has a copy of the head, ZeRO 3 the weights that it has gathered.
    """
    if not sharded:
        return cast_bytes * params_embedding + live_bytes
    embedding = 0 if tables_apart else params_head
    block = params_block if parallel == "fsdp1" else 0
    return BF16 * (params_embedding + embedding + block)


def copies_gib(params_rank: float, params_root: float, cast_bytes: int) -> float:
    """Copies of all linears in bf16 that live through the forward pass [GiB]."""
    return cast_bytes * (params_rank - params_root) / GIB


def memory_activations_gib(
    block_tokens: int,
    stage_layers: int,
    activation_bytes: float,
    ac_applied: str,
    copies_gib: float,
) -> float:
    """Activations of all blocks, without AC with the copies of their weights [GiB]."""
    copies = copies_gib if ac_applied == "none" else 0.0
    return block_tokens * stage_layers * activation_bytes / GIB + copies


def memory_forward_gib(
    memory_state_gib: float,
    memory_gradients_gib: float,
    memory_activations_gib: float,
    memory_head_gib: float,
    memory_new_logits_gib: float,
    params_root: float,
    params_last_group: float,
    sharded: bool,
    ac_applied: str,
    copies_gib: float,
) -> float:
    """At the end of the forward pass [GiB].

    With what FSDP has gathered, embedding and last block, or the copies of autocast.
    """
    gathered = BF16 * (params_root / 2 + params_last_group) / GIB if sharded else 0.0
    copies = copies_gib if ac_applied != "none" else 0.0
    held = memory_state_gib + memory_gradients_gib + memory_activations_gib
    return held + memory_head_gib + memory_new_logits_gib + gathered + copies


def memory_embedding_gib(
    parallel: str,
    sharded: bool,
    tables_apart: bool,
    shards: int,
    grad_accum: int,
    gradient_bytes: int,
    params_rank: float,
    params_root: float,
    params_embedding: int,
    params_head_gradient: float,
    params_tied: bool,
    bucket_bytes: float,
    memory_state_gib: float,
    memory_other_gradients_gib: float,
) -> float:
    """Embedding's backward pass: its gradient and the head's [GiB].

    FSDP has the gradients of the group in bf16 and the buffer from which it reduces
    them; FSDP1 its weights too, FSDP2 the shards of that buffer in bf16 and in fp32.
    Gradients of a tied weight are added in a third tensor.
    """
    if not sharded:
        tables = params_embedding * (1 + params_tied) + params_head_gradient
        if grad_accum > 1 and not params_tied:
            tables = params_embedding
        new = (gradient_bytes * tables + bucket_bytes) / GIB
        return memory_state_gib + memory_other_gradients_gib + new
    group = params_embedding if tables_apart else params_root
    others = gradient_bytes * (params_rank - group) / shards
    more = BF16 if parallel == "fsdp1" else (BF16 + FP32) / shards
    whole = (2 * BF16 + more + BF16 * params_tied) * group
    return memory_state_gib + (others + whole) / GIB


def memory_reduced_gradients_gib(
    params_rank: float, gradient_bytes: int, shards: int
) -> float:
    """Gradients at the end of the backward pass [GiB]."""
    return params_rank * gradient_bytes / shards / GIB


def memory_added_gradients_gib() -> float:
    """New gradients that are added to kept ones: DDP copies them to its buckets."""
    return 0.0


def memory_expert_instants(moe_layers: int) -> dict[str, dict[str, float]]:
    """Instants of blocks with experts, which no estimate covers."""
    if moe_layers:
        raise Unknown("memory.experts", {})
    return {}


def estimate_family(sharded: bool, zero_stage: int, te_recipe: str = "") -> str:
    """The group of measured runs from which the estimate's error is taken."""
    if te_recipe:
        return Words("te")
    if zero_stage:
        return Words("zero")
    return Words("fsdp" if sharded else "ddp")


def memory_low_gib(memory_peak_gib: float, estimate_family: str) -> float:
    """Lower end of the peak's band [GiB]."""
    return memory_peak_gib * (1 - BANDS[estimate_family][0])


def memory_high_gib(memory_peak_gib: float, estimate_family: str) -> float:
    """Upper end of the peak's band [GiB]."""
    return memory_peak_gib * (1 + BANDS[estimate_family][1])
