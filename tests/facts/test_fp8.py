"""Shapes that FP8 linears ask for."""

import pytest

from fp8tune.facts import fp8
from fp8tune.facts.linears import of_block
from fp8tune.job import Unknown
from tests.each import each


@each(
    ("tokens", "first"),
    [
        ((17,), 17),
        ((2048, 512), 0),
        ((2048, 513), 513),
        ((8192, 8, 4), 8),
    ],
)
def test_unaligned_tokens(tokens, first):
    assert fp8.unaligned_tokens(tokens) == first


BASE = """
[model]
dim = 256
n_heads = {heads}
n_kv_heads = {kv_heads}
vocab_size = {vocab}
ffn_hidden_dim = {ffn}
[train]
batch_size = {batch}
seq_len = {seq}
mixed_precision = "{precision}"
[distributed]
tp = {tp}
"""
FINE = {
    "heads": 4,
    "kv_heads": 4,
    "vocab": 32000,
    "ffn": 512,
    "batch": 1,
    "seq": 64,
    "tp": 1,
}


@each(
    ("change", "gpu", "word"),
    [
        ({}, "h100", ""),
        ({}, "", ""),
        ({"tp": 2}, "h100", "tensor parallelism"),
        ({"vocab": 50257}, "h100", "the vocabulary, 50257,"),
        ({"ffn": 520}, "h100", "the FFN size, 520,"),
        ({"heads": 32, "kv_heads": 1}, "h100", "the key/value size, 8,"),
        ({"batch": 3, "seq": 1365}, "h100", "M, 4095,"),
        ({}, "a100-80gb", "no FP8 matmul"),
    ],
)
def test_what_stands_in_the_way_is_what_lint_finds(job, lint, change, gpu, word):
    values = FINE | change
    fp8_text = BASE.format(precision="fp8", **values)
    found = lint(fp8_text, gpu=gpu, world_size=8).diagnostics
    known = {"gpu-without-fp8", "fp8-with-tensor-parallel"}
    errors = [d for d in found if d.rule in known or d.rule.endswith("-not-16")]
    assert bool(errors) is bool(word)
    for precision in ("fp8", "bf16"):
        text = BASE.format(precision=precision, **values)
        said = job(text, gpu=gpu, world_size=8)
        assert word in said["fp8.obstacle"]
        assert bool(said["fp8.obstacle"]) is bool(word)
        if word:
            assert said["fp8.pays"] == "no"
            assert {row["speedup"] for row in said["gemm.table"]} == {None}
            assert not any(row["fp8"] for row in said["gemm.table"])


@each(
    ("rows", "shards", "degrees"),
    [
        (1024, 6, "2, 4 or 8"),
        (256, 24, "8, 16 or 32"),
        (7, 3, "7"),
        (5, 4, "5"),
    ],
)
def test_shard_degrees_near_the_one_asked_for(rows, shards, degrees):
    assert fp8.shard_degrees(rows, shards) == degrees


def test_what_shards_divide_with_tensor_parallelism():
    linears = of_block(4096, 4096, 1024, 14336, 0)
    assert fp8.sharded_rows(linears) == 1024
    assert fp8.sharded_rows(linears, 8) == 128
    assert fp8.uneven_weight(linears, 128, 8) == ""
    assert fp8.uneven_weight(linears, 256, 8) == "k_proj: 1024 / 8 TP ranks = 128"
    assert fp8.uneven_weight(linears, 3) == "q_proj: 4096"
    assert fp8.uneven_weight((), 3) == ""
    with pytest.raises(Unknown):
        fp8.sharded_rows(())
