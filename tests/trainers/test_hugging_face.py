"""Memory of Hugging Face's trainers against the real Trainer and published runs."""

import json
from textwrap import indent

import pytest

from fp8tune.formats import parse
from fp8tune.job import Target, Unknown
from fp8tune.trainers.local_model import _published, sizes
from fp8tune.trainers.trainer import trainer
from tests.each import each

QWEN = "Qwen/Qwen2.5-1.5B"
LLAMA = """
distributed_type: {mode}
mixed_precision: {precision}
num_processes: 8
fp8_config:
  backend: {engine}
training:
  model_name_or_path: {model}
  dtype: bfloat16
  bf16: false
  per_device_train_batch_size: 2
  gradient_checkpointing: false
  max_seq_length: 1024
"""


def job(text, name="accelerate==1.15.0", gpu="h100", ranks=8, transformers=None):
    """The job of a config; ``transformers`` is the release that a file pins."""
    known = trainer(name)
    loaded = known.load(parse(text.encode(), "x.yaml").values)
    if transformers:
        loaded.values["transformers_release"] = transformers
    return known.job(loaded, Target(gpu, ranks))


def accelerate(precision="fp8", engine="AO", model=QWEN, mode="MULTI_GPU"):
    given = {"precision": precision, "engine": engine, "model": model, "mode": mode}
    return job(LLAMA.format(**given))


def test_batches_of_unknown_length_lower_the_range():
    """A batch is at most as long as the file allows; packing fills it."""
    some = job(AXOLOTL, "axolotl==0.19.0")
    packed = job(AXOLOTL + "sample_packing: true\n", "axolotl==0.19.0")
    assert packed["memory.least_peak_gib"] == packed["memory.peak_gib"]
    assert some["memory.peak_gib"] == packed["memory.peak_gib"]
    assert some["memory.state_gib"] < some["memory.least_peak_gib"]
    assert some["memory.low_gib"] < packed["memory.low_gib"]


@pytest.mark.parametrize(
    "name", ["accelerate==1.15.0", "axolotl==0.19.0", "llamafactory"]
)
@each(
    ("lines", "steps"),
    [
        (["warmup_steps: 20"], 20),
        (["warmup_steps: 20", "warmup_ratio: 0.0"], 20),
        (["warmup_ratio: 0.1"], None),
        (["warmup_ratio: 0.1", "warmup_steps: 0"], None),
        (["warmup_steps: 0.03"], None),
    ],
)
def test_a_warmup_that_is_a_share_of_the_run_has_no_steps(name, lines, steps):
    """TrainingArguments.get_warmup_steps of transformers 5."""
    text = "".join(f"{line}\n" for line in lines)
    if name.startswith("accelerate"):
        text = f"mixed_precision: fp8\ntraining:\n{indent(text, '  ')}"
    assert job(text, name).find("warmup_steps") == steps


def test_axolotl_warms_up_over_a_share_where_nothing_says_how_long():
    assert job(AXOLOTL, "axolotl==0.19.0").find("warmup_steps") is None


# TransformerEngine#1429: FP8 through Accelerate took more memory than 16 bit
def test_transformer_engine_takes_more_memory_than_bf16():
    fp8, bf16 = accelerate("fp8", "TE"), accelerate("bf16", "TE")
    assert fp8["memory.peak_gib"] > 1.05 * bf16["memory.peak_gib"]
    assert "FP8 copies of the weights" in fp8["fp8.reasons"][-1]


# accelerate#2597 and #1647: the example, of BERT's size, was slower in FP8
def test_small_models_do_not_gain(tmp_path):
    bert = {
        "model_type": "llama",
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "vocab_size": 28996,
    }
    (tmp_path / "config.json").write_text(json.dumps(bert))
    found = accelerate("fp8", "TE", model=str(tmp_path))
    assert found["fp8.pays"] == "no"
    assert "slower in FP8" in found["fp8.reasons"][0]


def test_without_compile_torchao_does_not_pay():
    found = accelerate()
    assert (found["fp8.pays"], found["fp8.reasons"][0]) == (
        "no",
        "without compile each cast is a separate kernel",
    )


AXOLOTL = """
base_model: meta-llama/Llama-3.2-3B
sequence_len: 512
micro_batch_size: 16
fp8: true
torch_compile: true
fp8_enable_fsdp_float8_all_gather: true
fsdp_version: 2
fsdp_config: {auto_wrap_policy: TRANSFORMER_BASED_WRAP, reshard_after_forward: true}
gradient_checkpointing: true
"""


def test_the_published_gain_of_axolotl_is_in_the_range():
    """About 1.10 (docs/mixed_precision.qmd, examples/llama-3/3b-fp8-fsdp2.yaml)."""
    found = job(AXOLOTL, "axolotl==0.19.0")
    assert found["speed.fp8_gain_low"] <= 1.10 <= found["speed.fp8_gain"]


LLAMA_FACTORY = """
model_name_or_path: {model}
do_train: true
stage: sft
finetuning_type: {kind}
cutoff_len: 2048
bf16: true
output_dir: o
"""


@each(
    ("name", "text", "missing"),
    [
        ("axolotl==0.19.0", AXOLOTL + "adapter: lora\n", "model.adapter"),
        (
            "axolotl==0.19.0",
            AXOLOTL + "plugins: [axolotl.integrations.liger.LigerPlugin]\n",
            "logit_bytes.fused",
        ),
        ("axolotl==0.19.0", AXOLOTL + "deepspeed: d.json\n", "memory.parallel"),
        ("axolotl==0.19.0", AXOLOTL.split("fsdp_version")[0], "weights.norms"),
        (
            "llamafactory==0.9.5",
            LLAMA_FACTORY.format(model="Qwen/Qwen3-8B", kind="lora"),
            "model.adapter",
        ),
        (
            "llamafactory==0.9.5",
            LLAMA_FACTORY.format(model="me/mine", kind="full"),
            "model.sizes",
        ),
        (
            "accelerate==1.15.0",
            LLAMA.split("training:")[0].format(
                mode="NO", precision="bf16", engine="AO"
            ),
            "model.unnamed",
        ),
    ],
)
def test_what_no_estimate_covers_is_named(name, text, missing):
    with pytest.raises(Unknown) as error:
        _ = job(text, name)["memory.peak_gib"]
    assert error.value.args[0] == missing


PEFT = LLAMA.format(mode="MULTI_GPU", precision="fp8", engine="AO", model=QWEN)
TE = "fp8: true\nfp8_backend: te\n"
COMPILED = "torch_compile: true\n"
ADAPTED = [
    ("accelerate==1.15.0", f"{PEFT}  {COMPILED}", "  use_peft: true\n"),
    ("axolotl==0.19.0", AXOLOTL, "adapter: qlora\nload_in_4bit: true\n"),
    (
        "llamafactory==0.9.5",
        LLAMA_FACTORY.format(model=QWEN, kind="full")
        + "fsdp: full_shard auto_wrap\n"
        + COMPILED,
        "quantization_bit: 4\n",
    ),
]


@each(("name", "text", "more"), ADAPTED)
def test_the_gain_of_fp8_with_adapters_is_unknown(name, text, more):
    facts = "speed.fp8_gain", "fp8.pays"
    whole, part = job(text, name), job(text + more, name)
    with pytest.raises(Unknown) as error:
        _ = part["speed.fp8_gain"]
    assert error.value.args[0] == "model.adapter"
    assert [part.find(fact) for fact in facts] == [None, None]
    assert None not in [whole.find(fact) for fact in facts]


SHARDED = LLAMA_FACTORY.format(model=QWEN, kind="full") + (
    "fsdp: full_shard auto_wrap\ntorch_compile: true\n"
)
BF16 = LLAMA.split("fp8_config:")[0].format(mode="MULTI_GPU", precision="bf16") + (
    "training:" + LLAMA.split("training:")[1].format(model=QWEN) + f"  {COMPILED}"
)


@each(
    ("name", "text", "release", "missing"),
    [
        ("llamafactory==0.9.5", SHARDED, None, None),
        ("axolotl==0.19.0", AXOLOTL.replace("fp8: true\n", ""), None, None),
        ("llamafactory==0.9.5", SHARDED + TE, "4.57.6", None),
        ("accelerate==1.15.0", BF16, None, "fp8_backend"),
    ],
)
def test_why_a_gain_is_unknown(name, text, release, missing):
    """A bf16 run gets the gain of FP8 as its trainer would run it."""
    found = job(text, name, transformers=release)
    assert (found.find("speed.fp8_gain") is None) == bool(missing)
    assert found.lacking.get("speed.fp8_gain") == missing


FSDP2 = LLAMA.format(mode="FSDP", precision="bf16", engine="AO", model=QWEN) + (
    "fsdp_config: {fsdp_version: 2, fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP}\n"
)
FULL = LLAMA_FACTORY.format(model=QWEN, kind="full")
PURE = FULL.replace("bf16:", "pure_bf16:")
WEIGHTS = [
    ("accelerate==1.15.0", FSDP2, 4),
    ("accelerate==1.13.0", FSDP2, 2),  # its cast to fp32 is lost
    ("axolotl==0.19.0", AXOLOTL, 2),
    ("axolotl==0.19.0", AXOLOTL.replace("version: 2", "version: 1"), 4),
    ("llamafactory==0.9.5", FULL + "fsdp: full_shard auto_wrap\n", 4),
    ("llamafactory==0.9.5", PURE + "fsdp: full_shard auto_wrap\n", 2),
]


@each(("name", "text", "size"), WEIGHTS)
def test_bytes_of_the_weights(name, text, size):
    found = job(text, name)
    assert (found["weight_bytes"], found["optimizer_bytes"]) == (size, 2 * size)


QWEN_MOE, MIXTRAL = "Qwen/Qwen3-30B-A3B", "mistralai/Mixtral-8x7B-v0.1"
MOE = LLAMA_FACTORY.format(model=QWEN_MOE, kind="full") + "fsdp: full_shard auto_wrap\n"
AXOLOTL_MOE = AXOLOTL.replace("meta-llama/Llama-3.2-3B", QWEN_MOE)


ACCELERATE_MOE = FSDP2.replace(QWEN, QWEN_MOE)


def test_a_dense_model_has_one_peak_with_each_release_of_transformers():
    peaks = [
        job(FSDP2, transformers=x)["memory.peak_gib"] for x in ("4.57.6", "5.23.0")
    ]
    assert peaks[0] == peaks[1]


@each(
    ("name", "text", "more", "release"),
    [
        ("accelerate==1.15.0", ACCELERATE_MOE, "", "4.57.6"),
        ("llamafactory==0.9.5", MOE, "", "4.57.1"),
        ("llamafactory==0.9.4", MOE, "", None),
        ("axolotl==0.19.0", AXOLOTL_MOE, "experts_implementation: eager\n", None),
    ],
)
def test_other_implementations_of_experts_have_a_lower_bound(name, text, more, release):
    """Before transformers 5 experts are modules, one by one."""
    newest = name.replace("0.9.4", "0.9.5")
    grouped, found = job(text, newest), job(text + more, name, transformers=release)
    assert found.find("memory.peak_gib") is None
    assert found.lacking["memory.peak_gib"] == "experts_grouped"
    assert found["memory.state_gib"] < found["memory.least_peak_gib"]
    assert found["memory.least_peak_gib"] < grouped["memory.peak_gib"]


def test_the_choice_of_tokens_is_not_the_choice_of_experts():
    """LLaMA-Factory's ``top_k`` is for generation."""
    assert job(MOE + "top_k: 50\n", "llamafactory==0.9.5")["experts_per_token"] == 8


def test_experts_compute_in_fp32_if_their_weights_are():
    """Autocast does not reach grouped products, so there are no copies in bf16."""
    text = LLAMA.format(mode="MULTI_GPU", precision="bf16", engine="AO", model=QWEN_MOE)
    half = job(text)
    whole = job(text.replace("dtype: bfloat16", "dtype: float32"))
    assert whole["expert_bytes"] > 1.9 * half["expert_bytes"]
    experts = whole["params.routed_experts"] * whole["layers"]
    assert whole["copies_gib"] < 2 * (whole["params.rank"] - experts) / 2**30


@each(("gpus", "rows"), [(8, 8), (16, 16), (12, 12), (6, 12)])
def test_fsdp2_pads_experts_to_the_shards(gpus, rows):
    """Each shard has a whole number of Mixtral's eight experts."""
    text = FSDP2.replace("num_processes: 8", f"num_processes: {gpus}")
    text = text.replace(QWEN, MIXTRAL)
    padded = job(text, ranks=gpus)
    flat = job(text.replace("fsdp_version: 2", "fsdp_version: 1"), ranks=gpus)
    added = 32 * (rows - 8) * 3 * 4096 * 14336
    assert padded["params.padded"] - flat["params.padded"] == added
    assert "packed" not in padded["memory.advice"]


def test_the_logits_of_trl_are_not_counted():
    """Its releases differ, so the rest is a lower bound."""
    text = LLAMA.format(mode="MULTI_GPU", precision="bf16", engine="AO", model=QWEN)
    whole = job(text)["memory.peak_gib"]
    found = job(text.replace("max_seq_length", "max_length"))
    assert found.find("memory.peak_gib") is None
    assert found["memory.state_gib"] < found["memory.least_gib"] < whole
    assert found.lacking["memory.peak_gib"] == "logit_bytes.trl"


# What the models' pages say of their parameters
PARAMETERS = {
    "meta-llama/Llama-3.1-8B": 8_030_261_248,
    "meta-llama/Llama-3.2-1B": 1_235_814_400,
    "meta-llama/Llama-3.2-3B": 3_212_749_824,
    "meta-llama/Llama-2-7b-hf": 6_738_415_616,
    "mistralai/Mistral-7B-v0.1": 7_241_732_096,
    "mistralai/Mistral-7B-v0.3": 7_248_023_552,
    "mistralai/Mixtral-8x7B-v0.1": 46_702_792_704,
    "mistralai/Mixtral-8x22B-v0.1": 140_620_634_112,
    "Qwen/Qwen2.5-0.5B": 494_032_768,
    "Qwen/Qwen2.5-1.5B": 1_543_714_304,
    "Qwen/Qwen2.5-3B": 3_085_938_688,
    "Qwen/Qwen2.5-7B": 7_615_616_512,
    "Qwen/Qwen2.5-14B": 14_770_033_664,
    "Qwen/Qwen2.5-32B": 32_763_876_352,
    "Qwen/Qwen2.5-72B": 72_706_203_648,
    "Qwen/Qwen3-8B": 8_190_735_360,
    "Qwen/Qwen3-30B-A3B": 30_532_122_624,
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": 1_100_048_384,
    "HuggingFaceTB/SmolLM2-135M": 134_515_008,
    "HuggingFaceTB/SmolLM2-1.7B": 1_711_376_384,
}


@each(("name", "count"), PARAMETERS.items())
def test_parameters_of_known_models(name, count):
    """Biases of Qwen2 and norms of queries and keys are not counted."""
    found = accelerate(model=name)["params.decoder"]
    assert found == pytest.approx(count, rel=2e-4)


CONFIG_KEYS = {
    "dim": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "vocab": "vocab_size",
    "norm_eps": "rms_norm_eps",
    "tied": "tie_word_embeddings",
    "experts": "num_experts",
    "top_k": "num_experts_per_tok",
    "family": "model_type",
}


@each("name", sorted({model["names"][0] for model in _published().values()}))
def test_a_local_folder_says_the_same_as_the_table(name, tmp_path):
    known = sizes(name)
    config = {key: known[field] for field, key in CONFIG_KEYS.items() if field in known}
    wide = (
        "intermediate_size"
        if "ffn" in known or known["family"] == "mixtral"
        else "moe_intermediate_size"
    )
    config |= {wide: known.get("ffn") or known["expert"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    same = known.keys() - {"names", "source", "rope_theta"}
    found = sizes(str(tmp_path))
    assert {key: found.get(key) for key in same} == {key: known[key] for key in same}


@each(
    ("config", "missing"),
    [
        ({"model_type": "gemma"}, "model.family"),
        ({"model_type": "llama"}, "model.sizes"),
        ({"model_type": "qwen3_moe", "mlp_only_layers": [0]}, "model.sizes"),
        ({"model_type": "llama", "hidden_size": True}, "model.sizes"),
        ({"model_type": "llama", "hidden_size": 10**30}, "model.sizes"),
    ],
)
def test_a_model_that_is_not_known(config, missing, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(Unknown) as error:
        sizes(str(tmp_path))
    assert error.value.args[0] == missing
