"""Verdicts of an estimate, and what is said of a run that does not fit."""

import pytest

from fp8tune.facts.memory.verdict import SEGMENTS
from tests.estimate.configs import H200, JSON, SEVEN_B, row
from tests.sample import MOE_9B

EXPERTS = f"""{MOE_9B}max_seq_len = 4096
[train]
batch_size = {{}}
seq_len = 4096
compile_model = false
activation_checkpointing = "full"
[distributed]
dp_shard = 4
tp = 4
ep = 2
"""


@pytest.mark.parametrize(
    ("batch", "fit", "segments", "code"),
    [
        (8, "fits", None, 0),
        (12, "fits", SEGMENTS, 0),
        (15, "may-not-fit", SEGMENTS, 0),
        (16, "probably-out-of-memory", None, 1),
        (32, "out-of-memory", None, 1),
    ],
)
def test_each_verdict(fp8tune, project, batch, fit, segments, code):
    """The published runs of 8 and 12 worked, with the setting; that of 16 did not."""
    project({"a.toml": EXPERTS.format(batch)})
    outcome = fp8tune("estimate", "a.toml", *H200[:2], *JSON)
    said = outcome.json
    assert (said["fit"], said["fit_assumes"], outcome.code) == (fit, segments, code)
    out = " ".join(fp8tune("estimate", "a.toml", *H200[:2]).out.split())
    assert f"fit: {fit.replace('-', ' ')} (the GPU has 140 GiB" in out
    assert (f"{SEGMENTS} is assumed" in out) is bool(segments)
    fired = fp8tune("lint", "a.toml", *H200[:2], "--select", "memory", *JSON).json
    rules = [] if fit == "fits" else [fit]
    assert [found["rule"] for found in fired["diagnostics"]] == rules


def test_a_run_that_does_not_fit_has_neither_speed_nor_gain(fp8tune, project):
    project({"a.toml": SEVEN_B.replace('"full"', '"none"')})
    said = fp8tune("estimate", "a.toml", *H200, *JSON).json
    assert (said["fit"], said["fp8_pays"]) == ("out-of-memory", "unknown")
    assert set(said["speed"].values()) - {said["speed"]["fp8_flop_share"]} <= {
        None,
        False,
        1.29,
        "torchao",
    }
    for cell in said["grid"]:
        too_much = cell["fit"] in ("probably-out-of-memory", "out-of-memory")
        assert (cell["tokens_per_second"] is None) is too_much


def test_a_run_that_may_be_too_large_has_a_gain_if_it_fits(fp8tune, project):
    text = SEVEN_B.replace('"full"', '"none"').replace("size = 8", "size = 2")
    project({"a.toml": text})
    words = ("estimate", "a.toml", "--gpu", "h100", "--world-size", "8")
    said = fp8tune(*words, *JSON).json
    assert (said["fit"], said["fp8_pays"]) == ("probably-out-of-memory", "yes")
    assert said["speed"]["tokens_per_second"] is None
    assert "does FP8 pay here, if it fits? yes: " in fp8tune(*words).out


def test_a_mask_leaves_lower_bounds(estimated):
    packed = "[data]\npack_sequences = true\ndataset_path = 'x'\ntokenizer_path = 'y'\n"
    outcome = estimated(SEVEN_B + packed, *H200)
    words = " ".join(outcome.out.split())
    assert outcome.code == 0
    assert "GiB per GPU; no estimate covers the attention mask of packed" in words
    assert "fit: unknown, for the same reason" in words
    assert (
        "speed: unknown: no estimate covers the speed of attention with the mask"
        in words
    )
    assert all(cell.startswith(">") for cell in row(outcome.out, "bf16 none"))
    said = estimated(SEVEN_B + packed, *H200, *JSON).json
    assert said["memory"]["peak_gib"] is None
    assert said["memory"]["low_gib"] > 50


@pytest.mark.parametrize(
    ("gpu", "words"),
    [
        ("b200", "a whole model reaches 1.25 times bf16: Llama 3 8B on 8 B200"),
        ("mi300x", "a whole model reaches 1.15 times bf16: Llama 3 8B on 8 MI300X"),
        ("v100-32gb", "no FP8 matmul, and no bf16 tensor cores either"),
    ],
)
def test_what_is_known_of_fp8_on_other_gpus(fp8tune, project, gpu, words):
    small = SEVEN_B.replace("batch_size = 8", "batch_size = 1")
    project({"a.toml": small.replace("steps = 4", "steps = 1")})
    out = fp8tune("estimate", "a.toml", "--gpu", gpu, "--world-size", "64").out
    assert words in " ".join(out.split())


def test_nearly_empty_gpus_that_wait_are_told_what_to_do(fp8tune, project):
    small = SEVEN_B.replace("[model]", "[model]\ndim = 2048\nn_layers = 24")
    small = small.replace("14336", "5632").replace("128256", "32000")
    small = small.replace("n_heads = 32", "n_heads = 16").replace("s = 4", "s = 1")
    text = small.replace("batch_size = 8", "batch_size = 1")
    project({"a.toml": text.replace("\nseq_len = 4096", "\nseq_len = 2048")})
    said = fp8tune("estimate", "a.toml", *H200, *JSON).json
    out = " ".join(fp8tune("estimate", "a.toml", *H200).out.split())
    assert "`train.batch_size = 2`, which doubles the tokens per step" in said["fuller"]
    assert "on 8 GPUs it keeps the tokens per step" in said["fuller"]
    assert said["fuller"] in out
    project({"a.toml": SEVEN_B})
    assert fp8tune("estimate", "a.toml", *H200, *JSON).json["fuller"] is None
