"""What Megatron-LM checks of experts.

Source: ``validate_args`` in megatron/training/arguments.py, and ``__post_init__`` in
megatron/core/transformer/transformer_config.py, at d98e8a64d.
"""

from __future__ import annotations

from fp8tune.trainers.megatron_lm.check import Check, Values

OVERLAP = "overlap_moe_expert_parallel_comm"


def _expert_tp(v: Values) -> int:
    """Tensor-parallel degree of the experts."""
    return int(v["expert_tensor_parallel_size"] or v["tensor_model_parallel_size"])


EXPERTS = (
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
        "num_experts",
        lambda v: (
            v["num_experts"] and not v["disable_bias_linear"] and _expert_tp(v) != 1
        ),
        "Bias in Moe is only supported when ETP==1",
        "add `--disable-bias-linear` or `--expert-tensor-parallel-size 1`",
    ),
    Check(
        "moe_shared_expert_overlap",
        lambda v: (
            v["moe_shared_expert_overlap"]
            and v["moe_shared_expert_intermediate_size"] is not None
            and v["moe_token_dispatcher_type"] not in ("alltoall", "flex")
        ),
        "moe_shared_expert_overlap only works with alltoall or flex token dispatcher.",
        "add `--moe-token-dispatcher-type alltoall`",
    ),
    Check(
        OVERLAP,
        lambda v: v[OVERLAP] and v["expert_model_parallel_size"] < 2,
        "overlap_moe_expert_parallel_comm is only supported with expert model "
        "parallelism",
    ),
    Check(
        OVERLAP,
        lambda v: (
            v[OVERLAP] and v["moe_token_dispatcher_type"] not in ("alltoall", "flex")
        ),
        "overlap_moe_expert_parallel_comm is supported with alltoall/flex token "
        "dispatcher",
        "add `--moe-token-dispatcher-type alltoall`",
    ),
    Check(
        OVERLAP,
        lambda v: v[OVERLAP] and v["recompute_granularity"] == "full",
        "disable full recomputation when enabling overlap_moe_expert_parallel_comm",
    ),
    Check(
        OVERLAP,
        lambda v: v[OVERLAP] and v["moe_shared_expert_overlap"],
        "disable moe_shared_expert_overlap when enabling "
        "overlap_moe_expert_parallel_comm",
        "remove `--moe-shared-expert-overlap`",
    ),
    Check(
        OVERLAP,
        lambda v: (
            v[OVERLAP]
            and v["pipeline_model_parallel_size"] > 1
            and v["num_layers_per_virtual_pipeline_stage"] is None
            and v["num_virtual_stages_per_pipeline_rank"] is None
            and v["pipeline_model_parallel_layout"] is None
        ),
        "If enabling EP A2A overlap, virtual_pipeline_model_parallel_size must be "
        "specified when pipeline_model_parallel_size > 1",
    ),
)
"""What concerns experts."""
