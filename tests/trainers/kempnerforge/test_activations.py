"""Bytes per token that blocks, head and loss keep."""

import json

import pytest

from fp8tune.job import Unknown
from fp8tune.trainers.kempnerforge import activations
from tests.each import each

D, F, H, L = 4096, 14336, 32, 16


def config(**keys):
    """A config of ``section.key`` values, written ``section_key``."""
    sizes = {"model_dim": D, "model_n_heads": H, "model_n_kv_heads": 8}
    tables = {}
    for name, value in (sizes | {"model_ffn_hidden_dim": F} | keys).items():
        section, _, key = name.partition("_")
        tables.setdefault(section, []).append(f"{key} = {json.dumps(value)}")
    return "\n".join(f"[{name}]\n" + "\n".join(keys) for name, keys in tables.items())


def kept(job, ac, *, compiled=True, **keys):
    keys |= {"train_activation_checkpointing": ac, "train_compile_model": compiled}
    return job(config(**keys), world_size=32)["activation_bytes"]


def recomputed(job, ac, **keys):
    keys |= {"train_activation_checkpointing": ac, "train_compile_model": False}
    return job(config(**keys), world_size=32)["recompute_bytes"]


def test_a_dense_block_keeps_what_was_measured(repository, job):
    """In FP8 the compiler may keep less than what is counted: the spare bytes."""
    path = repository / "benchmarks" / "results" / "activation_bytes.json"
    fits = json.loads(path.read_text())["fits"]
    assert len(fits) == 16
    for fit in fits:
        keys = {
            "train_activation_checkpointing": fit["ac"],
            "train_compile_model": fit["compiled"],
            "train_mixed_precision": fit["precision"],
            "distributed_tp": fit["tp"],
            "model_n_layers": L,
        }
        found = job(config(**keys), world_size=32)
        least = found["activation_bytes"] - found["spare_bytes"] / L
        assert least == fit["D"] * D + fit["F"] * F + fit["H"] * H, fit


@pytest.mark.parametrize(
    ("tp", "tied", "bytes_"),
    [
        (2, False, 11 * D + (6 * F + 4 * H) / 2),
        (4, False, 7.5 * D + (6 * F + 4 * H) / 4),
        (4, True, 10.5 * D + (6 * F + 4 * H) / 4),
    ],
)
def test_a_compiled_block_that_tensor_parallelism_splits(job, tp, tied, bytes_):
    keys = {"distributed_tp": tp, "model_tie_embeddings": tied}
    assert kept(job, "none", **keys) == bytes_


NARROW = {"model_activation": "gelu", "model_ffn_hidden_dim": D}
TIED = {"model_tie_embeddings": True}


@each(
    ("tp", "keys", "bytes_"),
    [
        (1, {}, 30 * D + 4 * H + 12 * F),
        (1, NARROW, 44 * D + 4 * H),
        (4, TIED, 34 * D + (10 * D + 4 * H) / 4),
        (8, {}, 15.25 * D + H / 2 + 10 * F / 8),
        (8, NARROW, 15.75 * D + H / 2),
    ],
)
def test_what_an_eager_block_computes_anew(job, tp, keys, bytes_):
    """Its FFN differentiated; its norm; with sequence parallelism what it gathers."""
    assert recomputed(job, "full", distributed_tp=tp, **keys) == bytes_


@each(
    ("ac", "keys", "instants"),
    [
        ("full", {}, [(2 * D, -4)]),
        ("full", {"distributed_tp": 4}, [(D / 2, -4)]),
        ("full", {"train_compile_model": True}, []),
        ("full", {"model_num_experts": 8}, []),
        ("none", NARROW, [(20 * D, -4), (-(34 * D + 4 * H), 4)]),
    ],
)
def test_other_instants(job, ac, keys, instants):
    keys = {"train_compile_model": False} | keys
    found = job(config(train_activation_checkpointing=ac, **keys), world_size=32)
    assert found["other_instants"] == instants


@pytest.mark.parametrize(
    ("ac", "keys"),
    [
        ("none", {"model_norm_type": "layernorm"}),
        ("none", {"model_qk_norm": True}),
        ("selective", {"model_activation": "gelu"}),
        ("none", {"model_num_experts": 8}),
        ("selective", {"distributed_tp": 4}),
    ],
)
def test_compiled_blocks_that_were_not_measured(job, ac, keys):
    with pytest.raises(Unknown):
        kept(job, ac, **keys)


@each(
    ("loss", "chunk", "z_loss", "tokens", "each", "bytes_"),
    [
        ("cross_entropy", 0, 0.0, 16384, 2, 8),
        ("chunked_cross_entropy", 8192, 0.0, 16384, 2, 7),
        ("chunked_cross_entropy", 0, 0.0, 16384, 2, 7.5),
        ("chunked_cross_entropy", 3000, 0.0, 16384, 2, 8),
        ("cross_entropy", 0, 1e-4, 16384, 2, 20),
    ],
)
def test_logit_bytes(loss, chunk, z_loss, tokens, each, bytes_):
    assert activations.logit_bytes(loss, chunk, z_loss, tokens, each) == bytes_
