"""The grid, where to start, and what frees memory."""

import pytest

from tests.each import each
from tests.estimate.configs import H200, JSON, ONE_GPU, SEVEN_B, row

MOT = """[model]
dim = 256
n_layers = 4
n_heads = 4
n_kv_heads = 4
vocab_size = 50304
max_seq_len = 576
[train]
seq_len = 576
compile_model = false
activation_checkpointing = "{}"
[vision_encoder]
num_tokens = 64
[vlm]
arch = "mot"
[data]
hf_dataset_name = "x/y"
tokenizer_path = "/data/tokenizer"
"""


@pytest.mark.parametrize(
    ("ac", "rows"), [("none", ["none"]), ("full", ["none", "full"])]
)
def test_no_ac_is_offered_that_wraps_nothing(estimated, ac, rows):
    cells = estimated(MOT.format(ac), *H200, *JSON).json["grid"]
    assert list(dict.fromkeys(cell["ac"] for cell in cells)) == rows


FP8 = SEVEN_B.replace("[train]", "[train]\nmixed_precision = 'fp8'")
REFUSED = FP8.replace("128256", "50257")
EAGER = SEVEN_B.replace("[train]", "[train]\ncompile_model = false\n{}")
SHORT = FP8.replace("size = 8\nseq_len = 4096", "size = 1\nseq_len = 2048")
"""FP8 does not pay at its own batch, and does at the one to start with."""


@each(
    ("text", "pays", "kept", "preferred", "words"),
    [
        (SEVEN_B, "yes", "bf16", "fp8", "bf16 (the config's), micro-batch"),
        (SEVEN_B, "yes", "bf16", "fp8", "or, because FP8 pays here, fp8, micro-batch"),
        (
            EAGER.format("mixed_precision = 'fp8'"),
            "no",
            "fp8",
            "bf16",
            "or, because FP8 does not pay here, bf16, micro-batch",
        ),
        (SHORT, "no", "fp8", None, "start with fp8 (the config's), micro-batch 4"),
        (EAGER.format(""), "no", "bf16", None, "start with bf16 (the config's)"),
        (REFUSED, "no", "bf16", None, "start with bf16 (fp8 cannot run), micro-"),
        (
            SEVEN_B.replace("[train]", "[train]\nmixed_precision = 'fp32'"),
            "yes",
            "fp32",
            "fp8",
            "fits is fp32 (the config's), micro-batch",
        ),
        (
            SEVEN_B.replace("[train]", "[train]\nmixed_precision = 'fp16'"),
            "yes",
            "fp16",
            "fp8",
            "or, because FP8 pays here, fp8, micro-batch",
        ),
    ],
)
def test_the_precision_of_the_start_has_its_reason(
    estimated, text, pays, kept, preferred, words
):
    said = estimated(text, *H200, *JSON).json
    assert (said["fp8_pays"], said["start"]["precision"]) == (pays, kept)
    assert (said["preferred"] or {}).get("precision") == preferred
    assert words in " ".join(estimated(text, *H200).out.split())


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("[train]\nz_loss_weight = 1e-4\n", "`train.z_loss_weight = 0`"),
        (
            "[model]\nnum_experts = 8\nmoe_packed_experts = true\n"
            "[train]\ncompile_model = false\n",
            "`model.moe_packed_experts = false`",
        ),
    ],
)
def test_other_changes_that_free_memory_are_named(estimated, text, change):
    full = "activation_checkpointing = 'full'\nmixed_precision = 'bf16'\n"
    gpus = ("--gpu", "h200", "--world-size", "64", *JSON)
    said = estimated(f"{text}{full}", *gpus).json
    (freed,) = (s for s in said["savings"] if s["change"].startswith(change))
    assert freed["freed_gib"] > 1
    key, value = change.strip("`").split(" = ")
    name = key.partition(".")[2]
    old = {"z_loss_weight": "1e-4", "moe_packed_experts": "true"}[name]
    changed = f"{text}{full}".replace(f"{name} = {old}", f"{name} = {value}")
    there = estimated(changed, *gpus).json["memory"]["peak_gib"]
    assert said["memory"]["peak_gib"] - there == pytest.approx(freed["freed_gib"])


def test_the_grid_has_the_configs_own_column(estimate):
    """Less accumulation needs less: the last column may fit where earlier do not."""
    text = estimate("--gpu", "4090", "--world-size", "8", config=ONE_GPU).out
    assert row(text, "micro-batch") == ["1", "2", "4", "8"]
    assert row(text, "accumulation") == ["8", "4", "2", "1"]
    assert row(text, "fp8  full")[-1] == "45x"
    moe = "configs/moe_9b_8xh200_bf16.toml"
    text = estimate("--gpu", "l40s", "--world-size", "8", config=moe).out
    assert row(text, "bf16 full") == ["53x", "60x", "50x?"]


def test_what_would_fit_is_said_where_nothing_does(estimate):
    said = estimate("--gpu", "4090", "--world-size", "8", *JSON, config=ONE_GPU).json
    assert said["start"] is None
    lost = "(3 instead of 8 sequences per rank and step)"
    assert said["instead"] == f"set `train.batch_size = 3` {lost}"
    assert said["memory"]["usable_gib"] == pytest.approx(0.915 * 23.64)
    assert estimate(*JSON).json["instead"] is None


@pytest.mark.parametrize(
    ("batch", "accum"), [(5, 1), (7, 3), (6, 2), (8, 1), (10**15, 2)]
)
def test_a_smaller_micro_batch_keeps_the_sequences_of_a_step(estimated, batch, accum):
    text = SEVEN_B.replace("batch_size = 8", f"batch_size = {batch}")
    savings = estimated(
        text.replace("steps = 4", f"steps = {accum}"), *H200, *JSON
    ).json["savings"]
    changes = [s["change"] for s in savings if s["change"].startswith("micro-batch")]
    for words in changes:
        half, accumulated = (int(word) for word in words.split() if word.isdigit())
        assert half * accumulated == batch * accum
    assert changes or accum == 1


def test_a_large_micro_batch_of_ones_own_is_in_the_grid(estimated):
    large = SEVEN_B.replace("batch_size = 8", "batch_size = 300")
    said = estimated(large.replace("seq_len = 4096", "seq_len = 16"), *H200, *JSON).json
    assert {cell["micro_batch"] for cell in said["grid"]} >= {300, 240}
    speed = said["speed"]["tokens_per_second"]
    assert said["start"]["tokens_per_second"] >= speed
