"""The trainer's own verdicts: `rejected` is found exactly where it refuses.

``tests/data/kempnerforge_verdicts.jsonl.gz`` holds generated configs with what
KempnerForge's loader and validator (commit 5666d0d) said of each: every kind of
refusal that 6000 configs met, and odd values that it takes.
"""

import ast
import re

from tests.each import each
from tests.support.verdicts import cases, corpus, lint

REFUSED = [c for c in cases(corpus("kempnerforge")) if c["verdict"] == "reject"]

SECTION = {
    "AdapterConfig": "adapter",
    "CheckpointConfig": "checkpoint",
    "CrossAttentionConfig": "vlm",
    "DataConfig": "data",
    "DatasetSource": "data.datasets[]",
    "DistributedConfig": "distributed",
    "DynamicCheckpointWindow": "checkpoint.dyn_ckpt_window",
    "EvalConfig": "eval",
    "FreezeSpec": "vlm.freeze[]",
    "FreezeStage": "vlm.freeze_schedule[]",
    "JobConfig": "",
    "JointDecoderConfig": "vlm",
    "MetricsConfig": "metrics",
    "MoMaConfig": "vlm",
    "MoTConfig": "vlm",
    "ModelConfig": "model",
    "OptimizerConfig": "optimizer",
    "ProfilingConfig": "profiling",
    "SchedulerConfig": "scheduler",
    "TrainConfig": "train",
    "TrainingPhase": "data.phases[]",
    "VideoConfig": "video",
    "VisionEncoderConfig": "vision_encoder",
}
"""Where the trainer's classes stand in a config."""

KEYS = {
    r"'\w[\w.]*' object has no attribute 'max_frames'": "video",
    r"'\w[\w.]*' object has no attribute 'max_seq_len'": "model",
    r"'\w[\w.]*' object has no attribute 'output_num_tokens'": "adapter",
    r"'\w[\w.]*' object has no attribute 'residual_stream_image_tokens'": "vlm",
    r"'\w[\w.]*' object has no attribute 'seq_len'": "train",
    r"'\w[\w.]*' object has no attribute 'validate_world_size'": "distributed",
    r"'\w[\w.]*' object has no attribute 'enabled'": "eval",
    r"'\w[\w.]*' object has no attribute 'type'": "vision_encoder",
    r"'\w[\w.]*' object has no attribute 'keys'": "vlm.moma_experts_per_modality",
    r"'\w[\w.]*' object has no attribute 'path'": "data.datasets[]",
    r"'\w[\w.]*' object has no attribute 'items'": "data.phases[].dataset_weights",
    r"'\w[\w.]*' object has no attribute 'start_step'": (
        "data.phases[]",
        "vlm.freeze_schedule[]",
    ),
    r"(string|tuple) index out of range": "optimizer.betas",
    r"KeyError: 0$": "optimizer.betas",
    r"'\w+' object is not subscriptable": "optimizer.betas",
    r"FreezeSpec.__init__\(\) missing .*'module'": (
        "vlm.freeze[].module",
        "vlm.freeze_schedule[].specs[].module",
    ),
    r"FreezeStage.__init__\(\) missing .*'specs'": "vlm.freeze_schedule[].specs",
    r"FreezeStage.__init__\(\) missing .*'start_step'": (
        "vlm.freeze_schedule[].start_step"
    ),
    r"is not a valid ActivationCheckpointing$": "train.activation_checkpointing",
    r"is not a valid Activation$": "model.activation",
    r"is not a valid AsyncCheckpointMode$": "checkpoint.async_mode",
    r"is not a valid NormType$": "model.norm_type",
    r"is not a valid PipelineSchedule$": "distributed.pp_schedule",
    r"is not a valid SchedulerType$": "scheduler.name",
    r"not in allowed Literal values: \('bf16'": "train.mixed_precision",
    r"not in allowed Literal values: \('float32'": "checkpoint.export_dtype",
    r"Cannot use both data.phases and": ("data.anneal_start_step", "data.phases"),
    r"Dataset weight must be positive": "data.datasets[].weight",
    r"DatasetSource '.*' must have either": "data.datasets[]",
    r"FP8 \+ Tensor Parallelism": "distributed.tp",
    r"MoE \+ Pipeline Parallelism": "distributed.pp",
    r"MoMa \+ model.num_experts": "model.num_experts",
    r"Parallelism dimensions \(.* do not match world_size": "distributed.dp_shard",
    r"Tied embeddings are not supported with pipeline": "model.tie_embeddings",
    r"TrainingPhase.dataset_weights\['a'\]": "data.phases[].dataset_weights.a",
    r"TrainingPhase.lr_scale": "data.phases[].lr_scale",
    r"TrainingPhase.start_step": "data.phases[].start_step",
    r"Unknown adapter.activation": "adapter.activation",
    r"Unknown adapter.type": "adapter.type",
    r"Unknown moe_bias_schedule": "model.moe_bias_schedule",
    r"Unknown sdpa_backend": "model.sdpa_backend",
    r"Unknown vision_encoder.type": "vision_encoder.type",
    r"Unknown vlm.arch": "vlm.arch",
    r"VLM \+ Pipeline Parallelism": "distributed.pp",
    r"\[video\] is set but \[vlm\] is missing": "video",
    r"\[vlm\] is set but \[vision_encoder\] is missing": "vlm",
    r": anneal_start_step must be": "data.anneal_start_step",
    r": batch_size must be": "train.batch_size",
    r": betas must be": "optimizer.betas",
    r": (tp|pp|cp|ep|dp_replicate|dp_shard) must be": r"distributed.\1",
    r": data.phases start_steps": "data.phases",
    r": dim \(.*\) must be divisible by n_heads": "model.dim",
    r": dim, n_layers, and n_heads must": (
        "model.dim",
        "model.n_layers",
        "model.n_heads",
    ),
    r": dyn_ckpt_window\.(\w+) must be": r"checkpoint.dyn_ckpt_window.\1",
    r": end_step must be greater": "profiling.end_step",
    r": ep > 1 requires an MoE model": "distributed.ep",
    r": eval (interval|steps) must be": r"eval.\1",
    r": eval.enabled is True but no": "eval.enabled",
    r": (grad_accum_steps|grad_clip_norm|max_steps|seq_len) must be": r"train.\1",
    r": interval must be positive": "checkpoint.interval",
    r": log_interval must be": "metrics.log_interval",
    r": (lr|weight_decay|muon_\w+|schedule_free_warmup_steps) must": (r"optimizer.\1"),
    r": (min_lr_ratio|rex_alpha|warmup_steps|wsd_decay_type) must": r"scheduler.\1",
    r": (mix_temperature|num_workers|prefetch_factor) must": r"data.\1",
    r": model.max_seq_len \(.*\) insufficient for VLM": "model.max_seq_len",
    r": train.seq_len \(.*\) insufficient for VLM": "train.seq_len",
    r": train.seq_len \(.*\) exceeds model.max_seq_len": "train.seq_len",
    r": (moe_\w+|vocab_size|n_kv_heads) must be (positive|non-neg)": r"model.\1",
    r": moe_top_k \(.*\) must be <= num_experts": "model.moe_top_k",
    r": n_heads \(.*\) must be divisible by n_kv_heads": "model.n_kv_heads",
    r": n_heads \(.*\) must be divisible by tp": "model.n_heads",
    r": n_kv_heads \(.*\) must be divisible by tp": "model.n_kv_heads",
    r": num_experts \(.*\) must be divisible by ep": "model.num_experts",
    r": pooling requires a square patch grid": "vision_encoder.num_tokens",
    r": this pooling connector requires the patch grid": "adapter.pool_window",
    r": unknown dyn_ckpt_window.strategy": "checkpoint.dyn_ckpt_window.strategy",
    r": (adapter|video|vision_encoder)\.(\w+) (\(.*\) )?must be": r"\1.\2",
    r": vlm\.cross_attention_n_heads and cross_attention_n_kv_heads must": (
        "vlm.cross_attention_n_heads",
        "vlm.cross_attention_n_kv_heads",
    ),
    r": vlm\.mot_image_n_heads and mot_image_n_kv_heads must": (
        "vlm.mot_image_n_heads",
        "vlm.mot_image_n_kv_heads",
    ),
    r": vlm\.freeze_schedule start_steps": "vlm.freeze_schedule",
    r": vlm\.(cross_attention_every_n_layers|max_text_len|moma_capacity_factor) must": (
        r"vlm.\1"
    ),
    r": vlm\.moma_experts_per_modality": (
        "vlm.moma_experts_per_modality",
        "vlm.moma_modalities",
    ),
    r": vlm\.(mot_modalities|moma_modalities) must": r"vlm.\1",
    r": vlm.mot_warm_start_from_text=True requires": "vlm.mot_warm_start_from_text",
    r": world_size \(.*\) not divisible by": (
        "distributed.tp",
        "distributed.pp",
        "distributed.ep",
        "distributed.cp",
        "distributed.dp_replicate",
    ),
}
"""What the trainer says, and the keys of which one must be found."""

UNNAMED = (
    r"TypeError: '[<>]=?' not supported between instances",
    r"TypeError: object of type 'int' has no len",
    r"TypeError: unhashable type",
    r"OverflowError: cannot convert float infinity",
    r"ValueError: cannot convert float NaN",
    r"ValueError: could not convert string to float",
    r"ValueError: invalid literal for int",
)
"""Messages of Python that name no field."""


def rejected(case):
    report = lint("a.toml", case["toml"], "kempnerforge", case["world_size"])
    return [d for d in report.diagnostics if d.category == "rejected"]


def normalised(key):
    return re.sub(r"\[\d+\]", "[]", key)


def wanted(message):
    """The keys that a message speaks of; one of them must be found."""
    unknown = re.search(r"Unknown config keys in (\w+): (\[.*?\])\. Valid", message)
    if unknown:
        section = SECTION[unknown[1]]
        return {
            f"{section}.{name}".lstrip(".") for name in ast.literal_eval(unknown[2])
        }
    for pattern, keys in KEYS.items():
        match = re.search(pattern, message)
        if match:
            keys = (keys,) if isinstance(keys, str) else keys
            return {match.expand(key) for key in keys}
    return set()


@each("pattern", [*KEYS, *UNNAMED])
def test_every_pattern_is_met(pattern):
    assert [c for c in REFUSED if re.search(pattern, c["message"])]


@each("case", REFUSED, ids=range(len(REFUSED)))
def test_the_field_that_the_trainer_names_is_found(case):
    keys = wanted(case["message"])
    found = {normalised(finding.key) for finding in rejected(case)}
    if keys:
        headers = {f.key for f in rejected(case) if f.rule == "missing-header"}
        nested = {key.replace("freeze[]", "freeze_schedule[].specs[]") for key in keys}
        assert found & (keys | nested) or headers
    else:
        assert [p for p in UNNAMED if re.match(p, case["message"])]


@each("case", REFUSED, ids=range(len(REFUSED)))
def test_every_finding_points_into_the_text(case):
    lines = case["toml"].split("\n")
    for finding in rejected(case):
        for label in finding.labels:
            line, column, end_line, end_column = label.region
            assert 1 <= line <= end_line <= len(lines)
            assert 1 <= column <= len(lines[line - 1]) + 1
            assert (end_line, end_column) >= (line, column)
