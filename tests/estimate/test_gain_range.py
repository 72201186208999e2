"""FP8's gain where a script leaves settings open."""

from tests.each import each

SCRIPT = """\
#!/bin/bash
# fp8tune: gpu=h100 world-size=8
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 \\
  --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention \\
  --num-query-groups 8 --max-position-embeddings 32768 --global-batch-size 128 \\
  --context-parallel-size 2 --swiglu --normalization RMSNorm --disable-bias-linear \\
  --position-embedding-type rope --untie-embeddings-and-output-weights \\
  --vocab-size 128256 --use-distributed-optimizer --grad-reduce-in-bf16 --bf16 \\
  --fp8-format hybrid --fp8-param-gather --lr 1e-4 --train-iters 100 \\
  --micro-batch-size {batch} --seq-length {length}
"""


def speed_of(fp8tune, project, **settings):
    project({"run.sh": SCRIPT.format(**settings)})
    return fp8tune("estimate", "run.sh", "--output-format", "json").json["speed"]


def test_a_range_holds_what_is_possible_and_names_what_narrows_it(fp8tune, project):
    unknown = speed_of(fp8tune, project, batch="$MBS", length="$SEQ")
    assert unknown["fp8_gain"] is None
    possible = unknown["fp8_gain_range"]
    assert possible["open"] == {
        "micro_batch_size": [1, 2, 4, 8],
        "seq_length": [2048, 8192, 32768],
    }
    assert possible["narrows"] == "seq_length"
    assert possible["left"] < possible["high"] - possible["low"]
    one = speed_of(fp8tune, project, batch="1", length="8192")
    assert one["fp8_gain_range"] is None
    assert possible["low"] <= one["fp8_gain_low"] < 1.35 < one["fp8_gain_high"]
    assert one["fp8_gain_high"] <= possible["high"]


@each(
    ("settings", "said"),
    [
        ({"batch": "$MBS", "length": "8192"}, "for `--micro-batch-size` 1, 2, 4 or 8"),
        (
            {"batch": "$MBS", "length": "$SEQ"},
            "`--seq-length` would narrow it most, to a width of",
        ),
    ],
)
def test_flags_are_named_as_typed(fp8tune, project, settings, said):
    project({"run.sh": SCRIPT.format(**settings)})
    assert said in " ".join(fp8tune("estimate", "run.sh").out.split())


def test_a_band_ends_where_the_share_of_fp8_linears_does(fp8tune, project):
    """At 131,072 tokens attention, which stays in bf16, takes most of a step."""
    full = "--recompute-granularity full --recompute-method uniform"
    more = f"size 8 {full} --recompute-num-layers 1 "
    script = SCRIPT.replace("32768", "131072").replace("size 2 ", more)
    project({"run.sh": script.format(batch="1", length="131072")})
    said = fp8tune(
        "estimate", "run.sh", "--gpu", "h200", "--output-format", "json"
    ).json["speed"]
    assert said["fp8_gain"] < said["fp8_gain_high"] < said["fp8_gain"] + 0.10


AXOLOTL = """\
base_model: meta-llama/Llama-3.1-8B
datasets: [{{path: tatsu-lab/alpaca, type: alpaca}}]
sequence_len: 8192
sample_packing: true
flash_attention: true
micro_batch_size: 1
gradient_accumulation_steps: 8
learning_rate: 1e-5
num_epochs: 1
optimizer: adamw_torch_fused
bf16: true
fp8: true
torch_compile: true
gradient_checkpointing: {whole}
fp8_enable_fsdp_float8_all_gather: true
fsdp_version: 2
fsdp_config:
  activation_checkpointing: {fsdp}
  auto_wrap_policy: TRANSFORMER_BASED_WRAP
  transformer_layer_cls_to_wrap: LlamaDecoderLayer
"""


@each(("whole", "fsdp"), [("false", "true"), ("false", "false"), ("true", "false")])
def test_no_rule_doubts_a_gain_whose_band_is_above(fp8tune, project, whole, fsdp):
    project({"a.yaml": AXOLOTL.format(whole=whole, fsdp=fsdp)})
    target = "--gpu", "h200", "--world-size", "8", "--output-format", "json"
    low = fp8tune("estimate", "a.yaml", *target).json["speed"]["fp8_gain_low"]
    found = fp8tune("lint", "a.yaml", *target).json["diagnostics"]
    doubts = [one["rule"] for one in found if one["category"] == "slow"]
    assert doubts == ["fp8-with-fsdp-checkpointing"] * (low <= 1.10)
    assert (low <= 1.10) == (fsdp == "true")


def test_no_range_where_more_than_settings_is_unknown(estimated):
    text = SCRIPT.format(batch="$MBS", length="8192").replace("gpu=h100 ", "")
    said = estimated(text, "--output-format", "json", path="run.sh").json
    assert said["speed"]["fp8_gain_range"] is None
