"""Breakdown of the peak and values that fit."""

import pytest
from hypothesis import given, settings

from fp8tune.job import Unknown
from tests.facts.shapes import ANY, built

TEXT = """
[model]
n_kv_heads = 8
vocab_size = 128256
ffn_hidden_dim = 14336
max_seq_len = 4096
[train]
batch_size = {batch}
seq_len = 4096
grad_accum_steps = {accum}
activation_checkpointing = "{ac}"
"""


@pytest.fixture
def config(job):
    def build(batch=8, ac="full", accum=1, world_size=16, gpu="h200"):
        text = TEXT.format(batch=batch, ac=ac, accum=accum)
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
    assert total == pytest.approx(found["memory.peak_gib"], rel=0.01)


@pytest.mark.parametrize(
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


def test_where_nothing_fits(config):
    found = config(ac="none", world_size=1, gpu="a10g")
    assert found["memory.largest_micro_batch"] == 0
    assert found["memory.sizing"] == "it does not fit even with"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"ac": "selective"}, ", or full AC: at most 43 GiB"),
        ({"ac": "none", "batch": 32}, ""),
        ({}, ""),
        ({"gpu": "a10g", "world_size": 2}, "; shard over more GPUs"),
        ({"ac": "none", "gpu": "h100", "batch": 16}, ""),
        (
            {"ac": "none", "gpu": "h100", "world_size": 1, "accum": 4},
            "; shard over more GPUs",
        ),
    ],
)
def test_otherwise(config, values, words):
    assert config(**values)["memory.otherwise"] == words


def test_full_ac_is_what_the_config_would_need(config):
    predicted = config(ac="selective")["memory.full_ac_gib"]
    assert predicted == pytest.approx(config()["memory.loss_gib"])


@settings(max_examples=150, deadline=None)
@given(ANY)
def test_what_is_advised_fits(shape):
    found = built(shape)
    try:
        fit, batch = found["memory.fit"], found["memory.largest_micro_batch"]
        words = found["memory.otherwise"]
    except Unknown:
        return
    if fit != "fits" and batch:
        assert batch < shape["batch"]
        assert built(shape | {"batch": batch})["memory.fit"] == "fits"
    if "full AC" in words:
        assert built(shape | {"ac": "full"})["memory.fit"] == "fits"


def test_one_batch_is_the_config_without_accumulation(config):
    predicted = config(batch=2, accum=4)["memory.one_batch_gib"]
    real = config(batch=8)["memory.peak_gib"]
    assert real <= predicted <= 1.2 * real
