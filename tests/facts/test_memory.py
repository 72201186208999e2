"""Memory at the peak of a step, term by term and against measured runs."""

import pytest

from fp8tune.facts import memory
from fp8tune.job import Unknown

GIB = 2**30

SELECTIVE = """
[model]
n_kv_heads = 8
vocab_size = 128256
ffn_hidden_dim = 14336
max_seq_len = 4096
[train]
batch_size = 8
seq_len = 4096
grad_accum_steps = 2
activation_checkpointing = "selective"
"""


@pytest.mark.parametrize(
    ("tokens", "layers", "per_token", "gib"),
    [((GIB,), 1, 1, 1.0), ((32768,), 32, 118784, 116.0), ((100, 7), 2, GIB, 200.0)],
)
def test_activations(tokens, layers, per_token, gib):
    assert memory.activations_gib(tokens, layers, per_token) == gib


@pytest.mark.parametrize(
    ("tokens", "vocab", "gib"),
    [((32768,), 128256, 31.3125), ((999, 32768), 32768, 8.0)],
)
def test_logits_are_of_the_last_stream(tokens, vocab, gib):
    assert memory.logits_gib(tokens, vocab, 8) == gib


def test_gradients():
    assert memory.gradients_gib(8 * GIB, 4) == 32
    assert memory.gradients_gib(8 * GIB, 0) == 0


@pytest.mark.parametrize(("shards", "gib"), [(1, 64.0), (16, 4.0), (None, 0.0)])
def test_state(shards, gib):
    assert memory.state_gib(8 * GIB, 8, shards) == gib


def test_floor_is_the_sum_for_data_parallelism_alone():
    assert memory.floor_gib(1, 1, 1, 1.0, 2.0, 4.0, 8.0) == 15.0


@pytest.mark.parametrize("degrees", [(2, 1, 1), (1, 2, 1), (1, 1, 2)])
def test_floor_is_unknown_for_other_parallelism(degrees):
    with pytest.raises(Unknown):
        memory.floor_gib(*degrees, 1.0, 2.0, 4.0, 8.0)


@pytest.mark.parametrize(
    ("world_size", "floor"),
    [
        (0, 116.0 + 31.3125 + 29.91),
        (16, 116.0 + 31.3125 + 29.91 + 2.80),
        (1, 116.0 + 31.3125 + 29.91 + 44.87),
    ],
)
def test_through_a_config(job, world_size, floor):
    found = job(SELECTIVE, world_size=world_size)
    assert found["memory.floor_gib"] == pytest.approx(floor, abs=0.01)


def test_a_floor_never_falls_with_more_tokens(job):
    floors = [
        job(SELECTIVE.replace("batch_size = 8", f"batch_size = {size}"))[
            "memory.floor_gib"
        ]
        for size in (1, 2, 4, 8, 16)
    ]
    assert floors == sorted(floors)
    assert floors[-1] > 10 * floors[0] / 2


@pytest.mark.parametrize(
    "change",
    [
        ('"selective"', '"none"'),
        ("[train]", "num_experts = 8\n[train]"),
        ("[train]", 'activation = "gelu"\n[train]'),
        ("[train]", 'norm_type = "layernorm"\n[train]'),
        ("[train]", "[vision_encoder]\n[vlm]\n[train]"),
        ("[train]", "[distributed]\ntp = 2\n[train]"),
    ],
)
def test_unknown_where_nothing_was_measured(job, change):
    with pytest.raises(Unknown):
        job(SELECTIVE.replace(*change))["memory.floor_gib"]
