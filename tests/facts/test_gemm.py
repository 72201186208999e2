"""FLOPs of a step and their table, through configs."""

import pytest

from fp8tune.job import Unknown
from tests.sample import DEFAULT_8B, MOE_9B

DENSE = f"""\
{DEFAULT_8B}[train]
batch_size = 2
seq_len = 4096
"""
MOE = f"""
{MOE_9B}[train]
batch_size = 2
compile_model = false
"""


def test_flops_of_a_dense_model(job):
    found = job(DENSE)
    linears = 8_030_261_248 - 128256 * 4096 - 65 * 4096
    assert found["gemm.m"] == 8192
    assert found["gemm.flops"] == 6 * 8192 * linears
    assert found["gemm.attention_flops"] == 2 * 2 * 4096**2 * 4096 * 32 * 3.5


def test_table_lists_every_product_and_all_flops(job):
    rows = job(DENSE)["gemm.table"]
    assert sum(row["flop_share"] for row in rows) == pytest.approx(1)
    assert [row["name"] for row in rows][-2:] == ["head", "attention"]
    assert {row["name"] for row in rows if not row["fp8"]} == {"attention"}
    kv = rows[1]
    assert (kv["m"], kv["k"], kv["n"], kv["count"]) == (8192, 4096, 1024, 32)
    assert kv["speedup"] < 1 < rows[4]["speedup"]


@pytest.mark.parametrize(
    ("text", "share"),
    [(DENSE, 1.0), (MOE, 0.196), (DENSE + "activation_checkpointing='full'", 1.0)],
)
def test_share_of_the_linears_in_fp8(job, text, share):
    assert job(text)["fp8.linear_share"] == pytest.approx(share, abs=0.002)


@pytest.mark.parametrize(
    "change",
    [
        "pack_sequences = true",
        "[distributed]\ncp = 2",
        "[vision_encoder]\nnum_tokens = 256\n[vlm]",
    ],
)
def test_attention_is_unknown_with_masks_and_shards(job, change):
    table = "[data]\n" if change.startswith("pack") else ""
    with pytest.raises(Unknown):
        job(f"{DENSE}{table}{change}")["gemm.attention_flops"]
