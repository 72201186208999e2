"""A prime-rl config as a job, and how published runs compare with its memory."""

import pytest

from fp8tune.job import Unknown
from tests.each import each

FP8 = """
[model]
name = "Qwen/Qwen3-8B"
quantization = { type = "fp8" }
[data]
batch_size = 64
micro_batch_size = 2
seq_len = 4096
"""
RL = """
seq_len = 4096
[model]
name = "Qwen/Qwen3-8B"
[trainer.model]
cp = 2
[orchestrator]
[deployment]
num_train_gpus = 4
num_infer_gpus = 4
"""


def test_an_sft_file(job):
    fields = job(FP8)
    wanted = {
        "precision": "fp8",
        "fp8_recipe": "blockwise",
        "micro_batch": 2,
        "seq_len": 4096,
        "grad_accum": 4,
        "dp_shard": 8,
        "ac": "full",
        "compile": True,
        "layers": 36,
        "converted": 7,
        "unaligned": "",
        "optimizer_offloaded": True,
        "step.tokens": 64 * 4096,
    }
    assert {name: fields[name] for name in wanted} == wanted


def test_an_rl_file(job):
    fields = job(RL, "rl", size=0)
    wanted = {
        "precision": "bf16",
        "micro_batch": 1,
        "seq_len": 4096,
        "world_size": 4,
        "dp_shard": 2,
        "shards": 4,
        "fp8_tokens": (2048,),
    }
    assert {name: fields[name] for name in wanted} == wanted
    assert fields.find("grad_accum") is None


def test_gpus_that_contradict_the_deployment_have_no_estimate(job):
    fields = job(RL, "rl", size=8)
    with pytest.raises(Unknown, match=r"shards\.deployment"):
        fields["memory.peak_gib"]


@each(
    ("text", "fields"),
    [
        ('[model]\nac = "None"', {"ac": "full", "ac_is_null": True}),
        ("[model.ac]\nfreq = 2", {"ac": "every-2"}),
        ('[model]\nname = "Qwen/Qwen3-30B-A3B"', {"ep": 8, "moe_layers": 48}),
        (
            '[model]\nname = "Qwen/Qwen2.5-7B"\nquantization = { type = "fp8" }',
            {"dropped_biases": "q_proj, k_proj, v_proj"},
        ),
        (
            '[model.quantization]\ntype = "fp8"\nignore_patterns = ["mlp.gate."]',
            {"converted": 6, "fp8_converts_head": True},  # a dot is any letter
        ),
        (
            '[model]\nname = "HuggingFaceTB/SmolLM2-360M"\n'
            '[model.quantization]\ntype = "fp8"',
            {"converted": 0},
        ),
    ],
)
def test_fields_that_follow_from_several_keys(job, text, fields):
    found = job(text)
    assert {name: found[name] for name in fields} == fields


def test_precision_and_sizes_that_are_not_known(job):
    with pytest.raises(Unknown, match="precision"):
        job('[model.quantization]\ntype = "mxfp8"')["precision"]
    with pytest.raises(Unknown, match=r"model\.sizes"):
        job('[model]\nname = "me/mine"')["memory.peak_gib"]
    with pytest.raises(Unknown, match=r"speed\.trainer"):
        job(FP8)["speed.tokens_per_second"]


def test_an_rl_run_has_an_upper_bound_though_its_micro_batches_are_unknown(
    fp8tune, project
):
    project({"a.toml": RL})
    found = fp8tune("estimate", "a.toml", "--gpu", "h100", "--output-format", "json")
    memory = found.json["memory"]
    assert (memory["at"], found.json["fit"]) == ("optimizer step", "fits")
    assert 28 < memory["low_gib"] < memory["peak_gib"] < memory["high_gib"] < 38


def test_without_full_ac_memory_has_a_lower_bound(job):
    fields = job('[model]\nname = "Qwen/Qwen3-8B"\n[model.ac]\nmode = "selective"')
    whole = job('[model]\nname = "Qwen/Qwen3-8B"')
    assert fields.find("memory.peak_gib") is None
    assert 0 < fields["memory.least_peak_gib"] <= whole["memory.peak_gib"]
    with pytest.raises(Unknown, match=r"activation_bytes\.full"):
        fields["memory.fit"]
    big = job(
        '[model]\nname = "Qwen/Qwen3-32B"\n[model.ac]\nmode = "selective"', size=1
    )
    assert big["memory.fit"] == "out-of-memory"
