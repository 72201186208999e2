"""What Megatron-LM checks of FP8 and FP4.

Source: ``validate_args`` in megatron/training/arguments.py, and ``__post_init__`` in
megatron/core/transformer/transformer_config.py, at d98e8a64d.
"""

from __future__ import annotations

from fp8tune.trainers.megatron_lm.check import Check, Values


def _fp8(v: Values) -> bool:
    return v["fp8_format"] is not None


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
        lambda v: v["fp4_param_gather"] and not v["fp4_format"],
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
