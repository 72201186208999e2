"""The linear layers of a dense torchtitan model, as one rank runs them.

Source: torchtitan 0.2.2, models/llama3 and models/qwen3; torchao 0.18,
float8_linear_utils.py, ``_auto_filter_for_recipe``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fp8tune.job import Unknown, known
from fp8tune.trainers.torchtitan.memory import every_nth

if TYPE_CHECKING:
    from fp8tune.facts.linears import Gemm

NAMES = {
    "q_proj": "attention.wq",
    "k_proj": "attention.wk",
    "v_proj": "attention.wv",
    "o_proj": "attention.wo",
    "gate_proj": "feed_forward.w1",
    "down_proj": "feed_forward.w2",
    "up_proj": "feed_forward.w3",
    "head": "output",
}
"""torchtitan's names of the linears."""

ALIGNMENT = 16
"""Linears with another K or N are never converted (module_filter_fn)."""


def gemms(
    fp8_tokens: tuple[int, ...],
    hidden_size: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    ffn_size: int,
    ffn_matrices: int,
    layers: int,
    vocab_size: int,
    tp: int,
    cp: int,
    ac_applied: str,
    moe_layers: int,
    fp8_recipe: str,
    fp8_skips: list[str],
    auto_filter: bool,
    training_enable_cpu_offload: bool,
) -> tuple[Gemm, ...]:
    """Every linear of the decoder, with those that FP8 converts.

    Unknown for what no published run shows: context parallelism, experts and weights
    on the host.
    """
    if cp > 1:
        raise Unknown("speed.cp")
    if moe_layers:
        raise Unknown("speed.experts")
    if training_enable_cpu_offload:
        raise Unknown("speed.offload")
    from fp8tune.facts.linears import BLOCK, Decoder, of_decoder

    sizes = (hidden_size, heads, kv_heads, head_dim, ffn_size, ffn_matrices)
    shape = Decoder(layers, *sizes, vocab_size, layers)
    # Per-op AC saves every second product: it repeats keys, output and up.
    modes = {"none": (), "full": BLOCK[:-1], "op": ("k_proj", "o_proj", "up_proj")}
    nth = ac_applied.startswith("every-")
    again = frozenset(known("ac", modes.get("full" if nth else ac_applied)))
    (tokens,) = fp8_tokens
    whole = of_decoder(shape, tokens, tokens)
    skipped = {
        gemm.name
        for gemm in whole
        if any(name in NAMES[gemm.name] for name in fp8_skips)
        or gemm.k % ALIGNMENT
        or gemm.n % ALIGNMENT
        or (auto_filter and is_small(fp8_recipe, gemm.k, gemm.n))
    }
    mine = of_decoder(shape, tokens, tokens, tp=tp, head_tp=tp)
    share = every_nth(ac_applied, layers) / layers if nth else 1
    return tuple(
        gemm._replace(
            name=NAMES[gemm.name].rpartition(".")[2],
            fp8=gemm.name not in skipped,
            passes=gemm.passes + share * (gemm.name in again),
        )
        for gemm in mine
    )


def is_small(recipe: str, k: int, n: int) -> bool:
    """Whether ``auto_filter_small_kn`` keeps a linear in bf16, by its unsplit sizes."""
    if recipe == "rowwise":
        return n <= 2048 or k <= 1024 or (n <= 4096 and k <= 2048)
    return k <= 4096 and n <= 1024


def attention_passes(
    ac_applied: str, cp: int, attention_kind: str, layers: int
) -> float:
    """Forward passes of attention that a step costs; per-op AC saves its result."""
    if cp > 1:
        raise Unknown("speed.cp")
    if attention_kind != "sdpa":
        raise Unknown("speed.mask")
    if ac_applied.startswith("every-"):
        return 3.5 + every_nth(ac_applied, layers) / layers
    modes = {"none": 3.5, "op": 3.5, "full": 4.5}
    return known("ac", modes.get(ac_applied))
