"""Instants at which blocks with experts weigh most."""

import pytest

from fp8tune.facts.memory import experts
from tests.each import each

MODEL = """
[model]
dim = 1024
n_layers = {layers}
n_heads = 8
vocab_size = 2048
num_experts = 8
moe_top_k = 2
moe_frequency = {every}
moe_packed_experts = {packed}
[train]
batch_size = 1
seq_len = {seq}
grad_accum_steps = {accum}
compile_model = false
activation_checkpointing = "{ac}"
[distributed]
ep = {ep}
"""
DEFAULTS = {
    "layers": 4,
    "every": 1,
    "packed": "true",
    "seq": 64,
    "accum": 1,
    "ac": "full",
    "ep": 1,
}


@pytest.fixture
def run(job):
    def build(gpus=8, **values):
        return job(MODEL.format(**(DEFAULTS | values)), world_size=gpus)

    return build


@each(
    ("ep", "layers", "every", "groups"),
    [
        (1, 4, 1, ("moe", "moe", "moe", "moe")),
        (1, 5, 2, ("dense", "dense", "moe", "dense")),
        (2, 4, 1, ("attention", "attention", "experts", "experts")),
        (2, 4, 2, ("dense", "attention", "experts", "experts")),
    ],
)
def test_groups_that_fsdp_gathers(run, ep, layers, every, groups):
    found = run(16, ep=ep, layers=layers, every=every)
    attention = found["params.attention"] + 2 * 1024
    sizes = {
        "moe": found["params.moe_block"] + found["expert_padding"],
        "dense": found["params.dense_block"],
        "attention": attention,
        "experts": found["params.moe_block"] - attention + found["expert_padding"],
        "nothing": 0,
    }
    names = "first_group", "group_before_experts", "expert_group", "last_group"
    assert [found[f"params.{name}"] for name in names] == [sizes[g] for g in groups]


def test_blocks_that_are_there_at_each_place():
    """Of ten blocks the third, sixth and ninth have experts."""
    found = experts.expert_places(1, 3, 3)
    assert {name: tuple(place.values()) for name, place in found.items()} == {
        "forward, first": (3, 1, pytest.approx(2 / 3)),
        "forward, last": (9, 3, 0),
        "last": (9, 3, 0),
        "next": (6, 2, pytest.approx(1 / 3)),
        "second": (6, 2, pytest.approx(1 / 3)),
        "first": (3, 1, pytest.approx(2 / 3)),
        "last reduced": (8, 2, pytest.approx(1 / 3)),
        "first reduced": (2, 0, pytest.approx(2 / 3)),
    }


def test_a_block_with_experts_keeps_more_than_a_dense_one(run):
    found = run(layers=8, every=4, ac="none")
    dense, mixed = (
        found[f"memory.{kind}_activations_gib"] for kind in ("dense", "expert")
    )
    assert mixed > dense
    whole = found["memory.activations_gib"]
    assert 6 * dense + 2 * mixed == pytest.approx(whole)
    held = found["memory.expert_held"]
    assert held["last"]["activations"] == pytest.approx(whole)
    assert held["first"]["activations"] == pytest.approx(3 * dense + mixed)
    assert held["first reduced"]["activations"] == pytest.approx(3 * dense)


@pytest.mark.parametrize(
    ("gpus", "values", "at", "bytes_"),
    [
        (64, {}, "backward", 2 + 2 + 4),
        (64, {"every": 4, "layers": 8}, "reduction of experts", 4),
        (64, {"every": 2}, "reduction of experts", 4 + 2),
        (128, {"ep": 2}, "reduction of experts", 4 + 2),
    ],
)
def test_padding_of_experts_is_a_part_of_its_own(run, gpus, values, at, bytes_):
    """Own weights, the next experts' ahead, gradients of those before in fp32."""
    found = run(gpus, **values)
    assert str(found["memory.peak_at"]) == at
    padding = found["memory.breakdown"]["padding of experts"] * 2**30
    assert padding == bytes_ * found["expert_padding"]
