"""Whether FP8 pays, and the reasons."""

import pytest

from fp8tune.facts import fp8
from fp8tune.job import Unknown
from tests.each import each

SMALL = """
[model]
dim = {dim}
n_layers = 24
n_heads = {heads}
n_kv_heads = {heads}
vocab_size = 32000
max_seq_len = 4096
[train]
batch_size = {batch}
seq_len = {seq}
grad_accum_steps = {accum}
mixed_precision = "fp8"
activation_checkpointing = "full"
"""


@each("dim", [1024, 1536, 2048, 4096])
@each("tokens", [512, 1024, 2048, 4096])
@each("gpus", [8, 16, 64])
def test_all_gather_alone_makes_no_gain(job, dim, tokens, gpus):
    for accum in (1, 16):
        values = {"dim": dim, "heads": dim // 128, "seq": tokens, "accum": accum}
        found = job(SMALL.format(batch=1, **values), gpu="h100-sxm", world_size=gpus)
        gain, linears = found["speed.fp8_gain"], found["fp8.linear_gain"]
        assert (gain - 1 > 0.001) <= (linears > 1)
        assert found["speed.fp8_gather_gain"] <= max(1, (1 + gain) / 2) + 1e-9
        if linears < 1:
            assert found["fp8.pays"] == "no"
        if tokens < 4096 or dim < 2048:
            assert found["fp8.pays"] != "yes"


def test_the_band_of_a_verdict_is_lints(job, lint):
    """Where lint says that FP8 slows the linears, no estimate says that it pays."""
    values = {"dim": 1024, "heads": 8, "batch": 1, "seq": 1024, "accum": 16}
    text = SMALL.format(**values)
    rules = {d.rule for d in lint(text, gpu="h100", world_size=16).diagnostics}
    assert "fp8-linears-slower" in rules
    assert job(text, gpu="h100-sxm", world_size=16)["fp8.pays"] == "no"
    assert job(text)["fp8.pays"] == "no"


GAIN = {"speed_fp8_gain": 1.25, "speed_fp8_gain_low": 1.17}


@each(
    ("known", "verdict"),
    [
        ({"fp8_obstacle": "tensor parallelism", **GAIN}, "no"),
        (GAIN, "yes"),
        ({**GAIN, "fp8_published": False}, "marginal"),
        ({"speed_fp8_gain": 1.12, "speed_fp8_gain_low": 1.04}, "marginal"),
        ({"speed_fp8_gain": 1.02, "speed_fp8_gain_low": 0.87}, "no"),
        (
            {
                "speed_fp8_gain": 1.02,
                "speed_fp8_gain_low": 0.87,
                "fp8_linear_gain_low": 1.1,
            },
            "marginal",
        ),
        ({"fp8_linear_gain_high": 0.9}, "no"),
        ({"fp8_linear_gain_high": 1.3, "speed_on_hopper": True}, None),
        ({}, None),
    ],
)
def test_pays(known, verdict):
    known = {"compile": True, "fp8_obstacle": "", "fp8_published": True, **known}
    if verdict is None:
        with pytest.raises(Unknown):
            fp8.pays(**known)
    else:
        assert fp8.pays(**known) == verdict


def test_reasons_name_what_decides(job):
    small = "[model]\ndim = 512\nn_heads = 8\n[train]\nbatch_size = 1\n"
    assert job(small, gpu="h100-sxm", world_size=8)["fp8.reasons"] == [
        "the FP8 linears run at 0.72 times their bf16 speed (by H100 measurements), at "
        "M = 2048 and hidden size 512",
        "almost no published model gains below M = 4096 or a hidden size of 2048",
        "upper bound: 1.69x, if FP8 halves the time of its GEMMs",
        "not counted: this trainer all-reduces the largest value of each weight (one "
        "report measured 0.4 % on one node)",
        "49% of a bf16 step is linears that FP8 computes",
        "28% of it is waiting for communication (larger micro-batches or fewer ranks "
        "would change that)",
        "14% of it is norms and activations",
    ]
    alone = job(small, gpu="h100-sxm", world_size=1)["fp8.reasons"]
    assert not any("all-reduce" in reason for reason in alone)
    assert job(small, gpu="a100")["fp8.reasons"] == ["the GPU has no FP8 matmul"]
