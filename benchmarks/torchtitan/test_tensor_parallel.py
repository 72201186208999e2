"""Memory of torchtitan with tensor parallelism, against its own recorded blocks."""

import pytest

from benchmarks.paths import RESULTS
from tests.each import each

PLAN = """
[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 1
"""
COMPILED = "[compile]\nenable = true\n"
AC = '[activation_checkpoint]\nmode = "{}"\n'
SPLIT = "[parallelism]\ntensor_parallel_degree = 8\n"
TABLES = (RESULTS / "torchtitan_tensor_parallel.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip().replace(",", "") for cell in line.strip("| ").split("|")]
    for line in TABLES.splitlines()
    if line.startswith("|") and "---" not in line
]


def recorded(*words):
    """Bytes per token of the recorded rows with these words, by hidden size."""
    return {
        int(row[len(words)].split()[0]): int(row[len(words) + 1])
        for row in ROWS
        if row[: len(words)] == list(words) and row[len(words)][0].isdigit()
    }


def of_width(job, text, hidden_size):
    """The job with the recorded shape of that width."""
    shapes = {512: (2048, 8, 8), 1024: (2048, 16, 8)}
    ffn, heads, kv_heads = shapes[hidden_size]
    return job(PLAN + text, size=16).with_values(
        {
            "hidden_size": hidden_size,
            "ffn_size": ffn,
            "heads": heads,
            "kv_heads": kv_heads,
            "head_dim": 64,
        }
    )


@each("hidden_size", [512, 1024])
@each(("ac", "words"), [("none", ("none", "compiled")), ("full", ("full", "eager"))])
def test_a_block_keeps_what_was_recorded(job, hidden_size, ac, words):
    found = of_width(job, SPLIT + AC.format(ac) + COMPILED, hidden_size)
    assert round(found["activation_bytes"]) == recorded(*words)[hidden_size]


@each("hidden_size", [512, 1024])
def test_the_head_keeps_its_gathered_input(job, hidden_size):
    found = of_width(job, SPLIT + AC.format("full"), hidden_size)
    assert found["gathered_input_bytes"] == recorded()[hidden_size]
    whole = found["head_bytes"]
    split = found.with_values({"gathered_input_bytes": 0})["head_bytes"]
    assert whole - split == pytest.approx(recorded()[hidden_size])


def test_gathered_inputs_are_kept_or_made_again_in_every_mode(job):
    sizes = {}
    for mode in ("none", "full", "selective"):
        found = job(PLAN + SPLIT + AC.format(mode) + COMPILED, size=16)
        whole = sum(found["kept_bytes"]) / 8 + found["gathered_inputs_bytes"]
        sizes[mode] = found["activation_bytes"]
        if mode != "selective":
            assert sizes[mode] + found["recompute_bytes"] == pytest.approx(whole)
    assert sizes["selective"] == (sizes["none"] + sizes["full"]) / 2


@each("hidden_size", [512, 1024])
def test_eager_per_op_checkpointing_saves_sums(job, hidden_size):
    op = SPLIT + AC.format("selective") + 'selective_ac_option = "op"\n'
    found = of_width(job, op, hidden_size)
    attention = (2 * hidden_size + 4 * found["heads"]) / 8
    alive = recorded("op", "eager")[hidden_size]
    assert found["activation_bytes"] - attention == pytest.approx(alive, rel=0.01)
    compiled = of_width(job, op + COMPILED, hidden_size)
    assert compiled["activation_bytes"] == compiled["kept_bytes"][0] / 8


def test_one_gpu_gathers_no_inputs(job):
    found = job(PLAN + AC.format("none") + COMPILED)
    kept = {n: found[n] for n in ("gathered_input_bytes", "gathered_inputs_bytes")}
    assert kept == {"gathered_input_bytes": 0, "gathered_inputs_bytes": 0}
