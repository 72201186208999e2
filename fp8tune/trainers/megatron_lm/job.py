"""The fields of a job that follow from several flags of Megatron-LM.

Source: megatron/training/arguments.py and core/fp8_utils.py at d98e8a64d.
"""

from __future__ import annotations

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


def precision(
    fp8_format: Any,
    transformer_impl: str,
    bf16: bool | None = None,
    fp16: bool | None = None,
    all_layers_in_bf16: bool | None = None,
) -> str:
    """Precision of the linears: FP8 only with layers of Transformer Engine."""
    own = transformer_impl != "transformer_engine"
    if fp8_format and not own and not all_layers_in_bf16:
        return Words("fp8")
    if known("bf16", bf16):
        return Words("bf16")
    return Words("fp16" if known("fp16", fp16) else "fp32")


def padded_vocab(
    padded_vocab_size: Any,
    make_vocab_size_divisible_by: int,
    tp: int,
    vocab_entries: Any = None,
) -> int:
    """Entries of the vocabulary, padded as the tokenizer does it for its TP ranks."""
    if isinstance(padded_vocab_size, int):
        return padded_vocab_size
    unit = make_vocab_size_divisible_by * tp
    return -(-int(known("vocab_size", vocab_entries)) // unit) * unit


def te_format(fp8_format: Any) -> str:
    """FP8 format of Transformer Engine; empty without FP8."""
    return Words(fp8_format or "")


def fp8_format_given(job: Job) -> bool:
    """Whether `--fp8-format` is given, though its value may be unknown."""
    return "fp8_format" in job.written


def te_recipe(fp8_recipe: str, precision: str) -> str:
    """Transformer Engine's recipe, ``""`` without FP8."""
    if precision != "fp8":
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


def conditional_flags(maybe: list[str]) -> str:
    """The flags that the command may have or not, of those that lint reads."""
    names = (n if n.startswith("--") else "--" + n.replace("_", "-") for n in maybe)
    return Words(", ".join(names)[:400])


def warmup_steps(
    job: Job,
    lr_warmup_iters: int,
    lr_warmup_samples: int,
    lr_warmup_fraction: Any,
    train_samples: Any,
    rampup_batch_size: Any,
) -> int:
    """Steps of the warmup, where a number of steps or sequences says it.

    Source: ``get_optimizer_param_scheduler`` in megatron/training/training.py.
    """
    if lr_warmup_fraction is not None or (train_samples and rampup_batch_size):
        raise Unknown("lr_warmup_iters")
    if train_samples:
        return int(lr_warmup_samples // job["global_batch"])
    return lr_warmup_iters


def declared_gpus(processes: Any) -> int:
    """Number of processes that the script starts, where it says that."""
    return int(known("world_size", processes))


def kv_heads(
    num_attention_heads: int, group_query_attention: bool, num_query_groups: int
) -> int:
    """Key and value heads."""
    return num_query_groups if group_query_attention else num_attention_heads


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


def ep(expert_model_parallel_size: int, experts: int) -> int:
    """Expert-parallel degree, which dense models ignore."""
    return expert_model_parallel_size if experts else 1


def trains(program: Any) -> bool:
    """Whether the program trains, by its name: others quantize, export or generate."""
    return str(program).startswith(("pretrain", "train", "finetune", "sft"))


def etp(tp: int, expert_tensor_parallel_size: Any) -> int:
    """Tensor-parallel degree of the experts: the model's, unless a flag says it."""
    return expert_tensor_parallel_size or tp


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


def linear_biases(disable_bias_linear: bool) -> bool:
    """Whether linears have biases."""
    return not disable_bias_linear


def qkv_biases(disable_bias_linear: bool, add_qkv_bias: bool) -> bool:
    """Whether queries, keys and values have biases."""
    return add_qkv_bias or not disable_bias_linear


def optimizer_sharded(use_distributed_optimizer: bool) -> bool:
    """Whether data-parallel ranks share one optimizer state."""
    return use_distributed_optimizer


def half_gradients(
    half_precision: bool, fp16: bool, grad_reduce_in_bf16: bool, main_grads_dtype: str
) -> bool:
    """Whether gradients are summed in 16 bits."""
    lower = fp16 or grad_reduce_in_bf16 or main_grads_dtype == "bf16"
    return half_precision and lower


def lighter_keys() -> tuple[tuple[str, bool], tuple[str, bool]]:
    """Keys and values that drop bf16 weights beside FP8 ones, and sum in bf16."""
    return ("fp8_param_gather", True), ("grad_reduce_in_bf16", True)


def keeps_scores(attention_backend: str, local_layers: bool) -> bool:
    """Whether attention keeps its scores."""
    return local_layers or attention_backend in ("unfused", "local")


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


def flags_known(unresolved: list[str]) -> bool:
    """True if all flags are known; unknown if more may be among other words."""
    if unresolved:
        raise Unknown("model.unresolved")
    return True


def known_model(
    job: Job,
    flags_known: bool,
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
    return flags_known


def speed_hides_tp(tp_comm_overlap: bool) -> bool:
    """Whether collectives of tensor parallelism run beside GEMMs: with a flag."""
    return tp_comm_overlap


def speed_fp8_reduces(tp_comm_overlap: bool, tp_comm_overlap_cfg: Any = None) -> bool:
    """Whether tensor parallelism reduces in FP8: unknown with a file of its own.

    The file, which is not read, may say so by ``fp8_buf``; it is false by default
    (TransformerEngine, pytorch/module/base.py, ``initialize_ub``).
    """
    if tp_comm_overlap and tp_comm_overlap_cfg:
        raise Unknown("speed.fp8_reduces")
    return False


def known_step(known_model: bool) -> bool:
    """True where the model of the step holds: where that of memory does."""
    return known_model


def ac(recompute_granularity: Any, recompute_activations: bool) -> str:
    """Activation checkpointing in one word."""
    chosen = "selective" if recompute_activations else recompute_granularity
    return Words(chosen or "none")


def fp8_converts_head(fp8_output_proj: bool) -> bool:
    """Whether the output layer is FP8: only with a flag of its own."""
    return fp8_output_proj
