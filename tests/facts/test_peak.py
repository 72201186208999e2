"""The peak over the instants of a step, its band and the verdict."""

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from fp8tune.facts.memory.verdict import BANDS, band, verdict
from fp8tune.job import Unknown
from tests.each import each
from tests.facts.shapes import ANY, INSTANTS, built, degrees, gpus

FILTERED = [HealthCheck.filter_too_much, HealthCheck.too_slow]

CONFIG = """
[model]
dim = {dim}
n_layers = {layers}
n_heads = 32
n_kv_heads = 8
vocab_size = 32000
max_seq_len = 131072
[train]
batch_size = {batch}
seq_len = {seq}
grad_accum_steps = {accum}
compile_model = {compiled}
mixed_precision = "{precision}"
activation_checkpointing = "{ac}"
"""
DEFAULTS = {
    "dim": 2048,
    "layers": 16,
    "batch": 2,
    "seq": 2048,
    "accum": 1,
    "compiled": "true",
    "precision": "bf16",
    "ac": "full",
}


@pytest.fixture
def config(job):
    def build(world_size=8, gpu="h200", extra="", **values):
        text = CONFIG.format(**(DEFAULTS | values)) + extra
        return job(text, world_size=world_size, gpu=gpu)

    return build


def gib(shape, end="peak"):
    """The peak, or an end of its band, where it is covered."""
    try:
        return built(shape)[f"memory.{end}_gib"]
    except Unknown:
        assume(False)


GROWS = st.sampled_from(["batch", "seq", "layers"])


@settings(max_examples=200, suppress_health_check=FILTERED)
@given(ANY, GROWS, st.sampled_from(["peak", "low", "high"]), st.booleans())
def test_memory_never_falls_when_something_grows(shape, what, end, fp8):
    shape |= {"precision": "fp8" if fp8 else "bf16"}
    assert gib(shape, end) <= gib(shape | {what: 2 * shape[what]}, end)


@settings(max_examples=200, suppress_health_check=FILTERED)
@given(ANY, st.sampled_from(["peak", "low", "high"]))
def test_more_shards_never_raise_it(shape, end):
    """From FSDP on: one GPU, or a pipeline by itself, has none of its buffers.

    Nor where FSDP pads packed experts.
    """
    shape |= {"replicas": 1}
    pipeline = gpus(shape) == degrees(shape)["pp"]
    shape |= {"shards": max(1 + pipeline, shape["shards"])}
    more = shape | {"shards": 2 * shape["shards"]}
    assume(not built(more)["expert_padding"])
    assert gib(more, end) <= gib(shape, end)


@settings(max_examples=200, suppress_health_check=FILTERED)
@given(ANY, st.sampled_from(["peak", "high"]))
def test_fp8_alone_does_not_lower_it(shape, end):
    """But for the low end: of what compiled blocks keep in FP8 less is sure."""
    fp8, bf16 = (gib(shape | {"precision": name}, end) for name in ("fp8", "bf16"))
    assert fp8 >= bf16


FEW = {"batch": 1, "seq": 128}
TP = "[distributed]\ntp = 4\n"
EP = "[distributed]\nep = 2\n"
PACKED = "512\nnum_experts = 8\nmoe_packed_experts = true"


@each(
    ("values", "at"),
    [
        ({"dim": 512}, "loss"),
        ({"world_size": 2, "accum": 2, **FEW}, "gathering of the first block"),
        ({"world_size": 1, "accum": 2, **FEW}, "backward of the embedding"),
        ({"extra": TP, **FEW}, "reduction of embedding and head"),
        (
            {"extra": TP, "accum": 2, "batch": 1, "seq": 1024},
            "gathering of embedding and head",
        ),
        (
            {"world_size": 1, "extra": '[optimizer]\nname = "lion"', **FEW},
            "optimizer step",
        ),
    ],
)
def test_where_the_peak_stands(config, values, at):
    found = config(**values)
    assert str(found["memory.peak_at"]) == at
    each = [found[f"memory.{name}_gib"] for name in ("init", *INSTANTS)]
    assert found["memory.peak_gib"] == max(each)
    assert sum(found["memory.breakdown"].values()) == pytest.approx(max(each))


@pytest.mark.parametrize(
    ("low", "middle", "high", "fit"),
    [
        (101.0, 105.0, 110.0, "out-of-memory"),
        (90.0, 96.0, 110.0, "probably-out-of-memory"),
        (90.0, 95.0, 110.0, "may-not-fit"),
        (80.0, 91.0, 92.0, "may-not-fit"),
        (80.0, 90.0, 91.0, "fits"),
    ],
)
def test_the_verdict_is_where_the_band_lies(low, middle, high, fit):
    assert verdict(False, 100.0, 100.0, (low, middle, high)) == fit


def test_a_gpu_of_unknown_memory_is_known_to_be_too_small():
    assert verdict(False, 80.0, None, (81.0, 85.0, 90.0)) == "out-of-memory"
    assert verdict(False, 80.0, None, (79.0, 85.0, 90.0)) == "probably-out-of-memory"
    with pytest.raises(Unknown) as error:
        verdict(False, 80.0, None, (10.0, 10.5, 11.0))
    assert error.value.args == ("gpu.memory_gib",)


def test_a_pipeline_is_known_not_to_fit_alone():
    assert verdict(True, 100.0, 100.0, (101.0, 105.0, 110.0)) == "out-of-memory"
    with pytest.raises(Unknown) as error:
        verdict(True, 100.0, 100.0, (50.0, 55.0, 60.0))
    assert error.value.args == ("memory.last_stage",)


@each("ac", ["none", "selective", "full"])
@each("place", [{"world_size": 1}, {"pp": 2}])
def test_bands_of_what_was_never_measured_add_up(config, ac, place):
    extra = f"[distributed]\npp = {place.get('pp', 1)}\n"
    for compiled in ("true", "false"):
        size = place.get("world_size", 2)
        found = config(world_size=size, extra=extra, ac=ac, compiled=compiled)
        where, _, kind = found["estimate_family"].partition(", ")
        assert bool(kind) is (ac != "full")
        ends = zip(BANDS[where], BANDS.get(kind, (0, 0)), strict=True)
        assert band(found["estimate_family"]) == tuple(map(sum, ends))


def test_fp8_unties_embeddings(job):
    text = CONFIG.format(**DEFAULTS).replace("[model]", "[model]\n{}", 1)
    tied = text.format("tie_embeddings = true")
    bf16, fp8 = (
        job(tied.replace('"bf16"', f'"{precision}"'), world_size=8)
        for precision in ("bf16", "fp8")
    )
    assert bf16["params.head"] == 0
    assert fp8["params.head"] == 2048 * 32000
    assert fp8["memory.state_gib"] > bf16["memory.state_gib"]
    untied = job(text.format("").replace('"bf16"', '"fp8"'), world_size=8)
    assert fp8["memory.peak_gib"] == untied["memory.peak_gib"]
    assert fp8["params.decoder"] == bf16["params.decoder"]
