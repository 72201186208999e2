"""Fields of the job that Megatron-LM and Megatron-Bridge read from the same settings.

They are the fields of TransformerConfig, OptimizerConfig and
DistributedDataParallelConfig, by their names there.

Source: megatron/core/transformer/transformer_config.py, core/optimizer and
core/distributed at d98e8a64d.
"""

from __future__ import annotations

import math
from typing import Any

from fp8tune.job import Job, Unknown, known
from fp8tune.trainers.megatron_lm.activations import RECOMPUTED


def global_batch(global_batch_size: Any) -> int:
    """Sequences of one optimizer step; all micro-batches of one round by default."""
    return int(known("global_batch", global_batch_size))


def grad_accum(
    dp_ranks: int,
    micro_batch: int,
    global_batch_size: Any,
) -> int:
    """Micro-batches per optimizer step."""
    if global_batch_size is None:
        return 1
    steps, rest = divmod(global_batch_size, micro_batch * dp_ranks)
    if rest or not steps:
        raise Unknown("grad_accum.rest")
    return int(steps)


def head_dim(hidden_size: int, heads: int, kv_channels: Any) -> int:
    """Size of one attention head."""
    return kv_channels or hidden_size // heads


def known_degrees(job: Job) -> int:
    """Ranks of one copy of the model, of the degrees that the file says."""
    return math.prod(job.find(name) or 1 for name in ("tp", "pp", "cp"))


def etp(expert_tensor_parallel_size: Any, tp: int) -> int:
    """Tensor-parallel degree of the experts."""
    return int(expert_tensor_parallel_size or tp)


def expert_size(experts: int, moe_ffn_hidden_size: Any, ffn_size: int) -> int:
    """Width of one expert's FFN."""
    return int(moe_ffn_hidden_size or ffn_size) if experts else 0


def shared_experts(moe_shared_expert_intermediate_size: Any) -> int:
    """Experts that process every token: none, or one of their whole width."""
    return int(bool(moe_shared_expert_intermediate_size))


def shared_expert_size(experts: int, moe_shared_expert_intermediate_size: Any) -> int:
    """Width of all shared experts together."""
    return int(moe_shared_expert_intermediate_size or 0) if experts else 0


def learned_positions(position_embedding_type: str) -> bool:
    """Whether positions have a table."""
    return position_embedding_type == "learned_absolute"


def bf16_ends(
    first_last_layers_bf16: bool,
    num_layers_at_start_in_bf16: int,
    num_layers_at_end_in_bf16: int,
) -> tuple[int, int]:
    """Layers at both ends that FP8 leaves out."""
    if not first_last_layers_bf16:
        return 0, 0
    return num_layers_at_start_in_bf16, num_layers_at_end_in_bf16


def all_layers_in_bf16(job: Job, bf16_ends: tuple[int, int]) -> bool:
    """Whether the ends that FP8 leaves out are all layers; no if a recipe has these."""
    layers = job.find("layers")
    return layers is not None and sum(bf16_ends) >= layers


def norm_vectors(normalization: str) -> int:
    """Vectors of one norm: a scale, and of LayerNorm a bias too."""
    return 1 if normalization == "RMSNorm" else 2


def optimizer_copies(num_distributed_optimizer_instances: int) -> int:
    """Copies of the sharded optimizer state."""
    return num_distributed_optimizer_instances


def lower_moments(use_precision_aware_optimizer: bool) -> bool:
    """Whether the optimizer's state has dtypes of its own."""
    return use_precision_aware_optimizer


def half_precision(precision: str, bf16: bool, fp16: bool) -> bool:
    """Whether weights and activations have 16 bits; FP8 does not set that."""
    return precision in ("bf16", "fp16") or (precision == "fp8" and (bf16 or fp16))


def compute_bytes(half_precision: bool) -> int:
    """Bytes of a value in compute; inputs and outputs of FP8 linears are no FP8."""
    return 2 if half_precision else 4


def fp8_weights(fp8_param_gather: bool) -> bool:
    """Whether weights are kept in FP8."""
    return fp8_param_gather


def qk_norm(qk_layernorm: bool) -> bool:
    """Whether queries and keys are normalised."""
    return qk_layernorm


def logit_copies(
    cross_entropy_loss_fusion: bool, cross_entropy_fusion_impl: str
) -> int:
    """Copies of the logits in fp32 that the loss makes.

    One; Transformer Engine's fused loss works in place, and Megatron's own fused one
    cannot change its copy in place.
    """
    if not cross_entropy_loss_fusion:
        return 1
    fused = {"te": 0, "native": 2}
    return known("logit_bytes", fused.get(str(cross_entropy_fusion_impl)))


def recomputed(ac: str, recompute_modules: Any) -> tuple[str, ...]:
    """Modules that selective recomputation computes again."""
    if ac != "selective":
        return ()
    found = tuple(recompute_modules or ("core_attn",))
    if not set(found) <= set(RECOMPUTED):
        raise Unknown("activation_bytes.modules")
    return found


def recomputed_layers(
    ac: str,
    layers: int,
    pp: int,
    virtual_stages: int,
    recompute_method: Any,
    recompute_num_layers: Any,
) -> tuple[float, float]:
    """Share of layers that are computed again as a whole, and how many at a time.

    ``uniform`` covers all, so many at a time; ``block`` the first of each stage.
    """
    if ac != "full":
        return 0, 0
    count = recompute_num_layers or 1
    if recompute_method == "block":
        return min(1, count * pp * virtual_stages / layers), 1
    return 1, count


def kept_input_bytes(
    hidden_size: int,
    compute_bytes: int,
    stream_share: float,
    tp: int,
    distribute_saved_activations: bool,
) -> float:
    """Bytes per token of the input of a layer that is computed again."""
    share = 1 / tp if distribute_saved_activations else stream_share
    return compute_bytes * hidden_size * share


def ac_modes() -> tuple[str, ...]:
    """AC modes that wrap some module, including none."""
    return ("none", "selective", "full")


def compile() -> bool:  # noqa: A001
    """Whether the model is compiled: unknown, and Transformer Engine's kernels fuse."""
    raise Unknown("compile")


def data_missing() -> tuple[str, ...]:
    """Parts of the data that are not here: not looked at."""
    return ()
