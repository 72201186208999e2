"""How the arguments of Megatron-LM must fit, with its own words where it has some.

Each check names the flag that it is about, what must hold, and what to do. Checks that
need the number of GPUs are rules. A check whose flags are not all known is left out.

Source: ``validate_args`` in megatron/training/arguments.py, and ``__post_init__`` in
megatron/core/transformer/transformer_config.py, at d98e8a64d.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from fp8tune.job import Prose
from fp8tune.trainers.faults import Fault

Values = dict[str, Any]


class Check(NamedTuple):
    """One check: it fails if ``when`` is true of the values."""

    key: str
    when: Callable[[Values], Any]
    reason: str
    hint: str = ""


def refusals(values: Values) -> Iterator[Fault]:
    """Yield what the arguments are refused for."""
    for check in CHECKS:
        with suppress(KeyError, TypeError):
            if _fails(check, values):
                facts = {
                    "key": check.key,
                    "reason": Prose(check.reason.format_map(values)),
                    "hint": Prose(check.hint),
                }
                yield Fault("refused-settings", (check.key,), facts)


def _fails(check: Check, values: Values) -> bool:
    """Whether a check fails: one that divides by 0 does, as Megatron-LM then does."""
    try:
        return bool(check.when(values))
    except ZeroDivisionError:
        return True


def _fp8(v: Values) -> bool:
    return v["fp8_format"] is not None


def _layers(v: Values) -> int:
    """Return the layers as the pipeline counts them."""
    if v["hybrid_layer_pattern"] or v["encoder_num_layers"]:
        raise KeyError("num_layers")
    extra = (
        "account_for_embedding_in_pipeline_split",
        "account_for_loss_in_pipeline_split",
    )
    return int(v["num_layers"]) + int(sum(v[name] for name in extra))


VIRTUAL = (
    "num_layers_per_virtual_pipeline_stage",
    "num_virtual_stages_per_pipeline_rank",
    "pipeline_model_parallel_layout",
)


def _uneven(v: Values) -> bool:
    ends = ("decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers")
    return any(v[name] is not None for name in ends)


def _stage_refused(v: Values) -> bool:
    """Whether layers or virtual stages do not divide."""
    stages, own = v["pipeline_model_parallel_size"], VIRTUAL[0]
    if v[VIRTUAL[1]] is not None or v[VIRTUAL[2]] is not None or _uneven(v):
        return False
    if v[own] is None:
        return bool(_layers(v) % stages)
    return bool(_layers(v) % stages or _layers(v) // stages % v[own])


def _virtual_without_pipeline(v: Values) -> bool:
    """Whether one pipeline stage is split into virtual stages."""
    own, stages = v[VIRTUAL[0]], v[VIRTUAL[1]]
    if v["pipeline_model_parallel_size"] > 1:
        return False
    return (stages or 1) > 1 or (own is not None and 0 < own < _layers(v))


def _shards_parameters(v: Values) -> bool:
    names = ("use_distributed_optimizer", "use_torch_fsdp2", "use_megatron_fsdp")
    return any(v[name] for name in names)


def _out_of_stage(v: Values, key: str) -> bool:
    most = v["num_layers"] // v["pipeline_model_parallel_size"]
    return not 0 <= v[key] <= most


def _recomputes(v: Values, *modules: str) -> bool:
    chosen = v["recompute_modules"] or ()
    selective = v["recompute_granularity"] == "selective" or v["recompute_activations"]
    return bool(selective and set(modules) & set(chosen))


FP8 = (
    Check(
        "first_last_layers_bf16",
        lambda v: (
            _fp8(v) and v["first_last_layers_bf16"] and v["fp8_recipe"] == "delayed"
        ),
        "Delayed scaling does not support first / last layer in BF16",
        "choose `--fp8-recipe tensorwise`, or remove `--first-last-layers-bf16`",
    ),
    Check(
        "num_layers_at_start_in_bf16",
        lambda v: (
            _fp8(v)
            and v["first_last_layers_bf16"]
            and v["fp8_recipe"] != "delayed"
            and _out_of_stage(v, "num_layers_at_start_in_bf16")
        ),
        "num_layers_at_start_in_bf16 ({num_layers_at_start_in_bf16}) must be "
        "between 0 and the "
        "number of layers per pipeline stage",
    ),
    Check(
        "num_layers_at_end_in_bf16",
        lambda v: (
            _fp8(v)
            and v["first_last_layers_bf16"]
            and v["fp8_recipe"] != "delayed"
            and _out_of_stage(v, "num_layers_at_end_in_bf16")
        ),
        "num_layers_at_end_in_bf16 ({num_layers_at_end_in_bf16}) must be between "
        "0 and the "
        "number of layers per pipeline stage",
    ),
    Check(
        "fp8_recipe",
        lambda v: (
            _fp8(v) and v["fp8_recipe"] == "custom" and not v["fp8_quantizer_factory"]
        ),
        "fp8_quantizer_factory must be provided when fp8_recipe is 'custom'",
        "add `--fp8-quantizer-factory package.module.function`",
    ),
    Check(
        "fp8_param_gather",
        lambda v: v["fp8_param_gather"] and not _fp8(v) and not v["use_torch_fsdp2"],
        "fp8_param must be used together with fp8 mode",
        "add `--fp8-format hybrid`, or remove `--fp8-param-gather`",
    ),
    Check(
        "fp8_param_gather",
        lambda v: v["fp8_param_gather"] and not _shards_parameters(v),
        "--fp8-param-gather only supported with distributed optimizer, torch "
        "fsdp2, megatron "
        "fsdp, or inference mode",
        "add `--use-distributed-optimizer`",
    ),
    Check(
        "fp8_output_proj",
        lambda v: v["fp8_output_proj"] and not _fp8(v),
        "fp8_output_proj must be used together with fp8 mode",
        "add `--fp8-format`, or remove `--fp8-output-proj`",
    ),
    Check(
        "fp8_output_proj",
        lambda v: v["fp8_output_proj"] and _fp8(v) and v["fp8_recipe"] != "mxfp8",
        "fp8_output_proj requires fp8_recipe='mxfp8', got '{fp8_recipe}'",
        "remove `--fp8-output-proj`: MXFP8 needs Blackwell",
    ),
    Check(
        "fp4_format",
        lambda v: v["fp4_format"] and _fp8(v),
        "--fp4-format and --fp8-format cannot be used simultaneously",
        "remove one of them",
    ),
    Check(
        "fp4_param_gather",
        lambda v: (
            v["fp4_param_gather"] and not v["fp4_format"] and not v["use_torch_fsdp2"]
        ),
        "--fp4-param-gather must be used together with --fp4-format",
        "remove `--fp4-param-gather`",
    ),
    Check(
        "recompute_modules",
        lambda v: (
            _fp8(v)
            and v["fp8_recipe"] == "delayed"
            and _recomputes(v, "moe_act", "layernorm")
        ),
        "Delayed scaling does not support moe_act and layernorm recompute for fp8",
        "choose `--fp8-recipe tensorwise`, or recompute other modules",
    ),
    Check(
        "moe_router_padding_for_quantization",
        lambda v: (
            v["moe_router_padding_for_quantization"]
            and not _fp8(v)
            and not v["fp4_format"]
        ),
        "fp8/fp4 must be specified when moe_router_padding_for_quantization is True",
        "add `--fp8-format`, or remove this flag",
    ),
    Check(
        "moe_router_padding_for_fp8",
        lambda v: (
            v["moe_router_padding_for_fp8"] and not _fp8(v) and not v["fp4_format"]
        ),
        "fp8/fp4 must be specified when moe_router_padding_for_quantization is True",
        "add `--fp8-format`, or remove this flag",
    ),
    Check(
        "moe_token_dispatcher_type",
        lambda v: (
            (
                v["moe_router_padding_for_quantization"]
                or v["moe_router_padding_for_fp8"]
            )
            and (_fp8(v) or v["fp4_format"])
            and "allgather" in v["moe_token_dispatcher_type"]
        ),
        "allgather and alltoall_seq dispatcher does not support "
        "moe_router_padding_for_quantization",
        "add `--moe-token-dispatcher-type alltoall`",
    ),
    Check(
        "optimizer_cpu_offload",
        lambda v: (
            v["optimizer_cpu_offload"]
            and v["use_precision_aware_optimizer"]
            and v["fp8_param_gather"]
            and not v["use_torch_fsdp2"]
            and v["fp8_recipe"] != "delayed"
        ),
        "When `--fp8-param-gather` is enabled, the optimizer cpu offload must be "
        "used in "
        "conjunction with `--fp8-recipe delayed`",
        "remove `--fp8-param-gather`, or `--optimizer-cpu-offload`",
    ),
)
"""What concerns FP8."""

OTHERS = (
    Check(
        "micro_batch_size",
        lambda v: v["micro_batch_size"] <= 0,
        "micro_batch_size must be above 0",
    ),
    Check(
        "global_batch_size",
        lambda v: v["global_batch_size"] <= 0,
        "global_batch_size must be above 0",
    ),
    Check(
        "step_batch_size_schedule",
        lambda v: (
            v["step_batch_size_schedule"] is not None
            and v["global_batch_size"] is not None
        ),
        "Cannot specify both --step-batch-size-schedule and --global-batch-size",
    ),
    Check(
        "bf16",
        lambda v: v["bf16"] and v["fp16"],
        "--bf16 and --fp16 exclude each other",
        "remove `--fp16`",
    ),
    Check(
        "num_layers",
        _stage_refused,
        "the layers must divide by the pipeline stages, and those of a stage by "
        "virtual stages",
    ),
    Check(
        "pipeline_model_parallel_size",
        _virtual_without_pipeline,
        "When interleaved schedule is used, pipeline-model-parallel size should "
        "be greater than 1",
    ),
    Check(
        "pipeline_model_parallel_size",
        lambda v: sum(v[name] is not None for name in VIRTUAL) > 1,
        "No more than one of --num-layers-per-virtual-pipeline-stage, "
        "--num-virtual-stages-per-pipeline-rank, --pipeline-model-parallel-layout",
    ),
    Check(
        "overlap_param_gather",
        lambda v: (
            v["overlap_param_gather"]
            and not v["use_distributed_optimizer"]
            and not v["use_megatron_fsdp"]
            and v["optimizer"] != "dist_muon"
        ),
        "--overlap-param-gather only supported with distributed optimizer, "
        "megatron fsdp, or "
        "dist_muon",
        "add `--use-distributed-optimizer`",
    ),
    Check(
        "overlap_param_gather",
        lambda v: v["overlap_param_gather"] and not v["overlap_grad_reduce"],
        "Must use --overlap-param-gather with --overlap-grad-reduce",
        "add `--overlap-grad-reduce`",
    ),
    Check(
        "use_torch_fsdp2",
        lambda v: v["use_torch_fsdp2"] and v["pipeline_model_parallel_size"] > 1,
        "--use-torch-fsdp2 is not supported with pipeline parallelism",
    ),
    Check(
        "use_torch_fsdp2",
        lambda v: v["use_torch_fsdp2"] and v["expert_model_parallel_size"] > 1,
        "--use-torch-fsdp2 is not supported with expert parallelism",
    ),
    Check(
        "use_torch_fsdp2",
        lambda v: v["use_torch_fsdp2"] and v["use_distributed_optimizer"],
        "--use-torch-fsdp2 is not supported with MCore's distributed optimizer",
        "remove `--use-distributed-optimizer`",
    ),
    Check(
        "use_torch_fsdp2",
        lambda v: v["use_torch_fsdp2"] and not v["no_gradient_accumulation_fusion"],
        "--use-torch-fsdp2 is not supported with gradient accumulation fusion",
        "add `--no-gradient-accumulation-fusion`",
    ),
    Check(
        "use_torch_fsdp2",
        lambda v: (
            v["use_torch_fsdp2"] and v["ckpt_format"] not in ("torch_dist", "torch_dcp")
        ),
        "--use-torch-fsdp2 requires --ckpt-format torch_dist or torch_dcp",
    ),
    Check(
        "use_torch_fsdp2",
        lambda v: v["use_torch_fsdp2"] and not v["untie_embeddings_and_output_weights"],
        "--use-torch-fsdp2 requires --untie-embeddings-and-output-weights",
        "add `--untie-embeddings-and-output-weights`",
    ),
    Check(
        "use_torch_fsdp2",
        lambda v: v["use_torch_fsdp2"] and v["fp16"],
        "--use-torch-fsdp2 not supported with fp16 yet",
    ),
    Check(
        "ckpt_format",
        lambda v: v["use_megatron_fsdp"] and v["ckpt_format"] != "fsdp_dtensor",
        "Megatron-FSDP requires the `fsdp_dtensor` checkpointing format",
        "add `--ckpt-format fsdp_dtensor`",
    ),
    Check(
        "ckpt_format",
        lambda v: v["ckpt_format"] == "fsdp_dtensor" and not v["use_megatron_fsdp"],
        "--ckpt-format fsdp_dtensor is only tested with Megatron FSDP",
        "add `--use-megatron-fsdp`",
    ),
    Check(
        "ckpt_format",
        lambda v: v["ckpt_format"] == "torch_dcp" and not v["use_torch_fsdp2"],
        "--ckpt-format torch_dcp is only tested with FSDP",
        "add `--use-torch-fsdp2`",
    ),
    Check(
        "megatron_fsdp_version",
        lambda v: (
            v["use_megatron_fsdp"]
            and v["megatron_fsdp_version"] == 2
            and v["use_distributed_optimizer"]
        ),
        "--megatron-fsdp-version 2 is not compatible with --use-distributed-optimizer",
    ),
    Check(
        "optimizer",
        lambda v: v["use_megatron_fsdp"] and v["optimizer"] not in ("sgd", "adam"),
        "Megatron-FSDP does not support the {optimizer} optimizer yet",
    ),
    Check(
        "train_samples",
        lambda v: v["train_iters"] and v["train_samples"] is not None,
        "--train-iters and --train-samples exclude each other",
    ),
    Check(
        "lr_decay_samples",
        lambda v: v["train_iters"] and v["lr_decay_samples"] is not None,
        "expected iteration-based learning rate decay",
        "with `--train-iters` use `--lr-decay-iters`",
    ),
    Check(
        "lr_warmup_samples",
        lambda v: v["train_iters"] and v["lr_warmup_samples"],
        "expected iteration-based learning rate warmup",
        "with `--train-iters` use `--lr-warmup-iters`",
    ),
    Check(
        "lr_decay_iters",
        lambda v: v["train_samples"] and v["lr_decay_iters"] is not None,
        "expected sample-based learning rate decay",
        "with `--train-samples` use `--lr-decay-samples`",
    ),
    Check(
        "lr_warmup_iters",
        lambda v: v["train_samples"] and v["lr_warmup_iters"],
        "expected sample-based learning rate warmup",
        "with `--train-samples` use `--lr-warmup-samples`",
    ),
    Check(
        "lr_warmup_fraction",
        lambda v: (
            v["lr_warmup_fraction"] is not None
            and (
                (v["train_iters"] and v["lr_warmup_iters"])
                or (v["train_samples"] and v["lr_warmup_samples"])
            )
        ),
        "--lr-warmup-fraction and a number of warmup steps exclude each other",
    ),
    Check(
        "min_lr",
        lambda v: v["lr"] is not None and v["min_lr"] > v["lr"],
        "min_lr must be at most lr",
    ),
    Check(
        "num_attention_heads",
        lambda v: (
            v["kv_channels"] is None and v["hidden_size"] % v["num_attention_heads"] > 0
        ),
        "hidden_size must divide by num_attention_heads, unless --kv-channels is set",
    ),
    Check(
        "num_attention_heads",
        lambda v: v["num_attention_heads"] % v["tensor_model_parallel_size"] > 0,
        "num_attention_heads ({num_attention_heads}) must be a multiple of "
        "tensor_model_parallel_size ({tensor_model_parallel_size})",
    ),
    Check(
        "num_query_groups",
        lambda v: (
            v["group_query_attention"]
            and v["num_query_groups"] % v["tensor_model_parallel_size"] > 0
            and v["tensor_model_parallel_size"] % v["num_query_groups"] > 0
        ),
        "num_query_groups ({num_query_groups}) must be a multiple or divisor of "
        "tensor_model_parallel_size ({tensor_model_parallel_size})",
    ),
    Check(
        "seq_length",
        lambda v: (
            v["context_parallel_size"] > 1
            and v["seq_length"] % (2 * v["context_parallel_size"]) > 0
        ),
        "seq-length should be a multiple of 2 * context-parallel-size if "
        "context-parallel-size > 1",
    ),
    Check(
        "encoder_seq_length",
        lambda v: v["seq_length"] is not None and v["encoder_seq_length"] is not None,
        "--seq-length and --encoder-seq-length exclude each other",
    ),
    Check(
        "encoder_num_layers",
        lambda v: v["num_layers"] is not None and v["encoder_num_layers"] is not None,
        "cannot have both num-layers and encoder-num-layers specified",
    ),
    Check(
        "max_position_embeddings",
        lambda v: v["max_position_embeddings"] < v["seq_length"],
        "max_position_embeddings ({max_position_embeddings}) must be greater "
        "than or equal to "
        "seq_length ({seq_length})",
    ),
    Check(
        "recompute_method",
        lambda v: (
            (v["recompute_granularity"] == "selective" or v["recompute_activations"])
            and v["recompute_method"] is not None
        ),
        "recompute method is not yet supported for selective recomputing granularity",
        "remove `--recompute-method`",
    ),
    Check(
        "recompute_granularity",
        lambda v: (
            v["recompute_granularity"] == "full"
            and not v["recompute_activations"]
            and v["recompute_method"] is None
        ),
        'Using recompute_granularity: full so recompute_method must be "block" '
        'or "uniform"',
        "add `--recompute-method uniform --recompute-num-layers 1`",
    ),
    Check(
        "recompute_granularity",
        lambda v: (
            v["recompute_granularity"] == "full"
            and not v["recompute_activations"]
            and v["recompute_method"] is not None
            and v["recompute_num_layers"] is None
        ),
        "When using recompute_granularity: full recompute_num_layers must be given",
        "add `--recompute-num-layers 1`",
    ),
    Check(
        "recompute_num_layers",
        lambda v: (
            (v["recompute_granularity"] == "selective" or v["recompute_activations"])
            and v["recompute_method"] is None
            and v["recompute_num_layers"] is not None
        ),
        "When using recompute_granularity: selective recompute_num_layers must be None",
        "remove `--recompute-num-layers`",
    ),
    Check(
        "tp_comm_overlap",
        lambda v: (
            v["tp_comm_overlap"]
            and not (v["sequence_parallel"] and v["tensor_model_parallel_size"] > 1)
        ),
        "Tensor parallel communication/GEMM overlap can happen only when "
        "sequence parallelism is "
        "enabled",
        "add `--sequence-parallel`",
    ),
    Check(
        "expert_model_parallel_size",
        lambda v: v["expert_model_parallel_size"] > 1 and not v["num_experts"],
        "num_experts must be non None to use expert model parallelism",
    ),
    Check(
        "expert_model_parallel_size",
        lambda v: (
            v["num_experts"] and v["num_experts"] % v["expert_model_parallel_size"] > 0
        ),
        "Number of experts should be a multiple of expert model parallel_size",
    ),
    Check(
        "optimizer_cpu_offload",
        lambda v: v["optimizer_cpu_offload"] and not v["use_precision_aware_optimizer"],
        "The optimizer cpu offload must be used in conjunction with "
        "`--use-precision-aware-optimizer`",
        "add `--use-precision-aware-optimizer`",
    ),
)
"""What concerns the rest of the run."""

CHECKS = (*FP8, *OTHERS)
