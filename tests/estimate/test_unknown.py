"""What is unknown or not covered is said, with what to type."""

import re

import pytest

from tests.each import each
from tests.estimate.configs import H200, JSON, SEVEN_B


def test_all_keys_that_are_missing_are_named_at_once(fp8tune, project):
    sizes = (
        "num_layers: 32\n  hidden_size: 4096\n  num_attention_heads: 32\n"
        "  vocab_size: 128256\n  seq_length: 4096\n"
    )
    project({"a.yaml": f"train:\n  micro_batch_size: 1\nmodel:\n  {sizes}"})
    bridge = "--trainer", "megatron_bridge"
    out = fp8tune("estimate", "a.yaml", *H200[:2], *bridge).out
    (words,) = [
        text for text in out.split("\nspeed:") if "memory: unknown: set" in text
    ]
    keys = re.findall(r"`(\w+\.\w+)`", words)
    assert {"model.cuda_graph_impl", "model.ffn_hidden_size"} < set(keys)
    assert "run_config.yaml" in words
    rest = "".join(f"  {key[6:]}: null\n" for key in keys if key.startswith("model."))
    project({"b.yaml": f"train:\n  micro_batch_size: 1\nmodel:\n  {sizes}{rest}"})
    after = fp8tune("estimate", "b.yaml", *H200[:2], *bridge).out
    assert [
        key for key in keys if key.startswith("model.") and f"`{key}`" in after
    ] == []


def test_without_a_number_of_gpus_some_are_assumed_and_others_shown(estimated):
    text = f"{SEVEN_B}[distributed]\ntp = 4\n"
    said = estimated(text, "--gpu", "h100", *JSON).json
    sizes = [entry["world_size"] for entry in said["world_sizes"]]
    assert sizes == [4, 8, 16, 32, 64, 128, 256, 512]
    peaks = [entry["peak_gib"] for entry in said["world_sizes"]]
    assert peaks == sorted(peaks, reverse=True)
    assert said["target"]["world_size"] == 8
    assert said["memory"]["peak_gib"] == peaks[1]
    assert said["memory"]["breakdown_gib"]
    assert said["start"]


@pytest.mark.parametrize(
    ("title", "distributed", "size", "words"),
    [
        ("", "dp_shard = 3\ntp = 4", 12, "GPUs: 12 x h200, by the parallel degrees"),
        ("# 7B on 12 GPUs\n", "tp = 4", 12, "GPUs: 12 x h200, by the title on line 1"),
        ("# 7B on 10 GPUs\n", "tp = 4", 8, "GPUs: 8 x h200; the number is assumed"),
    ],
)
def test_how_many_gpus_a_file_is_for(estimated, title, distributed, size, words):
    text = f"{title}{SEVEN_B}[distributed]\n{distributed}\n"
    said = estimated(text, "--gpu", "h200", *JSON).json
    assert said["target"]["world_size"] == size
    listed = [entry["world_size"] for entry in said["world_sizes"]]
    assert listed == ([] if "dp_shard" in distributed else listed)
    assert words in estimated(text, "--gpu", "h200").out
    known = ("--gpu", "h200", "--world-size", str(size), *JSON)
    same = estimated(text, *known).json
    assert {**same, "target": {}, "world_sizes": []} == {
        **said,
        "target": {},
        "world_sizes": [],
    }


def test_without_a_gpu_it_is_said_on_which_it_fits(estimated):
    said = estimated(SEVEN_B, "--world-size", "16", *JSON).json
    assert (said["fit"], said["world_sizes"]) == ("unknown", [])
    assert "h200" in said["gpus"]["fits"]
    assert "h100-sxm" in said["gpus"]["may-not-fit"]
    assert "l4" in said["gpus"]["out-of-memory"]
    known = estimated(SEVEN_B, "--world-size", "16", "--gpu", "h100", *JSON)
    assert (known.json["fit"], known.json["gpus"]) == ("may-not-fit", {})


VLM = """[vision_encoder]
{}
[vlm]
max_text_len = 512
[data]
hf_dataset_name = "x/y"
tokenizer_path = "/data/tokenizer"
"""


@each(
    ("text", "said"),
    [
        (
            VLM.format("type = 'siglip2'\npath = 'x/y'\nnum_tokens = 196\n"),
            "vision encoders other",
        ),
        (
            VLM.format("num_tokens = 196"),
            "activations of compiled blocks without full AC in mixtures",
        ),
        (
            f"{VLM.format('num_tokens = 196')}[train]\ncompile_model = false\n",
            "vision-language models",
        ),
        (
            "[train]\ncompile_model = false\nbatch_size = 1\n"
            "activation_checkpointing = 'full'\n[model]\nnum_experts = 8\n",
            "mixtures of",
        ),
        ("[model]\ndim = 512\nn_heads = 8\nn_kv_heads = 8\n", "hidden sizes below"),
        ("[optimizer]\nname = 'muon'\n", "the time of this optimizer's step"),
        (
            "[model]\nactivation = 'gelu'\n",
            "activations of compiled blocks without full AC if",
        ),
        (
            "[train]\nactivation_checkpointing = 'selective'\n[distributed]\ntp = 4\n",
            "under selective AC with tensor parallelism (AC none or full, or",
        ),
        ("[model]\nqk_norm = true\n", "or if queries and keys are normalised"),
        (
            "[train]\nmixed_precision = 'fp32'\nbatch_size = 2\n",
            "the speed of fp16 and fp32, because",
        ),
        (
            "[train]\nmixed_precision = 'fp32'\n[model]\nnum_experts = 8\n",
            "mixtures of experts in fp32",
        ),
    ],
)
def test_what_is_not_covered_is_said_plainly(estimated, text, said):
    outcome = estimated(text, "--gpu", "h200", "--world-size", "8")
    assert outcome.code == 0
    words = " ".join(outcome.out.split())
    assert said in words.partition("no estimate covers ")[2]


def test_the_last_stage_of_a_pipeline_is_not_covered(fp8tune, project):
    project({"a.toml": f"{SEVEN_B}[distributed]\npp = 2\n"})
    outcome = fp8tune("estimate", "a.toml", "--gpu", "h200", "--world-size", "2")
    words = " ".join(outcome.out.split())
    assert outcome.code == 0
    assert "GiB per GPU of the first stage (" in words
    assert "no estimate covers the last pipeline stage" in words


def test_a_gpu_of_unknown_memory_has_at_most_what_is_sold(estimated):
    known = ("--gpu", "h800", "--world-size", "16", *JSON)
    said = estimated(SEVEN_B, *known).json
    assert (said["fit"], said["gpus"]) == ("unknown", {})
    fits = {
        (cell["peak_gib"] or 0) > 90: cell["fit"]
        for cell in said["grid"]
        if cell["ac"] == "full"
    }
    assert fits == {True: "out-of-memory", False: "unknown"}


VLM_RUN = """[model]
dim = 256
n_layers = 4
n_heads = 4
n_kv_heads = 4
vocab_size = 50257
max_seq_len = 576
[train]
batch_size = 2
seq_len = 576
compile_model = false
[vision_encoder]
type = "{encoder}"
feature_dim = {features}
num_tokens = {tokens}
[vlm]
[data]
hf_dataset_name = "sayakpaul/coco-30-val-2014"
tokenizer_path = "/data/tokenizer"
"""


@pytest.mark.parametrize("gpu", [(), H200[:2]])
def test_what_is_unknown_has_its_reason(estimated, gpu):
    out = estimated(VLM_RUN.format(encoder="siglip2", features=0, tokens=0), *gpu).out
    assert "speed: unknown: no estimate covers a vision encoder with a number of" in out
    assert "GiB per GPU; no estimate covers vision encoders" in " ".join(out.split())


def test_why_a_precision_cannot_run_is_what_keeps_it_from_running(fp8tune, project):
    """Too few samples fail in either precision; only FP8 has an unaligned head."""
    project({"a.toml": VLM_RUN.format(encoder="random", features=384, tokens=64)})
    out = fp8tune("estimate", "a.toml", "--gpu", "h200", "--world-size", "64").out
    assert "this run fails, whatever memory it needs: 30 samples over 64 ranks" in out
    assert "fp8 cannot run: `model.vocab_size = 50257` is not a multiple" in out


SEVERAL = "no estimate covers the speed of more than one GPU other than H100 SXM and"


@pytest.mark.parametrize(
    ("gpu", "fit", "speed"),
    [
        ("", "add --gpu h100", "add --gpu h100"),
        (
            "a100",
            "add --gpu a100-40gb or a100-80gb",
            "no estimate covers the speed of GPUs other",
        ),
        ("gh200", "add --gpu gh200-96gb or gh200-144gb", SEVERAL),
        ("h800", "no estimate covers this GPU's memory", SEVERAL),
        ("h200-nvl", "no estimate covers this GPU's memory", SEVERAL),
    ],
)
def test_a_gpu_is_asked_for_where_it_would_tell(estimated, gpu, fit, speed):
    target = ("--world-size", "8", *(("--gpu", gpu) if gpu else ()))
    out = " ".join(estimated(SEVEN_B, *target).out.split())
    assert f"fit: unknown: {fit}" in out
    assert f"speed: unknown: {speed}" in out


@pytest.mark.parametrize(
    ("gpu", "begins"),
    [
        ("v100", "none of these is certain to fit: on v100-32gb, the largest, "),
        ("a100", "to be certain to fit: on a100-80gb, the largest, "),
    ],
)
def test_of_a_family_of_gpus_the_largest_is_advised_on(estimated, gpu, begins):
    size = ("--world-size", "16")
    family = estimated(SEVEN_B, "--gpu", gpu, *size)
    one = estimated(SEVEN_B, "--gpu", gpu, *size, *JSON).json["instead"]
    text = " ".join(family.out.split())
    assert begins in text
    assert one in text
    assert "more GPUs" not in one


def test_a_trainer_without_estimate_is_said_in_one_sentence(fp8tune, project):
    project(
        {"zero.json": '{"train_batch_size": 16, "zero_optimization": {"stage": 2}}'}
    )
    outcome = fp8tune("estimate", "zero.json", "--gpu", "h100", "--world-size", "8")
    path, empty, *said = outcome.out.splitlines()
    assert (outcome.code, path, empty) == (0, "zero.json", "")
    assert " ".join(map(str.strip, said)).startswith(
        "estimate does not cover DeepSpeed: a DeepSpeed file does not say which model "
        "is trained; it covers KempnerForge, "
    )
