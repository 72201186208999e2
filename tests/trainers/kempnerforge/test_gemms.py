"""Linears of KempnerForge's models, and which of them FP8 converts."""

import pytest

from fp8tune.facts.linears import Gemm
from fp8tune.job import Unknown

BASE = """
[model]
dim = 256
n_layers = 4
n_heads = 8
n_kv_heads = 2
vocab_size = 512
{model}
[train]
batch_size = 2
seq_len = 128
{train}
"""


def config(model="", train="", rest=""):
    return BASE.format(model=model, train=train) + rest


def test_dense_model_whole(job):
    assert job(config())["gemms"] == (
        Gemm("q_proj", 256, 256, 256, 4, True, 3),
        Gemm("k_proj", 256, 256, 64, 4, True, 3),
        Gemm("v_proj", 256, 256, 64, 4, True, 3),
        Gemm("o_proj", 256, 256, 256, 4, True, 3),
        Gemm("gate_proj", 256, 256, 768, 4, True, 3),
        Gemm("up_proj", 256, 256, 768, 4, True, 3),
        Gemm("down_proj", 256, 768, 256, 4, True, 3),
        Gemm("head", 256, 256, 512, 1, True, 3),
    )


def test_mixture_of_experts_whole(job):
    model = "num_experts = 4\nmoe_frequency = 2\nmoe_shared_experts = 3\n"
    model += "moe_expert_ffn_multiplier = 0.5"
    found = job(config(model, 'activation_checkpointing = "full"'))["gemms"]
    assert found[4:] == (
        Gemm("gate_proj", 256, 256, 768, 2, True, 4),
        Gemm("up_proj", 256, 256, 768, 2, True, 4),
        Gemm("down_proj", 256, 768, 256, 2, True, 3),
        Gemm("router", 256, 256, 4, 2, False, 4),
        Gemm("shared_in", 256, 256, 384, 4, False, 4),
        Gemm("shared_out", 256, 384, 256, 2, False, 4),
        Gemm("expert_in", 128, 256, 384, 16, False, 4),
        Gemm("expert_out", 128, 384, 256, 8, False, 4),
        Gemm("head", 256, 256, 512, 1, True, 3),
    )


def test_expert_parallelism_moves_experts_but_not_flops(job):
    alone, shared = (
        job(config("num_experts = 4", rest=f"[distributed]\nep = {ep}"))
        for ep in (1, 2)
    )
    assert alone["gemm.flops"] == shared["gemm.flops"]
    assert [g.m for g in shared["gemms"] if g.name == "expert_out"] == [256]


@pytest.mark.parametrize(
    ("mode", "passes"),
    [
        ("none", [3, 3, 3, 3, 3, 3, 3, 3]),
        ("selective", [4, 4, 4, 3, 3, 3, 3, 3]),
        ("full", [4, 4, 4, 4, 4, 4, 3, 3]),
    ],
)
def test_activation_checkpointing_repeats_all_but_the_last_linear(job, mode, passes):
    text = config(train=f'activation_checkpointing = "{mode}"')
    assert [gemm.passes for gemm in job(text)["gemms"]] == passes
    assert job(text)["attention_passes"] == (3.5 if mode == "none" else 4.5)


@pytest.mark.parametrize(
    ("model", "columns"),
    [("", 256), ("tie_embeddings = true", 512), ("num_experts = 4", 512)],
)
def test_tensor_parallelism_splits_the_head_of_untied_dense_models(job, model, columns):
    found = job(config(model, rest="[distributed]\ntp = 2"))["gemms"]
    assert (found[-1].name, found[-1].n) == ("head", columns)
    assert (found[0].n, found[1].n, found[3].k) == (128, 32, 128)


def test_joint_decoder_has_image_tokens_in_its_blocks_alone(job):
    rest = "[vision_encoder]\nnum_tokens = 16\n[vlm]\nmax_text_len = 64"
    found = job(config(rest=rest))["gemms"]
    assert (found[0].m, found[-1].m) == (160, 128)


def test_moma_experts_pick_a_share_of_their_modality(job):
    rest = '[vision_encoder]\nnum_tokens = 16\n[vlm]\narch = "moma"\nmax_text_len = 64'
    found = job(config(train='activation_checkpointing = "full"', rest=rest))["gemms"]
    assert [g for g in found if not g.fp8] == [
        Gemm("expert_in", 8, 256, 768, 32, False, 3),
        Gemm("expert_out", 8, 768, 256, 16, False, 3),
        Gemm("expert_in", 32, 256, 768, 32, False, 3),
        Gemm("expert_out", 32, 768, 256, 16, False, 3),
    ]
    assert {g.passes for g in found} == {3}


@pytest.mark.parametrize(
    "rest",
    [
        '[vision_encoder]\nnum_tokens = 16\n[vlm]\narch = "mot"',
        '[vision_encoder]\nnum_tokens = 16\n[vlm]\narch = "cross_attention"',
        "[vision_encoder]\n[vlm]",
        "[distributed]\ncp = 2",
        '[vision_encoder]\nnum_tokens = 16\n[vlm]\narch = "moma"\n'
        "moma_experts_per_modality = { image = 0, text = 4 }",
    ],
)
def test_unknown_linears(job, rest):
    with pytest.raises(Unknown):
        job(config(rest=rest))["gemms"]
