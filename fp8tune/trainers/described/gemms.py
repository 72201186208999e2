"""The linears of a dense decoder, for a trainer that is described by data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fp8tune.facts.gemm_speed import unmeasured
from fp8tune.job import Job, Unknown, known

if TYPE_CHECKING:
    from fp8tune.facts.linears import Gemm

ALIGNMENT = 16
"""FP8 needs a multiple of it; a linear with another K or N is taken as bf16."""

MEASURED = ("tensorwise", "rowwise")
"""The recipes with published runs; both convert the same linears."""


def whole_model() -> bool:
    """True unless there are adapters, which these trainers do not have."""
    return True


def degrees_fit(
    declared_gpus: int | None = None, world_size: int | None = None
) -> bool:
    """Whether the degrees may multiply to the number of GPUs."""
    return None in (declared_gpus, world_size) or declared_gpus == world_size


def gemms(
    job: Job,
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
    head_shards: int,
    ac_applied: str,
    moe_layers: int,
    precision: str,
) -> tuple[Gemm, ...]:
    """Every linear of the decoder, with those that FP8 converts.

    Unknown with adapters: they change which products a backward pass has.
    """
    if not (job["whole_model"] and job["degrees_fit"]):
        raise Unknown("shards.product")
    if moe_layers:
        raise Unknown("speed.experts")
    te = precision == "fp8" and job.find("te_recipe")
    if precision == "fp8" and not te and job["fp8_recipe"] not in MEASURED:
        raise Unknown(unmeasured(job["fp8_recipe"]))
    from fp8tune.facts.linears import BLOCK, Decoder, of_decoder

    head = precision == "fp8" and job["fp8_converts_head"]
    modes: dict[str, tuple[str, ...]] = {"none": (), "full": BLOCK[:-1]}
    repeated = frozenset(known("ac_applied", modes.get(ac_applied)))
    sizes = (hidden_size, heads, kv_heads, head_dim, ffn_size, ffn_matrices)
    shape = Decoder(layers, *sizes, vocab_size, layers)
    (tokens,) = fp8_tokens
    found = of_decoder(
        shape,
        tokens,
        tokens,
        tp=tp,
        head_tp=head_shards,
        repeated=repeated,
        fp8_head=head,
    )
    return tuple(
        gemm._replace(fp8=gemm.fp8 and not (gemm.k % ALIGNMENT or gemm.n % ALIGNMENT))
        for gemm in found
    )


def attention_passes(ac_applied: str, cp: int) -> float:
    """Forward passes of attention that a step costs."""
    if cp > 1:
        raise Unknown("speed.cp")
    modes = {"none": 3.5, "full": 4.5}
    return known("ac_applied", modes.get(ac_applied))
