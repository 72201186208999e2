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


@settings(max_examples=200)
@given(ANY)
def test_the_parts_sum_to_the_peak(shape):
    found = built(shape)
    try:
        parts = found["memory.breakdown"]
    except Unknown:
        return
    assert sum(parts.values()) == pytest.approx(found["memory.peak_gib"])


@each(
    "values",
    [
        {},
        {"ac": "none", "gpu": "h100"},
        {"world_size": 1},
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
        (8002, 16, 1, "h100-sxm", "it does not fit even with `train.batch_size = 8`"),
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


def test_no_values_are_advised_to_a_pipeline(job):
    """Its last stage is not covered, and it needs a micro-batch per stage."""
    text = LLAMA_8B.format(batch=64, accum=8, ac="none") + "[distributed]\npp = 8\n"
    found = job(text, gpu="h100", world_size=8)
    assert str(found["memory.fit"]) == "out-of-memory"
    assert found["memory.advice"] == ("use a smaller `train.batch_size`, or more GPUs")
