"""The state of Muon, against what the trainer's own optimizer held on the CPU."""

import pytest

from tests.each import each

MODEL = """
[model]
dim = 256
n_layers = 4
n_heads = {heads}
n_kv_heads = {kv_heads}
ffn_hidden_dim = 896
vocab_size = {vocab}
max_seq_len = 64
{extra}
[train]
seq_len = 64
grad_accum_steps = {accum}
[optimizer]
name = "muon"
"""
SIZES = {"heads": 8, "kv_heads": 2, "vocab": 8192, "extra": "", "accum": 1}


@each(
    ("sizes", "state", "kept"),
    [
        ({}, 3.1037, 1.1037),
        ({"vocab": 2048}, 2.0010, 0.0010),
        ({"extra": "num_experts = 4\nmoe_packed_experts = true"}, 3.9174, 1.9174),
        ({"extra": "num_experts = 4"}, 2.5295, 0.5295),
        ({"extra": "tie_embeddings = true"}, 2.7624, 0.7624),
        ({"vocab": 2048, "heads": 16, "kv_heads": 1}, 2.0161, 0.0161),
    ],
)
def test_bytes_per_parameter_on_one_gpu(job, sizes, state, kept):
    """Measured of every parameter; norms and routers are not counted here."""
    found = job(MODEL.format(**(SIZES | sizes)), world_size=1)
    assert found["optimizer_bytes"] == pytest.approx(state, abs=0.002)
    assert found["kept_gradient_bytes"] == pytest.approx(kept, abs=0.002)


@pytest.mark.parametrize(("gpus", "accum", "kept"), [(8, 1, 2), (8, 4, 2), (1, 4, 0)])
def test_gradients_that_outlive_the_step(job, gpus, accum, kept):
    text = MODEL.format(**(SIZES | {"accum": accum}))
    assert job(text, world_size=gpus)["kept_gradient_bytes"] == kept


def test_tables_of_one_gpu_are_held_twice(job):
    """1.96 GiB of a Llama-3 8B: the second moment of embedding and head."""
    llama = MODEL.replace("dim = 256", "dim = 4096").replace("896", "14336")
    sizes = {"heads": 32, "kv_heads": 8, "vocab": 128256}
    muon = job(llama.format(**(SIZES | sizes)), world_size=1)
    tables = 2 * muon["params.embedding"] * 2 / 2**30
    each = muon["params.rank"] * 2 / 2**30
    assert muon["memory.breakdown"]["optimizer state"] == pytest.approx(each + tables)
