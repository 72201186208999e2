"""What Megatron-LM checks of batches, the model and parallelism.

Source: ``validate_args`` in megatron/training/arguments.py, and ``__post_init__`` in
megatron/core/transformer/transformer_config.py, at d98e8a64d.
"""

from __future__ import annotations

from fp8tune.trainers.megatron_lm.check import Check, Values

VIRTUAL = (
    "num_layers_per_virtual_pipeline_stage",
    "num_virtual_stages_per_pipeline_rank",
    "pipeline_model_parallel_layout",
)


ONE_OF_THREE = (
    "No more than one of --num-layers-per-virtual-pipeline-stage, "
    "--num-virtual-stages-per-pipeline-rank, --pipeline-model-parallel-layout"
)


def _layers(v: Values) -> int:
    """Return the layers as the pipeline counts them."""
    if v["hybrid_layer_pattern"] or v["encoder_num_layers"]:
        raise KeyError("num_layers")
    extra = (
        "account_for_embedding_in_pipeline_split",
        "account_for_loss_in_pipeline_split",
    )
    return int(v["num_layers"]) + int(sum(v[name] for name in extra))


ENDS = ("decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers")


def _uneven(v: Values) -> bool:
    return any(v[name] is not None for name in ENDS)


def _uneven_refused(v: Values) -> bool:
    """Whether the first, last or middle stages do not get whole virtual stages."""
    stages, virtual = v["pipeline_model_parallel_size"], v[VIRTUAL[1]] or 1
    apart = v[VIRTUAL[0]] is not None or v[VIRTUAL[2]] is not None
    if not _uneven(v) or apart:
        return False
    layers = _layers(v)
    for own in (v[name] for name in ENDS if v[name] is not None):
        if own <= 0 or own % virtual:
            return True
        layers, stages = layers - own, stages - 1
    if not stages or not layers:
        return bool(layers) != bool(stages)
    return bool(layers % stages or layers // stages % virtual)


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


ARGUMENTS = (
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
        "the layers ({num_layers}) must divide by the pipeline stages "
        "({pipeline_model_parallel_size}), and those of a stage by virtual stages",
    ),
    Check(
        VIRTUAL[0],
        lambda v: _uneven(v) and v[VIRTUAL[0]] is not None and v[VIRTUAL[1]] is None,
        "please use --num-virtual-stages-per-pipeline-rank to specify virtual pipeline "
        "parallel degree when enable uneven pipeline parallelism",
        "replace `--num-layers-per-virtual-pipeline-stage`",
    ),
    Check(
        "pipeline_model_parallel_size",
        _uneven_refused,
        "the layers ({num_layers}) without those of the first and last stage must "
        "divide by the other stages of {pipeline_model_parallel_size}, and those of "
        "each stage by its virtual stages",
    ),
    Check(
        "pipeline_model_parallel_size",
        _virtual_without_pipeline,
        "When interleaved schedule is used, pipeline-model-parallel size should "
        "be greater than 1",
    ),
    Check(
        VIRTUAL[1],
        lambda v: v[VIRTUAL[0]] is not None and v[VIRTUAL[1]] is not None,
        ONE_OF_THREE,
    ),
    Check(
        VIRTUAL[2],
        lambda v: v[VIRTUAL[2]] is not None and (v[VIRTUAL[0]] or v[VIRTUAL[1]]),
        ONE_OF_THREE,
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
)
"""What concerns the rest of the run."""
