"""Runs for which FP8 is asked and in which nothing computes in it."""

from tests.each import each

AXOLOTL = """base_model: Qwen/Qwen3-8B
datasets:
  - path: tatsu-lab/alpaca
    type: alpaca
sequence_len: 8192
sample_packing: true
micro_batch_size: 1
gradient_accumulation_steps: 1
learning_rate: 2e-5
optimizer: adamw_torch
attn_implementation: flash_attention_2
gradient_checkpointing: true
bf16: true
torch_compile: true
fp8: true
"""
FSDP1 = """fsdp_config:
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_transformer_layer_cls_to_wrap: Qwen3DecoderLayer
"""
ACCELERATE = """distributed_type: FSDP
mixed_precision: fp8
num_processes: 8
fp8_config: {backend: TE}
fsdp_config:
  fsdp_version: 2
  fsdp_cpu_ram_efficient_loading: false
"""
SFT = """model_name_or_path: Qwen/Qwen3-8B
max_length: 8192
per_device_train_batch_size: 1
gradient_accumulation_steps: 1
bf16: false
gradient_checkpointing: true
packing: true
torch_compile: true
dtype: bfloat16
"""
AUTOMODEL = """recipe: TrainFinetuneRecipeForNextTokenPrediction
model:
  pretrained_model_name_or_path: Qwen/Qwen2.5-7B
step_scheduler: {global_batch_size: 8, local_batch_size: 1}
packed_sequence: {packed_sequence_size: 8192}
distributed: {strategy: fsdp2, enable_compile: true, activation_checkpointing: true}
optimizer: {_target_: torch.optim.AdamW, lr: 1.0e-5}
loss_fn: {_target_: nemo_automodel.components.loss.masked_ce.MaskedCrossEntropy}
fp8: {recipe_name: tensorwise}
"""
H100 = ("--gpu", "h100", "--world-size", "8")


@each(
    ("text", "rule", "line", "message"),
    [
        (
            AXOLOTL.replace("sample_packing: true\n", "rl: dpo\n"),
            "fp8-lost-in-preference-training",
            15,
            'with `rl: "dpo"` FP8 is never turned on: the run is in bf16',
        ),
        (
            ACCELERATE,
            "te-with-fsdp2",
            4,
            "nothing computes in FP8: with FSDP2 Accelerate converts linears to "
            "Transformer Engine's, but never enters its FP8 autocast",
        ),
        (
            AUTOMODEL,
            "fp8-section-not-enabled",
            9,
            "`fp8` has settings and is not enabled: the run is in bf16",
        ),
    ],
)
def test_fp8_that_is_off_is_said_as_lint_says_it(
    fp8tune, project, text, rule, line, message
):
    project({"a.yaml": text})
    said = fp8tune("estimate", "a.yaml", *H100, "--output-format", "json").json
    (off,) = said["fp8_off"]
    shown = (off["rule"], off["line"], off["message"])
    assert shown == (rule, line, message)
    assert (said["fp8_pays"], said["reasons"], said["gemms"]) == ("no", [], [])
    assert "fp8" not in {cell["precision"] for cell in said["grid"]}
    words = fp8tune("estimate", "a.yaml", *H100).out
    assert " ".join(words.split()).count(message) == 1
    assert "does FP8 pay here? no: it is off in this run" in words
    table = fp8tune("estimate", "a.yaml", "--gpu", "h100,h200").out
    assert f"FP8 is off: {off['message']}"[:30] in table.replace(" = ", ": ")


def test_where_fp8_is_on_nothing_is_off(fp8tune, project):
    project({"a.yaml": AXOLOTL + FSDP1})
    said = fp8tune("estimate", "a.yaml", *H100, "--output-format", "json").json
    assert (said["fp8_off"], said["fp8_pays"]) == ([], "marginal")


@each(
    ("fsdp", "missing"),
    [
        ("", None),
        ("fsdp: [full_shard, auto_wrap]\n", None),
        ("fsdp: [full_shard, auto_wrap, offload]\n", "memory.offload"),
        ("fsdp: [shard_grad_op, auto_wrap]\n", "shards.strategy"),
    ],
)
def test_spellings_of_full_shard(fp8tune, project, fsdp, missing):
    project({"a.yaml": AXOLOTL + FSDP1 + fsdp})
    said = fp8tune("estimate", "a.yaml", *H100, "--output-format", "json").json
    assert said["missing"].get("memory.peak_gib") == missing


def test_other_numbers_of_processes(fp8tune, project):
    launch = ACCELERATE.replace("TE", "AO").replace("num_pro", "gpu_ids: all\nnum_pro")
    launch += "dynamo_config: {dynamo_backend: INDUCTOR}\n"
    project({"a.yaml": launch, "sft.yaml": SFT})
    arguments = ("a.yaml", "--with", "sft.yaml", "--gpu", "h100")
    assert (
        "GPUs: 8 x h100-sxm, by `num_processes`" in fp8tune("estimate", *arguments).out
    )
    table = fp8tune(
        "estimate", *arguments, "--world-size", "8,64", "--output-format", "json"
    ).json
    gains = [line["speed"]["fp8_gain"] for line in table["estimates"]]
    assert all(gains)


@each(
    ("text", "words"),
    [
        (
            AUTOMODEL.replace("packed_sequence: {packed_sequence_size: 8192}\n", ""),
            "set `packed_sequence.packed_sequence_size`",
        ),
        (
            AUTOMODEL.replace("Qwen/Qwen2.5-7B", "${MODEL_DIR}/qwen"),
            "write its name or folder as `model.pretrained_model_name_or_path`",
        ),
        (SFT, "the launch file is unknown: add --with FILE"),
        (
            SFT.replace("max_length: 8192\n", ""),
            "by the name that the script reads: `max_length`",
        ),
        (
            SFT.replace("max_length", "max_completion_length"),
            "unknown: no estimate covers training that generates its own samples",
        ),
    ],
)
def test_what_is_missing_has_the_words_of_the_trainer(estimated, text, words):
    assert words in " ".join(estimated(text, *H100, path="a.yaml").out.split())


def test_the_key_that_compiles_with_fsdp2(fp8tune, project):
    text = AUTOMODEL.replace("enable_compile: true", "tp_size: 1")
    project({"a.yaml": text.replace("fp8: {", "fp8: {enabled: true, ")})
    out = fp8tune("lint", "a.yaml").out
    assert "compile the model (`distributed.enable_compile`)" in out


def test_batches_of_unknown_padding_are_not_checked(fp8tune, project):
    text = AUTOMODEL.replace("packed_sequence: {packed_sequence_size: 8192}\n", "")
    project({"a.yaml": text.replace("fp8: {", "fp8: {enabled: true, ")})
    out = fp8tune("lint", "a.yaml").out
    assert "the file does not say how batches are padded" in out


def test_the_help_names_the_key_of_full_ac(fp8tune, project):
    text = AUTOMODEL.replace(", activation_checkpointing: true", "")
    project({"a.yaml": text.replace("global_batch_size: 8", "global_batch_size: 64")})
    out = fp8tune("lint", "a.yaml", *H100).out
    key = "distributed.activation_checkpointing"
    assert f"= help: set `{key}: true`: at most " in out


def test_why_fp8_does_not_pay_needs_no_sizes(fp8tune, project):
    launch = ACCELERATE.split("fp8_config")[0].replace("fp8", "bf16")
    project({"a.yaml": launch, "sft.yaml": "output_dir: out\nbf16: true\n"})
    asked = ("estimate", "a.yaml", "--with", "sft.yaml", *H100)
    said = fp8tune(*asked, "--output-format", "json").json
    assert said["missing"]["memory.peak_gib"] == "model.unnamed"
    assert said["fp8_pays"] == "no"
    assert said["reasons"] == ["without compile each cast is a separate kernel"]
