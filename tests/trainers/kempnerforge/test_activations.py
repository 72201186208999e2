"""Bytes per token that blocks, head and loss keep."""

import json

import pytest

from fp8tune.job import Unknown
from fp8tune.trainers.kempnerforge import activations
from tests.each import each

D, F, H, L = 4096, 14336, 32, 16
NONE = 18 * D + 6 * F + 4 * H


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


@each("precision", ["bf16", "fp8"])
@each(
    ("ac", "compiled", "bytes_"),
    [
        ("full", True, 2 * D),
        ("full", False, 2 * D),
        ("selective", True, 8 * D + 6 * F),
        ("none", True, NONE),
        ("selective", False, 20 * D + 8 * F),
        ("none", False, 30 * D + 8 * F + 4 * H),
    ],
)
def test_a_dense_block(job, ac, compiled, precision, bytes_):
    assert kept(job, ac, compiled=compiled, train_mixed_precision=precision) == bytes_


@pytest.mark.parametrize(
    ("ac", "compiled", "bytes_"),
    [
        ("full", True, 4 * D),
        ("selective", True, 16 * D + 12 * F),
        ("none", True, 36 * D + 12 * F + 4 * H),
        ("selective", False, 24 * D + 16 * F),
        ("none", False, 44 * D + 16 * F + 4 * H),
    ],
)
def test_a_dense_block_in_fp32(job, ac, compiled, bytes_):
    assert kept(job, ac, compiled=compiled, train_mixed_precision="fp32") == bytes_


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


def test_they_are_what_was_measured(repository):
    path = repository / "benchmarks" / "results" / "activation_bytes.json"
    fits = json.loads(path.read_text())["fits"]
    found = {
        (fit["precision"], fit["compiled"], fit["ac"]): (fit["D"], fit["F"], fit["H"])
        for fit in fits
        if fit["tp"] == 1
    }
    assert found["bf16", False, "none"] == (30, 8, 4)
    assert found["bf16", False, "selective"] == (20, 8, 0)
    assert found["bf16", True, "none"] == (18, 6, 4)
    assert found["bf16", True, "selective"] == (8, 6, 0)
    assert found["fp8", True, "none"] == (12, 4, 4)
    assert found["fp8", True, "selective"] == (4, 4, 0)


def test_so_are_eager_blocks_that_tensor_parallelism_splits(repository, job):
    path = repository / "benchmarks" / "results" / "activation_bytes.json"
    fits = [fit for fit in json.loads(path.read_text())["fits"] if fit["tp"] > 1]
    found = [
        kept(job, fit["ac"], compiled=False, distributed_tp=fit["tp"]) for fit in fits
    ]
    measured = [fit["D"] * D + fit["F"] * F + fit["H"] * H for fit in fits]
    assert found == measured
    assert len(fits) == 4


@pytest.mark.parametrize(("ac", "each"), [("none", 14.5 * D), ("selective", 6.5 * D)])
def test_without_a_gate_one_input_less_is_gathered(job, ac, each):
    keys = {"distributed_tp": 4, "model_activation": "gelu"}
    own = (4 * F + (4 * H if ac == "none" else 0)) / 4
    assert kept(job, ac, compiled=False, **keys) == each + own


@pytest.mark.parametrize(("tp", "bytes_"), [(1, 2 * D), (4, (2 + 6 / L) / 4 * D)])
def test_the_first_block_keeps_the_whole_embedding(job, tp, bytes_):
    assert kept(job, "full", distributed_tp=tp, model_n_layers=L) == bytes_


NARROW = {"model_activation": "gelu", "model_ffn_hidden_dim": D}
TIED = {"model_tie_embeddings": True}


@each(
    ("tp", "keys", "bytes_"),
    [
        (1, {}, 30 * D + 4 * H + 12 * F),
        (1, NARROW, 44 * D + 4 * H),
        (1, NARROW | {"model_norm_type": "layernorm"}, 22 * D + 4 * H),
        (4, TIED, 34 * D + (10 * D + 4 * H) / 4),
        (2, {}, 23 * D + 2 * H + 6 * F),
        (8, {}, 15.25 * D + H / 2 + 10 * F / 8),
        (8, {"model_ffn_hidden_dim": D}, 18.25 * D + H / 2),
        (8, NARROW, 15.75 * D + H / 2),
    ],
)
def test_what_an_eager_block_computes_anew(job, tp, keys, bytes_):
    """Its FFN differentiated; its norm; with sequence parallelism what it gathers."""
    assert recomputed(job, "full", distributed_tp=tp, **keys) == bytes_


@pytest.mark.parametrize(
    ("tp", "keys", "bytes_"),
    [
        (1, {}, 2 * D + 4 * F),
        (1, NARROW, 4 * D),
        (2, {}, D + 2 * F),
        (4, {}, 4.5 * D),
        (8, {"model_ffn_hidden_dim": D}, 4.25 * D),
    ],
)
def test_what_an_eager_block_adds_that_kept_all(job, tp, keys, bytes_):
    assert recomputed(job, "none", distributed_tp=tp, **keys) == bytes_


@each(
    ("ac", "keys", "instants"),
    [
        ("full", {}, [(2 * D, -4)]),
        ("full", {"distributed_tp": 4}, [(D / 2, -4)]),
        ("full", TIED | {"distributed_tp": 4}, [(2 * D, -4)]),
        ("full", {"train_grad_accum_steps": 2}, [(2 * D, 0)]),
        ("full", {"train_compile_model": True}, []),
        ("full", {"distributed_pp": 2}, []),
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


def test_relu_was_not_measured(job):
    with pytest.raises(Unknown):
        kept(job, "none", compiled=False, model_activation="relu")


@pytest.mark.parametrize(
    ("ac", "precision", "bytes_"),
    [
        ("none", "fp8", 32 * (6 * D + 2 * F)),
        ("selective", "fp8", 32 * (4 * D + 2 * F)),
        ("none", "bf16", 0),
        ("full", "fp8", 0),
    ],
)
def test_fp8_blocks_that_the_compiler_may_shrink(job, ac, precision, bytes_):
    keys = {"train_activation_checkpointing": ac, "train_mixed_precision": precision}
    assert job(config(**keys))["spare_bytes"] == bytes_


@each(
    ("loss", "chunk", "z_loss", "tokens", "each", "bytes_"),
    [
        ("cross_entropy", 0, 0.0, 16384, 2, 8),
        ("cross_entropy", 0, 0.0, 16384, 4, 16),
        ("chunked_cross_entropy", 8192, 0.0, 16384, 2, 7),
        ("chunked_cross_entropy", 0, 0.0, 16384, 2, 7.5),
        ("chunked_cross_entropy", 2048, 0.0, 16384, 2, 7.75),
        ("chunked_cross_entropy", 2048, 0.0, 16384, 4, 15.5),
        ("chunked_cross_entropy", 3000, 0.0, 16384, 2, 8),
        ("chunked_cross_entropy", 0, 0.0, 4096, 2, 8),
        ("cross_entropy", 0, 1e-4, 16384, 2, 20),
        ("cross_entropy", 0, 1e-4, 16384, 4, 20),
        ("chunked_cross_entropy", 0, 1e-4, 16384, 2, 20),
    ],
)
def test_logit_bytes(loss, chunk, z_loss, tokens, each, bytes_):
    assert activations.logit_bytes(loss, chunk, z_loss, tokens, each) == bytes_


def test_an_unknown_loss():
    with pytest.raises(Unknown):
        activations.logit_bytes("huber", 0, 0.0, 1, 2)


def test_mot_is_never_checkpointed(job):
    text = config(train_activation_checkpointing="full", train_compile_model=False)
    text += "\n[vision_encoder]\nnum_tokens = 16\n[vlm]\narch = 'mot'\n"
    assert job(text)["activation_bytes"] == 30 * D + 8 * F + 4 * H
