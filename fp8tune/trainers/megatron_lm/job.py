"""The fields of a job that follow from several flags of Megatron-LM.

Source: megatron/training/arguments.py and core/fp8_utils.py at d98e8a64d.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from fp8tune.job import Job, Unknown, Words, known
from fp8tune.trainers.megatron_lm.activations import RECOMPUTED

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


def shared_experts(moe_shared_expert_intermediate_size: Any) -> int:
    """Experts that process every token: none, or one of their whole width."""
    return int(bool(moe_shared_expert_intermediate_size))


def expert_size(experts: int, moe_ffn_hidden_size: Any, ffn_size: int) -> int:
    """Width of one expert's FFN."""
    return int(moe_ffn_hidden_size or ffn_size) if experts else 0


def compute_bytes(precision: str) -> int:
    """Bytes of a value in compute; inputs and outputs of FP8 linears are bf16."""
    return 4 if precision == "fp32" else 2


def attention_passes() -> float:
    """Forward passes that attention costs: no speed was fitted to this trainer."""
    raise Unknown("speed.trainer")


def ep(expert_model_parallel_size: int, experts: int) -> int:
    """Expert-parallel degree, which dense models ignore."""
    return expert_model_parallel_size if experts else 1


def shared_expert_size(experts: int, moe_shared_expert_intermediate_size: Any) -> int:
    """Width of all shared experts together."""
    return int(moe_shared_expert_intermediate_size or 0) if experts else 0


def etp(expert_tensor_parallel_size: Any, tp: int) -> int:
    """Tensor-parallel degree of the experts."""
    return int(expert_tensor_parallel_size or tp)


def virtual_stages(
    layers: int,
    pp: int,
    num_layers_per_virtual_pipeline_stage: Any,
    num_virtual_stages_per_pipeline_rank: Any,
) -> int:
    """Virtual stages of one rank; 1 without interleaving."""
    if num_layers_per_virtual_pipeline_stage and pp > 1:
        return int(layers // pp // num_layers_per_virtual_pipeline_stage)
    return int(num_virtual_stages_per_pipeline_rank or 1) if pp > 1 else 1


def end_layers(
    decoder_first_pipeline_num_layers: Any,
    decoder_last_pipeline_num_layers: Any,
    account_for_embedding_in_pipeline_split: bool,
    account_for_loss_in_pipeline_split: bool,
    pipeline_model_parallel_layout: Any,
) -> tuple[int, int]:
    """Layers of the first and the last stage, 0 if they have as many as others."""
    counted = account_for_embedding_in_pipeline_split
    if counted or account_for_loss_in_pipeline_split or pipeline_model_parallel_layout:
        raise Unknown("stage_layers")
    ends = decoder_first_pipeline_num_layers, decoder_last_pipeline_num_layers
    return int(ends[0] or 0), int(ends[1] or 0)


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


def norm_vectors(normalization: str) -> int:
    """Vectors of one norm: a scale, and of LayerNorm a bias too."""
    return 1 if normalization == "RMSNorm" else 2


def linear_biases(disable_bias_linear: bool) -> bool:
    """Whether linears have biases."""
    return not disable_bias_linear


def qkv_biases(disable_bias_linear: bool, add_qkv_bias: bool) -> bool:
    """Whether queries, keys and values have biases."""
    return add_qkv_bias or not disable_bias_linear


def optimizer_sharded(use_distributed_optimizer: bool) -> bool:
    """Whether data-parallel ranks share one optimizer state."""
    return use_distributed_optimizer


def optimizer_copies(num_distributed_optimizer_instances: int) -> int:
    """Copies of the sharded optimizer state."""
    return num_distributed_optimizer_instances


def half_gradients(
    precision: str, fp16: bool, grad_reduce_in_bf16: bool, main_grads_dtype: str
) -> bool:
    """Whether gradients are summed in 16 bits."""
    if precision == "fp32":
        return False
    return fp16 or grad_reduce_in_bf16 or main_grads_dtype == "bf16"


def lower_moments(use_precision_aware_optimizer: bool) -> bool:
    """Whether the optimizer's state has dtypes of its own."""
    return use_precision_aware_optimizer


def fp8_weights(fp8_param_gather: bool) -> bool:
    """Whether weights are kept in FP8."""
    return fp8_param_gather


def keeps_scores(attention_backend: str, local_layers: bool) -> bool:
    """Whether attention keeps its scores."""
    return local_layers or attention_backend in ("unfused", "local")


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
    fused = {"te": 0, "native": 2}
    return fused[cross_entropy_fusion_impl] if cross_entropy_loss_fusion else 1


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


NOT_COVERED = (
    "multi_latent_attention",
    "hybrid_layer_pattern",
    "spec",
    "mtp_num_layers",
    "use_torch_fsdp2",
    "use_megatron_fsdp",
    "optimizer_cpu_offload",
    "moe_expert_capacity_factor",
    "moe_latent_size",
    "experimental_attention_variant",
    "heterogeneous_layers_config_path",
    "heterogeneous_layers_config_encoded_json",
    "fine_grained_activation_offloading",
    "cpu_offloading_num_layers",
    "microbatch_group_size_per_virtual_pipeline_stage",
    "defer_embedding_wgrad_compute",
)
"""Flags of models and of a memory that the estimate does not know."""


def known_model(
    job: Job,
    other_quantization: bool,
    cuda_graph_impl: str,
    fp8_output_proj: bool,
    transformer_impl: str,
) -> bool:
    """True where the memory model holds; unknown for other models and features."""
    names = [name for name in NOT_COVERED if job[name]]
    if names:
        raise Unknown(f"setting.--{names[0].replace('_', '-')}")
    if other_quantization or fp8_output_proj:
        raise Unknown("precision")
    if cuda_graph_impl != "none":
        raise Unknown("setting.--cuda-graph-impl")
    if transformer_impl == "inference_optimized":
        raise Unknown("setting.--transformer-impl")
    return True


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
