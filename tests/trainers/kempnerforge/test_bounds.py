"""Values that KempnerForge's loader refuses, and odd ones that it takes."""

import pytest

from tests.each import each
from tests.trainers.kempnerforge.loaded import faults, refusals


@each(
    "key",
    [
        "train.batch_size",
        "train.seq_len",
        "train.grad_clip_norm",
        "model.dim",
        "model.max_seq_len",
        "model.num_experts",
        "scheduler.warmup_steps",
        "distributed.dp_shard",
        "profiling.start_step",
        "optimizer.lr",
    ],
)
@each("written", ["[1]", "{}", "2024-01-01", "07:32:00"])
def test_a_number_that_is_compared_must_be_one(load, key, written):
    section, _, name = key.partition(".")
    loaded = load(f"[{section}]\n{name} = {written}\n")
    assert faults(loaded) == [("wrong-type", key)]


@each(
    ("key", "written", "bound"),
    [
        ("train.batch_size", "0", "above 0"),
        ("train.batch_size", "-1", "above 0"),
        ("train.batch_size", "0.9", "above 0 (0.9 becomes 0)"),
        ("train.batch_size", '"0"', "above 0"),
        ("train.batch_size", "false", "above 0"),
        ("optimizer.lr", "0.0", "above 0"),
        ("optimizer.lr", "-inf", "above 0"),
        ("optimizer.weight_decay", "-0.1", "at least 0"),
        ("optimizer.betas", "[0.9, 1.0]", "at least 0 and below 1"),
        ("optimizer.betas", "[-0.1, 0.9]", "at least 0 and below 1"),
        ("optimizer.betas", "[nan, 0.9]", "at least 0 and below 1"),
        ("optimizer.muon_momentum", "0", "above 0 and below 1"),
        ("optimizer.muon_momentum", "1", "above 0 and below 1"),
        ("optimizer.muon_momentum", "true", "above 0 and below 1 (true becomes 1.0)"),
        ("optimizer.muon_momentum", "nan", "above 0 and below 1"),
        ("scheduler.min_lr_ratio", "1.1", "at least 0 and at most 1"),
        ("scheduler.min_lr_ratio", "nan", "at least 0 and at most 1"),
        ("distributed.dp_shard", "0", "-1 or above 0"),
        ("distributed.dp_shard", "-2", "-1 or above 0"),
        ("distributed.tp", "0", "at least 1"),
        ("data.prefetch_factor", "0", "at least 1"),
    ],
)
def test_out_of_range(load, key, written, bound):
    section, _, name = key.partition(".")
    loaded = load(f"[{section}]\n{name} = {written}\n")
    assert faults(loaded) == [("value-out-of-range", key)]
    assert loaded.faults[0].facts["bound"] == bound
    assert key not in loaded.values


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("[train]\nbatch_size = 0\n", "remove it for the default, 8"),
        ("[optimizer]\nbetas = [1, 2]\n", "remove it for the default, [0.9, 0.95]"),
        ("[model]\nn_kv_heads = 0\n", "remove it for the default, 32"),
        ("[[data.phases]]\ndataset_weights = { a = -1 }\n", ""),
    ],
)
def test_out_of_range_tells_the_default(load, text, hint):
    assert load(text).faults[0].facts["hint"] == hint


@each(
    ("key", "written"),
    [
        ("train.batch_size", "true"),
        ("train.grad_clip_norm", "nan"),
        ("train.grad_clip_norm", "inf"),
        ("optimizer.lr", "nan"),
        ("optimizer.betas", "[0, 0.0]"),
        ("optimizer.betas", "[0.9, 0.95, 5.0]"),
        ("scheduler.min_lr_ratio", "0"),
        ("scheduler.min_lr_ratio", "1"),
        ("scheduler.min_lr_ratio", "true"),
        ("distributed.dp_shard", "-1"),
        ("distributed.dp_shard", "true"),
        ("model.ffn_hidden_dim", "-1"),
        ("model.norm_eps", "-1.0"),
        ("model.num_experts", "-3"),
        ("train.loss_fn", '"nosuch"'),
        ("model.moe_top_k", "0"),
        ("model.moe_bias_schedule", '"nosuch"'),
        ("data.hf_image_size", "-1"),
    ],
)
def test_odd_but_accepted(load, key, written):
    section, _, name = key.partition(".")
    assert refusals(load(f"[{section}]\n{name} = {written}\n")) == []


@each(
    ("written", "kind"),
    [
        ("[0.9]", "wrong-type"),
        ("[]", "wrong-type"),
        ("5", "wrong-type"),
        ("{}", "wrong-type"),
        ("true", "wrong-type"),
        ('"ab"', "wrong-type"),
        ('["0.9", "0.9"]', "wrong-type"),
        ("[[0.9], 0.9]", "wrong-type"),
    ],
)
def test_betas(load, written, kind):
    loaded = load(f"[optimizer]\nbetas = {written}\n")
    assert faults(loaded) == [(kind, "optimizer.betas")]


@each(
    ("experts", "kinds"),
    [
        ("", []),
        ("num_experts = 0", []),
        ("num_experts = -1", []),
        ("num_experts = true", ["value-out-of-range"]),
        ("num_experts = 8", ["value-out-of-range"]),
        ("num_experts = [8]", ["wrong-type"]),
        ("num_experts = 'x'", ["value-not-convertible"]),
    ],
)
def test_a_conditional_check_waits_for_its_switch(load, experts, kinds):
    loaded = load(f"[model]\n{experts}\nmoe_frequency = 0\n")
    assert [kind for kind, _ in refusals(loaded)] == kinds


@each(
    ("key", "written", "kind", "hint"),
    [
        ("train.mixed_precision", '"FP8"', "unknown-precision", 'did you mean "fp8"?'),
        ("train.mixed_precision", '"e4m3"', "unknown-precision", 'did you mean "fp8"?'),
        (
            "train.mixed_precision",
            '"bfloat16"',
            "unknown-precision",
            'did you mean "bf16"?',
        ),
        ("train.mixed_precision", "8", "unknown-precision", 'did you mean "fp8"?'),
        ("train.mixed_precision", "[8]", "unknown-precision", ""),
        ("train.mixed_precision", '"zzz"', "unknown-precision", ""),
        (
            "train.activation_checkpointing",
            "true",
            "value-not-allowed",
            'did you mean "full"?',
        ),
        (
            "train.activation_checkpointing",
            "false",
            "value-not-allowed",
            'did you mean "none"?',
        ),
        (
            "train.activation_checkpointing",
            '" full"',
            "value-not-allowed",
            'did you mean "full"?',
        ),
        ("scheduler.name", '"cosin"', "value-not-allowed", 'did you mean "cosine"?'),
        ("model.sdpa_backend", "5", "value-not-allowed", ""),
        ("checkpoint.export_dtype", '"bf16"', "value-not-allowed", None),
        ("scheduler.wsd_decay_type", '"sqr"', "value-not-allowed", None),
    ],
)
def test_not_allowed(load, key, written, kind, hint):
    section, _, name = key.partition(".")
    loaded = load(f"[{section}]\n{name} = {written}\n")
    assert faults(loaded) == [(kind, key)]
    assert key not in loaded.values
    if hint is not None:
        assert loaded.faults[0].facts["hint"] == hint
