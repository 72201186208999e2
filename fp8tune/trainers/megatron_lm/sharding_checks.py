"""What Megatron-LM checks of sharding, checkpoints and the optimizer.

Source: ``validate_args`` in megatron/training/arguments.py, and ``__post_init__`` in
megatron/core/transformer/transformer_config.py, at d98e8a64d.
"""

from __future__ import annotations

from fp8tune.trainers.megatron_lm.check import Check

SHARDING = (
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
        "optimizer_cpu_offload",
        lambda v: v["optimizer_cpu_offload"] and not v["use_precision_aware_optimizer"],
        "The optimizer cpu offload must be used in conjunction with "
        "`--use-precision-aware-optimizer`",
        "add `--use-precision-aware-optimizer`",
    ),
)
"""What concerns sharding and the optimizer."""
