"""Breakdown of the peak and values that fit."""

import json
import re

import pytest
from hypothesis import given, settings

from fp8tune.job import Unknown
from tests.each import each
from tests.facts.shapes import ANY, LLAMA_8B, built


@pytest.fixture
def config(job):
    def build(batch=8, ac="full", accum=1, world_size=16, gpu="h200"):
        text = LLAMA_8B.format(batch=batch, ac=ac, accum=accum)
        return job(text, world_size=world_size, gpu=gpu)

    return build


@pytest.mark.parametrize(
    ("values", "largest"),
    [
        ({}, "logits 31, activations 8, optimizer state 2"),
        ({"accum": 2}, "logits 31, gradients 30, activations 8"),
        ({"ac": "selective"}, "activations 116, logits 31, optimizer state 2"),
    ],
)
def test_largest_parts(config, values, largest):
    found = config(**values)
    assert found["memory.largest_parts"] == largest
    total = sum(found["memory.breakdown"].values())
    assert total == pytest.approx(found["memory.peak_gib"], rel=1e-9)


@settings(max_examples=200)
@given(ANY)
def test_the_parts_sum_to_the_peak(shape):
    found = built(shape)
    try:
        parts = found["memory.breakdown"]
    except Unknown:
        return
    assert sum(parts.values()) == pytest.approx(found["memory.peak_gib"])


@each("batch", [8, 16, 64])
@each("chunk", [1024, 4096, 8192])
def test_a_chunk_of_the_loss_does_not_shrink_with_the_batch(job, batch, chunk):
    text = LLAMA_8B.format(batch=batch, accum=1, ac="full").replace("4096", "1024")
    text = text.replace("14336", "8192").replace(
        "[train]",
        f'[train]\nloss_fn = "chunked_cross_entropy"\nce_chunk_size = {chunk}',
    )
    for gpu in ("l4", "rtx-3090", "a100-40gb"):
        found = job(text, gpu=gpu, world_size=8)
        size = found["memory.largest_micro_batch"]
        if found["memory.fit"] != "fits" and size:
            fit = found.with_values({"micro_batch": size})["memory.fit"]
            assert fit == "fits"


@each(
    "values",
    [
        {},
        {"accum": 4},
        {"ac": "selective"},
        {"ac": "none", "gpu": "h100"},
        {"world_size": 1},
        {"gpu": "h100", "world_size": 2},
    ],
)
def test_the_largest_micro_batch_is_the_largest_that_fits(config, values):
    batch = config(**values)["memory.largest_micro_batch"]
    assert batch > 0
    assert config(batch=batch, **values)["memory.fit"] == "fits"
    assert config(batch=batch + 1, **values)["memory.fit"] != "fits"


@pytest.mark.parametrize(
    ("seq_len", "batch", "accum", "gpu", "words"),
    [
        (8002, 16, 1, "h100-sxm", "it fits with `train.seq_len = 2000`"),
        (8008, 7, 6, "h100-sxm", "set `train.batch_size = 2`"),
        (1001, 16, 1, "l4", "it does not fit even with `train.batch_size = 16`"),
    ],
)
def test_advice_on_fp8_keeps_tokens_that_its_gemms_take(
    job, fired, seq_len, batch, accum, gpu, words
):
    text = LLAMA_8B.format(batch=batch, accum=accum, ac="full").replace("4096", "8192")
    text = text.replace("\nseq_len = 8192", f"\nseq_len = {seq_len}").replace(
        "[train]", '[train]\nmixed_precision = "fp8"'
    )
    advice = job(text, gpu=gpu, world_size=8)["memory.advice"]
    assert words in advice
    (said,) = re.findall(r"`train.batch_size = (\d+)`", advice)
    text = text.replace(f"batch_size = {batch}", f"batch_size = {said}")
    assert "fp8-tokens-not-16" not in fired(text, gpu=gpu, world_size=8)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"ac": "selective"},
            "set `train.batch_size = 4` and `train.grad_accum_steps = 2`, or"
            ' `train.activation_checkpointing = "full"`: at most 44 GiB',
        ),
        (
            {"ac": "none", "batch": 64},
            "set `train.batch_size = 2` and `train.grad_accum_steps = 32`",
        ),
        (
            {"batch": 64},
            "set `train.batch_size = 16` and `train.grad_accum_steps = 4`",
        ),
        (
            {"gpu": "a10g", "world_size": 2},
            "it does not fit even with `train.batch_size = 1`;"
            " with these values it needs 8 GPUs",
        ),
        (
            {"gpu": "a10g", "ac": "none", "accum": 4},
            'set `train.activation_checkpointing = "full"`,'
            " `train.grad_accum_steps = 1` and `train.batch_size = 3` (3 instead of 32"
            " sequences per rank and step): at most 18 GiB",
        ),
    ],
)
def test_advice(config, values, words):
    assert config(**values)["memory.advice"] == words


LARGE = """
[model]
dim = 8192
n_layers = 80
n_heads = 64
n_kv_heads = 8
ffn_hidden_dim = 28672
vocab_size = 128256
max_seq_len = 4096
[train]
batch_size = 2
seq_len = 4096
grad_accum_steps = 4
activation_checkpointing = "full"
"""


def test_gradients_of_accumulation_are_not_cured_by_batches(job):
    found = job(LARGE, world_size=32, gpu="h200")
    assert found["memory.breakdown"]["gradients"] == pytest.approx(263, abs=1)
    assert found["memory.advice"] == (
        "set `train.batch_size = 8` and `train.grad_accum_steps = 1`: at most 134 GiB,"
        " which may not fit"
    )


def test_full_ac_is_no_advice_where_it_wraps_nothing(job):
    text = (
        "[model]\nn_kv_heads = 8\n[vision_encoder]\nnum_tokens = 256\n"
        'feature_dim = 1024\n[vlm]\narch = "mot"\n[train]\nbatch_size = {batch}\n'
        'compile_model = false\nactivation_checkpointing = "{ac}"\n'
    )
    words = job(text.format(batch=64, ac="none"), world_size=4, gpu="h100")
    advised = "set `train.batch_size = 8` and `train.grad_accum_steps = 8`"
    assert words["memory.advice"] == advised
    peaks = {
        job(text.format(batch=8, ac=ac), world_size=4)["memory.peak_gib"]
        for ac in ("none", "selective", "full")
    }
    assert len(peaks) == 1


ONE_OF_TWO = "set `train.batch_size = 1` (1 instead of 2 sequences per rank and step)"


@pytest.mark.parametrize(
    ("router", "words"),
    [
        ("sigmoid", ONE_OF_TWO),
        (
            "softmax",
            'set `train.activation_checkpointing = "full"`: at most 29 GiB, or'
            f"{ONE_OF_TWO.removeprefix('set')}",
        ),
    ],
)
def test_full_ac_is_no_advice_where_routing_would_not_repeat(job, router, words):
    text = (
        "[model]\ndim = 2048\nn_layers = 24\nn_heads = 16\nn_kv_heads = 8\n"
        "vocab_size = 128256\nmax_seq_len = 4096\nnum_experts = 8\n"
        f'moe_router = "{router}_topk"\n[train]\nbatch_size = 2\nseq_len = 4096\n'
        'compile_model = false\nactivation_checkpointing = "none"\n'
    )
    assert job(text, world_size=8, gpu="h100")["memory.advice"] == words


LLAMA_70B = """
[model]
dim = 8192
n_layers = 80
n_heads = 64
n_kv_heads = 8
ffn_hidden_dim = 28672
vocab_size = 128256
max_seq_len = 4096
[train]
batch_size = {batch}
seq_len = 4096
activation_checkpointing = "{ac}"
"""


@settings(max_examples=100)
@given(ANY)
def test_what_is_advised_fits(shape):
    found = built(shape)
    try:
        fit, words = found["memory.fit"], found["memory.advice"]
    except Unknown:
        return
    if fit == "fits" or words.startswith("it takes"):
        return
    short = {"batch_size": "batch", "grad_accum_steps": "accum"}
    short |= {"activation_checkpointing": "ac", "moe_packed_experts": "packed"}
    for option in words.split(", or ") if words.startswith("set") else ():
        pairs = re.findall(r"`\w+\.(\w+) = ([^`]+)`", option)
        changes = {short[key]: json.loads(value) for key, value in pairs}
        wanted = "may-not-fit" if option.endswith("may not fit") else "fits"
        assert changes
        changed = shape | changes
        assert built(changed)["memory.fit"] == wanted
        kept = changed["batch"] * changed["accum"] == shape["batch"] * shape["accum"]
        assert kept == ("instead of" not in option)
    packed = shape["packed"] and "`model.moe_packed_experts = false`" not in words
    least = {"batch": 1, "accum": 1, "ac": "full", "packed": packed}
    if found_gpus := re.search(r"it takes (\d+) GPUs$", words):
        more = {"world_size": int(found_gpus[1])}
        assert built(shape | least | more)["memory.fit"] == "fits"
    if shorter := re.search(r"it fits with `train.seq_len = (\d+)`$", words):
        less = {"seq": int(shorter[1])}
        assert built(shape | least | less)["memory.fit"] == "fits"


def test_one_batch_is_the_config_without_accumulation(config):
    predicted = config(batch=2, accum=4)["memory.one_batch_gib"]
    assert predicted == config(batch=8)["memory.peak_gib"]


def test_experts_that_fsdp_pads_are_advised_not_to_be_packed(job):
    text = (
        "[model]\nn_layers = 8\nnum_experts = 8\nmoe_packed_experts = {packed}\n"
        'max_seq_len = 4096\n[train]\nactivation_checkpointing = "full"\n'
        "batch_size = 1\nseq_len = 4096\ncompile_model = false\n"
    )
    packed, single = (
        job(text.format(packed=packed), world_size=64, gpu="h100")
        for packed in ("true", "false")
    )
    words = "set `model.moe_packed_experts = false`"
    assert packed["memory.advice"].startswith(words)
    assert packed["memory.unpacked_gib"] == single["memory.peak_gib"]
    assert single["memory.unpacked_gib"] == single["memory.peak_gib"]
    assert single["memory.fit"] == "fits"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"batch": 12, "ac": "none"},
            "use a smaller `train.batch_size`, "
            '`train.activation_checkpointing = "full"`, or more GPUs',
        ),
        (
            {"batch": 512, "ac": "none"},
            "use a smaller `train.batch_size`, or more GPUs",
        ),
        ({"batch": 512}, "use a smaller `train.batch_size`, or more GPUs"),
    ],
)
def test_no_values_are_advised_where_none_is_known_to_fit(config, values, words):
    found = config(gpu="h800", **values)
    assert str(found["memory.fit"]) == "out-of-memory"
    assert found["memory.advice"] == words


def test_no_values_are_advised_to_a_pipeline(job):
    """Its last stage is not covered, and it needs a micro-batch per stage."""
    text = LLAMA_8B.format(batch=64, accum=8, ac="none") + "[distributed]\npp = 8\n"
    found = job(text, gpu="h100", world_size=8)
    assert str(found["memory.fit"]) == "out-of-memory"
    assert found["memory.advice"] == ("use a smaller `train.batch_size`, or more GPUs")


def test_full_ac_is_named_only_where_it_helps(job):
    """Optimizer state alone is more than the GPU has."""
    text = LLAMA_70B + "[data]\npack_sequences = true\n"
    found = job(text.format(batch=1, ac="none"), gpu="h200", world_size=1)
    assert str(found["memory.fit"]) == "out-of-memory"
    assert found["memory.advice"] == "use more GPUs"


@pytest.mark.parametrize(("batch", "fit"), [(1, "may-not-fit"), (64, "out-of-memory")])
def test_a_model_that_may_not_fit_while_it_is_built(job, batch, fit):
    found = job(LLAMA_70B.format(batch=batch, ac="full"), gpu="h200", world_size=64)
    assert str(found["memory.fit"]) == fit
    if fit == "may-not-fit":
        assert found["memory.advice"] == (
            "it may not fit even with `train.batch_size = 1`: each GPU builds the "
            "whole model before it is sharded"
        )
    else:
        assert found["memory.advice"].endswith("GiB, which may not fit")
