"""The fields of a job that follow from several flags of Megatron-LM.

Source: megatron/training/arguments.py and core/fp8_utils.py at d98e8a64d.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

from fp8tune.job import Job, Unknown, Words, known

HISTORY = ("fp8_amax_history_len", "fp8_amax_compute_algo", "fp8_margin")
"""Flags of delayed scaling alone."""

OTHER_FP8 = ("fp8_recipe", "fp8_interval", "no_fp8_wgrad", "first_last_layers_bf16")
RECIPES = {
    "delayed": "delayed",
    "tensorwise": "current",
    "blockwise": "block",
    "mxfp8": "mxfp8",
}
"""Transformer Engine's recipes by Megatron's names."""

SCALER = ("initial_loss_scale", "min_loss_scale", "loss_scale_window", "hysteresis")
"""Flags of the dynamic loss scale."""

BF16_LAYERS = ("num_layers_at_start_in_bf16", "num_layers_at_end_in_bf16")


def precision(fp8_format: Any, transformer_impl: str, bf16: bool, fp16: bool) -> str:
    """Precision of the linears: FP8 only with layers of Transformer Engine."""
    if fp8_format and transformer_impl == "transformer_engine":
        return Words("fp8")
    return Words("bf16" if bf16 else "fp16" if fp16 else "fp32")


def te_format(fp8_format: Any) -> str:
    """FP8 format of Transformer Engine; empty without FP8."""
    return Words(fp8_format or "")


def te_recipe(fp8_recipe: str, te_format: str, transformer_impl: str) -> str:
    """Transformer Engine's recipe, ``""`` without FP8 or without its layers."""
    if not te_format or transformer_impl != "transformer_engine":
        return Words("")
    return Words(known("te_recipe", RECIPES.get(fp8_recipe)))


def local_layers(transformer_impl: str) -> bool:
    """Whether layers are Megatron's own, which have no FP8."""
    return transformer_impl == "local"


def other_quantization(job: Job, fp4_format: Any) -> bool:
    """Whether FP4, or a file of recipes by module, stands in for FP8."""
    return bool(fp4_format) or "te_precision_config_file" in job.written


def fp8_flags(job: Job) -> int:
    """How many flags are given that only matter with FP8."""
    return len(job.written & {*HISTORY, *OTHER_FP8})


def history_flags(job: Job) -> int:
    """How many flags of delayed scaling are given."""
    return len(job.written & set(HISTORY))


def scaler_flags(job: Job) -> int:
    """How many flags of a dynamic loss scale are given."""
    return len(job.written & set(SCALER))


def bf16_layer_flags(job: Job) -> int:
    """How many numbers of layers in bf16 are given."""
    return len(job.written & set(BF16_LAYERS))


def moments_dtype(exp_avg_dtype: str, exp_avg_sq_dtype: str) -> str:
    """Dtype of Adam's moments; the lower one."""
    both = {exp_avg_dtype, exp_avg_sq_dtype}
    return Words(next((d for d in ("fp8", "bf16", "fp16") if d in both), "fp32"))


def unresolved_words(unresolved: list[str]) -> str:
    """The words of the command that may be more flags, and why they are open."""
    return Words(", ".join(dict.fromkeys(unresolved))[:400])


def global_batch(global_batch_size: Any) -> int:
    """Sequences of one optimizer step; all micro-batches of one round by default."""
    return int(known("global_batch", global_batch_size))


def declared_gpus(launcher: list[str]) -> int:
    """Number of processes that torchrun starts, or that the script does not say."""
    found = {"nnodes": "1"}
    for number, word in enumerate(launcher):
        name, equals, value = word.partition("=")
        following = launcher[number + 1] if number + 1 < len(launcher) else ""
        found[name.lstrip("-").replace("_", "-")] = value if equals else following
    with suppress(KeyError, ValueError):
        size = int(found["nnodes"]) * int(found["nproc-per-node"])
        if 0 < size < 1 << 20:
            return size
    raise Unknown("world_size")


def dp_ranks(
    tensor_model_parallel_size: int,
    pipeline_model_parallel_size: int,
    context_parallel_size: int,
    world_size: int | None = None,
) -> int:
    """Data-parallel ranks: all GPUs that the other degrees leave."""
    degrees = (
        tensor_model_parallel_size,
        pipeline_model_parallel_size,
        context_parallel_size,
    )
    ranks, rest = divmod(known("world_size", world_size), math.prod(degrees))
    if rest or not ranks:
        raise Unknown("shards.product")
    return ranks


def grad_accum(
    dp_ranks: int,
    micro_batch_size: int,
    global_batch_size: Any,
) -> int:
    """Micro-batches per optimizer step."""
    if global_batch_size is None:
        return 1
    steps, rest = divmod(global_batch_size, micro_batch_size * dp_ranks)
    if rest or not steps:
        raise Unknown("grad_accum.rest")
    return int(steps)


def kv_heads(
    num_attention_heads: int, group_query_attention: bool, num_query_groups: int
) -> int:
    """Key and value heads."""
    return num_query_groups if group_query_attention else num_attention_heads


def head_dim(hidden_size: int, num_attention_heads: int, kv_channels: Any) -> int:
    """Size of one attention head."""
    return kv_channels or hidden_size // num_attention_heads


def ffn_size(
    ffn_hidden_size: Any,
    hidden_size: int,
    swiglu: bool,
) -> int:
    """Width of a dense FFN: a multiple of 64 near 8/3 of the hidden size if gated."""
    if ffn_hidden_size:
        return int(ffn_hidden_size)
    return int((4 * hidden_size * 2 / 3) / 64) * 64 if swiglu else 4 * hidden_size


def ffn_matrices(swiglu: bool, quick_geglu: bool) -> int:
    """Linears of an FFN; gate and up are one matrix, counted as two."""
    return 3 if swiglu or quick_geglu else 2


def tied_embeddings(untie_embeddings_and_output_weights: bool) -> bool:
    """Whether head and embedding share one weight."""
    return not untie_embeddings_and_output_weights


def experts(num_experts: Any) -> int:
    """Experts of an MoE layer."""
    return num_experts or 0


def dense_ffn_layers(num_layers: int, num_experts: Any, moe_layer_freq: Any) -> int:
    """Layers with a dense FFN: none with experts in every layer."""
    if not num_experts:
        return num_layers
    if str(moe_layer_freq) != "1":
        raise Unknown("moe_layer_freq")
    return 0


def shared_experts(moe_shared_expert_intermediate_size: Any) -> int:
    """Experts that process every token: none, or one of their whole width."""
    return int(bool(moe_shared_expert_intermediate_size))


def expert_size(experts: int, moe_ffn_hidden_size: Any, ffn_size: int) -> int:
    """Width of one expert's FFN."""
    return int(moe_ffn_hidden_size or ffn_size) if experts else 0


def compute_bytes(precision: str) -> int:
    """Bytes of a value in compute; inputs and outputs of FP8 linears are bf16."""
    return 4 if precision == "fp32" else 2


def weight_bytes() -> int:
    """Bytes per parameter of the weights: the estimate knows no such sharding."""
    raise Unknown("memory.trainer")


def attention_passes() -> float:
    """Forward passes that attention costs: no speed was fitted to this trainer."""
    raise Unknown("speed.trainer")


def ep(expert_model_parallel_size: int, experts: int) -> int:
    """Expert-parallel degree, which dense models ignore."""
    return expert_model_parallel_size if experts else 1


def ac(recompute_granularity: Any, recompute_activations: bool) -> str:
    """Activation checkpointing in one word."""
    chosen = "selective" if recompute_activations else recompute_granularity
    return Words(chosen or "none")


def ac_modes() -> tuple[str, ...]:
    """AC modes that wrap some module, including none."""
    return ("none", "selective", "full")


def compile() -> bool:  # noqa: A001
    """Whether the model is compiled: unknown, and Transformer Engine's kernels fuse."""
    raise Unknown("compile")


def fp8_converts_head(fp8_output_proj: bool) -> bool:
    """Whether the output layer is FP8: only with a flag of its own."""
    return fp8_output_proj


def data_missing() -> tuple[str, ...]:
    """Parts of the data that are not here: not looked at."""
    return ()
