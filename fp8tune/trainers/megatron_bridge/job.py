"""The fields of a job that follow from several overrides.

Settings that Megatron-LM has too are read by its modules (``megatron_lm/config.py``).
Those that the file does not set come from a recipe in Python and are unknown: an
estimate needs a file that says them all, such as the config that a run saves.

Source: src/megatron/bridge/training/mixed_precision.py and
models/gpt_provider.py.
"""

from __future__ import annotations

from typing import Any

from fp8tune.job import Job, Unknown, Words, known
from fp8tune.trainers.megatron_lm.job import RECIPES

MOST_IN_BF16 = 4
"""Layers that Bridge's FP8 recipes keep in bf16 at both ends, at most."""


def precision(
    mixed_precision_fp8: Any,
    mixed_precision_bf16: Any = None,
    mixed_precision_fp16: Any = None,
    model_transformer_impl: Any = None,
    all_layers_in_bf16: bool | None = None,
    layers: int = 0,
) -> str:
    """Precision of the linears; unknown where the recipe decides whether FP8 is on."""
    if mixed_precision_fp8 and not all_layers_in_bf16:
        few = all_layers_in_bf16 is None and 0 < layers <= MOST_IN_BF16
        if few or model_transformer_impl not in (None, "transformer_engine"):
            raise Unknown("precision")
        return Words("fp8")
    names = (("bf16", mixed_precision_bf16), ("fp16", mixed_precision_fp16))
    known("precision", mixed_precision_bf16)
    return Words(next((name for name, on in names if on), "fp32"))


def te_format(mixed_precision_fp8: Any) -> str:
    """FP8 format of Transformer Engine; empty without FP8."""
    return Words(mixed_precision_fp8 or "")


def te_recipe(mixed_precision_fp8_recipe: Any, te_format: str) -> str:
    """Transformer Engine's recipe; unknown without FP8."""
    recipe = RECIPES.get(mixed_precision_fp8_recipe)
    return Words(known("te_recipe", te_format and recipe))


def local_layers(model_transformer_impl: Any) -> bool:
    """Whether layers are Megatron's own: GPTModelConfig asks, GPTModelProvider not."""
    if model_transformer_impl == "local":
        raise Unknown("model.local")
    return False


def adapters(job: Job) -> bool:
    """Whether the file sets up LoRA or another adapter."""
    return "peft" in job.written


def kv_heads(heads: int, model_num_query_groups: Any) -> int:
    """Key and value heads."""
    return int(model_num_query_groups or heads)


def ffn_size(hidden_size: int, model_ffn_hidden_size: Any) -> int:
    """Width of a dense FFN."""
    return int(model_ffn_hidden_size or 4 * hidden_size)


def ffn_matrices(model_gated_linear_unit: bool) -> int:
    """Linears of an FFN; gate and up are one matrix, counted as two."""
    return 3 if model_gated_linear_unit else 2


def tied_embeddings(model_share_embeddings_and_output_weights: bool) -> bool:
    """Whether head and embedding share one weight."""
    return model_share_embeddings_and_output_weights


def vocab_size(
    model_vocab_size: int,
    model_should_pad_vocab: bool,
    model_make_vocab_size_divisible_by: int,
    tp: int,
) -> int:
    """Entries of the vocabulary, with padding if there is any."""
    unit = model_make_vocab_size_divisible_by * tp if model_should_pad_vocab else 1
    return -(-known("vocab_size", model_vocab_size) // unit) * unit


def max_seq_len(seq_len: int) -> int:
    """Length of the table of positions."""
    return seq_len


def experts(model_num_moe_experts: Any) -> int:
    """Experts of an MoE layer."""
    return int(model_num_moe_experts or 0)


def virtual_stages(pp: int, model_virtual_pipeline_model_parallel_size: Any) -> int:
    """Virtual stages of one rank; 1 without interleaving."""
    chunks = model_virtual_pipeline_model_parallel_size
    return int(chunks or 1) if pp > 1 else 1


def end_layers(
    model_num_layers_in_first_pipeline_stage: Any,
    model_num_layers_in_last_pipeline_stage: Any,
    model_account_for_embedding_in_pipeline_split: bool,
    model_account_for_loss_in_pipeline_split: bool,
    model_pipeline_model_parallel_layout: Any,
) -> tuple[int, int]:
    """Layers of the first and the last stage, 0 if they have as many as others."""
    counted = (
        model_account_for_embedding_in_pipeline_split,
        model_account_for_loss_in_pipeline_split,
    )
    if any(counted) or model_pipeline_model_parallel_layout:
        raise Unknown("stage_layers")
    first = model_num_layers_in_first_pipeline_stage
    return int(first or 0), int(model_num_layers_in_last_pipeline_stage or 0)


def linear_biases(model_add_bias_linear: bool) -> bool:
    """Whether linears have biases."""
    return model_add_bias_linear


def qkv_biases(model_add_bias_linear: bool, model_add_qkv_bias: bool) -> bool:
    """Whether queries, keys and values have biases."""
    return model_add_bias_linear or model_add_qkv_bias


def optimizer_sharded(ddp_use_distributed_optimizer: bool) -> bool:
    """Whether data-parallel ranks share one optimizer state."""
    return ddp_use_distributed_optimizer


def half_gradients(
    half_precision: bool, mixed_precision_grad_reduce_in_fp32: bool
) -> bool:
    """Whether gradients are summed in 16 bits."""
    return half_precision and not mixed_precision_grad_reduce_in_fp32


def lighter_keys() -> tuple[tuple[str, bool], tuple[str, bool]]:
    """Keys and values that drop bf16 weights beside FP8 ones, and sum in bf16."""
    return (
        ("mixed_precision.fp8_param_gather", True),
        ("mixed_precision.grad_reduce_in_fp32", False),
    )


SCORES = ("unfused", "local", 3, 4)
"""Backends of attention that keep its scores: AttnBackend's names and numbers."""


def keeps_scores(model_attention_backend: Any, local_layers: bool) -> bool:
    """Whether attention keeps its scores; saved configs have the backend's number."""
    backend = model_attention_backend
    if isinstance(backend, dict):
        (backend,) = backend.get("_args_") or (None,)
    return local_layers or backend in SCORES


def ac(model_recompute_granularity: Any) -> str:
    """Activation checkpointing in one word."""
    return Words(model_recompute_granularity or "none")


NOT_COVERED = (
    "model.multi_latent_attention",
    "model.is_hybrid_model",
    "model.mtp_num_layers",
    "model.experimental_attention_variant",
    "model.moe_latent_size",
    "model.moe_expert_capacity_factor",
    "model.fine_grained_activation_offloading",
    "model.cpu_offloading",
    "dist.use_megatron_fsdp",
    "dist.use_torch_fsdp2",
    "optimizer.optimizer_cpu_offload",
)
"""Settings of models and of a memory that the estimate does not know."""


def fp8_converts_head() -> bool:
    """Whether the output layer is FP8: no mixed precision says so."""
    return False


def whole_model(job: Job) -> bool:
    """True if the file says the model's sizes; unknown if a recipe does."""
    if "model.num_layers" not in job.written:
        raise Unknown("model.recipe")
    return True


def known_model(known_step: bool, adapters: bool) -> bool:
    """True where the memory model holds; unknown for other models and features."""
    if adapters:
        raise Unknown("model.adapter")
    return known_step


def known_step(
    job: Job,
    whole_model: bool,
    model_cuda_graph_impl: Any,
    mixed_precision_fp4: Any,
) -> bool:
    """True where the model of the step holds; unknown for other models and features."""
    names = [name for name in NOT_COVERED if job[name]]
    if names:
        raise Unknown(f"setting.{names[0]}")
    if mixed_precision_fp4:
        raise Unknown("precision")
    if model_cuda_graph_impl not in (None, "none"):
        raise Unknown("setting.model.cuda_graph_impl")
    return whole_model


def speed_frozen(adapters: bool) -> bool:
    """Whether the linears' weights get no gradient: with adapters."""
    return adapters


def speed_hides_tp(model_tp_comm_overlap: Any = None) -> bool:
    """Whether collectives of tensor parallelism run beside GEMMs: with a setting."""
    return bool(model_tp_comm_overlap)


def speed_fp8_reduces(model_tp_comm_overlap_cfg: Any = None) -> bool:
    """Whether tensor parallelism reduces in FP8: if a linear's settings say so.

    Source: src/megatron/bridge/training/comm_overlap.py, ``fp8_buf``.
    """
    settings = model_tp_comm_overlap_cfg
    linears = settings.values() if isinstance(settings, dict) else ()
    return any(isinstance(one, dict) and one.get("fp8_buf") for one in linears)
