"""Predicted speed against published runs, and where nothing is predicted."""

import pytest

from fp8tune.facts import speed
from fp8tune.job import Unknown
from tests.each import each
from tests.facts.shapes import LLAMA_8B

RUN = LLAMA_8B.format(batch=4, accum=2, ac="full")
FP8 = 'mixed_precision = "fp8"\n'


def test_through_a_config(job):
    """KempnerForge's 7B on 4 H200s: 38,983 tokens/s measured."""
    found = job(RUN, gpu="h200", world_size=4)
    assert found["speed.tokens_per_second"] == pytest.approx(38_983, rel=0.04)
    assert found["speed.tokens_low"] < 38_983 < found["speed.tokens_high"]
    parts = found["speed.bf16_seconds"]
    assert parts.total == pytest.approx(sum(parts))
    assert parts.linears > 0.6 * parts.total
    assert parts.bubble == 0


def test_nodes_of_four_are_slower_than_one_of_eight(job):
    one = job(RUN, gpu="h200", world_size=8)
    split = one.with_values({"gpus_per_node": 4})
    assert one["speed.on_small_nodes"]
    assert not split["speed.on_small_nodes"]
    assert split["speed.tokens_per_second"] < one["speed.tokens_per_second"]
    assert one["speed.tokens_low"] == pytest.approx(split["speed.tokens_low"])
    assert not job(RUN, gpu="h200", world_size=16)["speed.on_small_nodes"]


@pytest.mark.parametrize("gpu", ["h100-pcie", "h100-nvl", "h800", "gh200-96gb"])
def test_of_gpus_without_published_runs_only_one_has_a_speed(job, gpu):
    assert job(RUN, gpu=gpu, world_size=1)["speed.tokens_per_second"] > 0
    with pytest.raises(Unknown, match="switched"):
        job(RUN, gpu=gpu, world_size=8)["speed.tokens_per_second"]


@pytest.mark.parametrize(
    ("gpus", "error"),
    [(64, speed.SPEED_ERROR), (128, speed.FAR_SPEED_ERROR), (512, 0.30), (1024, None)],
)
def test_the_band_is_wider_on_more_gpus_than_were_published(job, gpus, error):
    found = job(RUN, gpu="h200", world_size=gpus)
    if error is None:
        with pytest.raises(Unknown, match=r"speed\.most_gpus"):
            _ = found["speed.tokens_low"]
    else:
        low, tokens = found["speed.tokens_low"], found["speed.tokens_per_second"]
        assert low == pytest.approx(tokens * (1 - error))


def test_fp8_is_faster_by_its_gain(job):
    base, fast = (job(RUN + extra, gpu="h200", world_size=4) for extra in ("", FP8))
    gain = base["speed.fp8_gain"]
    assert fast["speed.fp8_gain"] == gain
    assert fast["speed.tokens_per_second"] == pytest.approx(
        gain * base["speed.tokens_per_second"]
    )
    assert base["speed.fp8_gain_low"] < gain < base["speed.fp8_gain_high"]
    assert base["fp8.pays"] == "yes"
    assert not base["speed.fp8_gain_suspicious"]


@each(
    ("change", "target"),
    [
        (("", ""), {"gpu": "h200"}),
        (("", ""), {"gpu": "b200", "world_size": 4}),
        (("", ""), {"gpu": "a100", "world_size": 4}),
        (("[train]", "num_experts = 8\n[train]"), {"gpu": "h200", "world_size": 4}),
        (("[train]", "[distributed]\ncp = 2\n[train]"), {"gpu": "h200"}),
        (("[train]", "[data]\npack_sequences = true\n[train]"), {"gpu": "h200"}),
    ],
)
def test_unknown_where_nothing_was_measured(job, change, target):
    found = job(RUN.replace(*change), **target)
    for fact in ("speed.tokens_per_second", "speed.fp8_gain"):
        with pytest.raises(Unknown):
            found[fact]


@pytest.mark.parametrize(
    "change",
    [
        ("[train]", "dim = 512\nn_heads = 8\n[train]"),
        ("[train]", '[optimizer]\nname = "muon"\n[train]'),
        ("[train]", '[train]\nmixed_precision = "fp32"'),
    ],
)
def test_tokens_are_unknown_but_not_the_gain(job, change):
    found = job(RUN.replace(*change), gpu="h200", world_size=4)
    assert found["speed.fp8_gain"] > 0.5
    with pytest.raises(Unknown):
        found["speed.tokens_per_second"]
