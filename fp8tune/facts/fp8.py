"""What FP8 linears ask of a job's shapes, and how much of a step they reach.

``torch._scaled_mm`` on CUDA needs K and N divisible by 16 in the forward pass,
and M too in the backward pass, where M is the contraction dimension of the
weight gradient. Source: aten/src/ATen/native/cuda/Blas.cpp; pytorch/ao#571,
#1268, #3111.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fp8tune.job import Job, Unknown, Words

if TYPE_CHECKING:
    from fp8tune.facts.linears import Gemm

ALIGNMENT = 16
PAYS, HARDLY = 1.05, 1.03
"""FP8 pays if the whole band is above; it does not if the prediction is below."""

FEWEST_TOKENS, SMALLEST_HIDDEN = 4096, 2048
"""M and hidden size from which on gains of whole models are published.

But for nanochat's d26, 1.17 at a hidden size of 1664 and M = 65536. Below nothing is
known to gain: neither d12 nor torchtitan's debug model, nor one of the 72 linears of
torchao's table with M = 1024 or 2048.
"""

NARROW = 1024
"""Largest K or N with which no linear of the H100's table gains."""


def kv_size(kv_heads: int, head_dim: int) -> int:
    """N of the key and value projections."""
    return kv_heads * head_dim


def hidden_size_below(hidden_size: int, heads: int) -> int:
    """The next smaller hidden size that FP8 and the heads both divide."""
    step = math.lcm(ALIGNMENT, 2 * heads)
    return hidden_size // step * step


def hidden_size_above(hidden_size: int, heads: int) -> int:
    """The next larger hidden size that FP8 and the heads both divide."""
    step = math.lcm(ALIGNMENT, 2 * heads)
    return -(-hidden_size // step) * step


def unaligned_tokens(fp8_tokens: tuple[int, ...]) -> int:
    """The first M that is no multiple of 16, or 0 [tokens]."""
    return next((tokens for tokens in fp8_tokens if tokens % ALIGNMENT), 0)


def batch_multiple(fp8_tokens: tuple[int, ...], micro_batch: int) -> int:
    """Micro-batches that are a multiple of this give every stream an M that fits."""
    sequences = (tokens // micro_batch for tokens in fp8_tokens)
    return math.lcm(*(ALIGNMENT // math.gcd(ALIGNMENT, n) for n in sequences))


def batch_step(precision: str, fp8_batch_multiple: int = 1) -> int:
    """What micro-batches must be a multiple of, 1 but in FP8."""
    return fp8_batch_multiple if precision == "fp8" else 1


def linear_share(gemms: tuple[Gemm, ...]) -> float:
    """Share of the linears' FLOPs that the trainer's FP8 mode reaches."""
    reached = sum(gemm.flops for gemm in gemms if gemm.fp8)
    return reached / sum(gemm.flops for gemm in gemms)


def flop_share(
    gemms: tuple[Gemm, ...], gemm_flops: float, gemm_attention_flops: float
) -> float:
    """Share of a step's matrix FLOPs, attention included, that FP8 reaches."""
    reached = sum(gemm.flops for gemm in gemms if gemm.fp8)
    return reached / (gemm_flops + gemm_attention_flops)


def limit(fp8_flop_share: float) -> float:
    """Amdahl's limit: the gain if FP8 products took half the time and casts none."""
    return 1 / (1 - fp8_flop_share / 2)


def linear_gain(gemms: tuple[Gemm, ...]) -> float:
    """Speed of the converted linears together against bf16, on an H100 [ratio].

    Torchao's table of 216 rowwise linears, corrected to tensorwise by 7 published
    linears, which it meets within 15 % (``docs/accuracy.md``).
    """
    from fp8tune.facts.gemm_speed import tensorwise

    mine = [gemm for gemm in gemms if gemm.fp8]
    slowed = sum(gemm.flops / tensorwise(gemm.m, gemm.k, gemm.n) for gemm in mine)
    return sum(gemm.flops for gemm in mine) / slowed


def linear_gain_low(fp8_linear_gain: float) -> float:
    """Lower end of the band of ``fp8.linear_gain`` [ratio]."""
    from fp8tune.facts.gemm_speed import ERROR

    return fp8_linear_gain * (1 - ERROR)


def linear_gain_high(fp8_linear_gain: float) -> float:
    """Upper end of the band of ``fp8.linear_gain`` [ratio]."""
    from fp8tune.facts.gemm_speed import ERROR

    return fp8_linear_gain * (1 + ERROR)


def too_narrow(hidden_size: int, fp8_linear_gain: float) -> bool:
    """Whether no linear gains in the H100's table, nor all together by the estimate.

    K or N of each is the hidden size, and none with 1024 gains there at any M: at most
    0.94 with K, 0.63 with N (rowwise, ``fp8_gemm_h100.csv``).
    """
    return hidden_size <= NARROW and fp8_linear_gain < 1


def slower_linears(gemms: tuple[Gemm, ...]) -> str:
    """Converted linears that are slower than in bf16 on an H100, by ``gemm.table``."""
    return Words(", ".join(gemm.name for gemm, _ in _slower(gemms)))


def slower_cost(gemms: tuple[Gemm, ...]) -> float:
    """What their FP8 costs, in the time that all linears together take in bf16."""
    lost = sum(gemm.flops * (1 / gain - 1) for gemm, gain in _slower(gemms))
    return lost / sum(gemm.flops for gemm in gemms)


def _slower(gemms: tuple[Gemm, ...]) -> list[tuple[Gemm, float]]:
    from fp8tune.facts.gemm_speed import tensorwise

    gains = ((gemm, tensorwise(gemm.m, gemm.k, gemm.n)) for gemm in gemms if gemm.fp8)
    return [(gemm, gain) for gemm, gain in gains if gain < 1]


def obstacle(
    job: Job,
    tp: int,
    hidden_size: int = 0,
    fp8_kv_size: int = 0,
    ffn_size: int = 0,
    dense_ffn_layers: int = 0,
    vocab_size: int = 0,
    fp8_unaligned_tokens: int = 0,
    gpu_fp8_matmul: bool | None = None,
    gpu_bf16_matmul: bool = True,
) -> str:
    """Why the job cannot run in FP8 at all, or nothing.

    The same that the rules gpu-without-fp8, fp8-with-tensor-parallel and fp8-...-not-16
    find in a job whose precision is FP8.
    """
    fp8 = job.with_values({"precision": "fp8"})
    sizes = {
        "the hidden size": hidden_size,
        "the key/value size": fp8_kv_size,
        "the FFN size": max(ffn_size, 0) if dense_ffn_layers else 0,
        "the vocabulary": vocab_size if fp8["fp8_converts_head"] else 0,
        "M": fp8_unaligned_tokens,
    }
    no_bf16 = "" if gpu_bf16_matmul else ", and no bf16 tensor cores either"
    no_fp8 = f"the GPU has no FP8 matmul{no_bf16}"
    odd = (f"{name}, {n}," for name, n in sizes.items() if n % ALIGNMENT)
    words = (
        no_fp8 if gpu_fp8_matmul is False else "",
        "the trainer refuses FP8 with tensor parallelism" if tp > 1 else "",
        *(f"{size} is no multiple of 16, which every FP8 GEMM needs" for size in odd),
    )
    return Words(next(filter(None, words), ""))


def published(hidden_size: int, fp8_tokens: tuple[int, ...]) -> bool:
    """Whether gains of whole models are published for so large GEMMs."""
    return hidden_size >= SMALLEST_HIDDEN and fp8_tokens[0] >= FEWEST_TOKENS


def best_published(hidden_size: int) -> float:
    """Best gain over compiled bf16 that is published for the hidden size [ratio].

    Tensorwise, on H100s; between two published sizes that of the larger.
    """
    from fp8tune.facts.published import best

    return best(hidden_size).gain


def pays(
    compile: bool,  # noqa: A002
    fp8_obstacle: str,
    fp8_published: bool = False,
    speed_on_hopper: bool | None = None,
    speed_fp8_gain: float | None = None,
    speed_fp8_gain_low: float | None = None,
    fp8_linear_gain_low: float = 0.0,
    fp8_linear_gain_high: float | None = None,
) -> str:
    """Whether FP8 is worth it: "yes", "marginal" or "no".

    No if the job cannot run in FP8 or is not compiled, if its linears together are
    slower than in bf16 by the H100's table, or if the gain is below 1.03 and not only
    because the network takes it from linears that are surely faster. Yes if the whole
    band of the gain is above 1.05 and such gains are published: M is 4096 or more and
    the hidden size 2048 or more.
    """
    if fp8_obstacle or not compile:
        return "no"
    slower = fp8_linear_gain_high is not None and fp8_linear_gain_high < 1
    if slower and speed_on_hopper is not False:
        return "no"
    if speed_fp8_gain is None or speed_fp8_gain_low is None:
        raise Unknown("fp8.pays")
    if speed_fp8_gain < HARDLY:
        return "marginal" if fp8_linear_gain_low > HARDLY else "no"
    return "yes" if fp8_published and speed_fp8_gain_low >= PAYS else "marginal"


def reasons(
    compile: bool,  # noqa: A002
    hidden_size: int,
    fp8_obstacle: str,
    fp8_published: bool = True,
    fp8_tokens: tuple[int, ...] = (),
    gpu: str = "",
    gpu_fp8_matmul: bool | None = None,
    speed_on_hopper: bool | None = None,
    fp8_linear_share: float | None = None,
    fp8_linear_gain: float | None = None,
    fp8_slower_linears: str = "",
    fp8_slower_cost: float = 0.0,
    fp8_limit: float | None = None,
    gemm_attention_share: float | None = None,
    speed_fp8_gather_gain: float = 1.0,
    speed_fp8_gain: float | None = None,
    speed_fp8_gain_suspicious: bool | None = None,
    speed_beyond_published: bool = False,
    shards: int = 1,
    fp8_scales_precomputed: bool = True,
) -> list[str]:
    """Why FP8 pays or not, most decisive first, one clause each."""
    if fp8_obstacle:
        return [fp8_obstacle]
    all_gain = (fp8_linear_gain or 0) >= 1 and speed_on_hopper is not False
    sizes = f"M = {max(fp8_tokens[:1], default=0)} and hidden size {hidden_size}"
    said = (
        (not compile, "without compile the casts are kernels of their own"),
        (speed_on_hopper is False and gpu_fp8_matmul, _elsewhere(gpu)),
        (
            fp8_linear_share is not None and fp8_linear_share < 0.995,
            f"{fp8_linear_share or 0:.0%} of the linears' FLOPs run in FP8",
        ),
        (
            fp8_linear_gain is not None and speed_on_hopper is not False,
            f"the converted linears run at {fp8_linear_gain or 0:.2f} times their bf16 "
            f"speed (H100), at {sizes}",
        ),
        (
            not fp8_published,
            f"hardly any published model gains below M = {FEWEST_TOKENS} or hidden "
            f"size {SMALLEST_HIDDEN}",
        ),
        (speed_beyond_published, "no published gain is of more than 512 GPUs"),
        *_of_the_rest(gemm_attention_share or 0, speed_fp8_gather_gain, fp8_limit),
        (
            all_gain and fp8_slower_cost >= 0.005,
            f"{fp8_slower_linears} run slower in FP8 and cost {fp8_slower_cost:.1%} of "
            "the linears' time; the trainer has no key that keeps them in bf16",
        ),
        (
            speed_fp8_gain is not None and shards > 1 and not fp8_scales_precomputed,
            "not counted: the all-reduce of each weight's largest value, which this "
            "trainer does not precompute; on one node it costs 0.4 % in one report",
        ),
        (
            speed_fp8_gain_suspicious,
            "a gain above 1.5 is suspicious, hardly any published one is: measure it",
        ),
    )
    return [Words(text) for holds, text in said if holds]


def _elsewhere(gpu: str) -> str:
    """What is published of FP8 on a GPU without a table of linears."""
    from fp8tune.facts.published import OTHERS

    said = "no published measurements of FP8 linears on this GPU"
    found = OTHERS.get(gpu)
    if found is None:
        return said
    return f"{said}; whole models reach {found.gain:.2f} times bf16: {found.run}"


def _of_the_rest(
    attention: float, gather_gain: float, limit: float | None
) -> tuple[tuple[bool, str], ...]:
    """Clauses on what is no FP8 product, and whether they are worth saying."""
    return (
        (
            attention > 0.2,
            f"attention, which stays in bf16, has {attention:.0%} of the FLOPs",
        ),
        (
            gather_gain >= 1.005,
            f"of that, FP8 all-gather is counted as {gather_gain - 1:.0%}; on 64 GPUs "
            "one report saw nothing of it",
        ),
        (
            limit is not None,
            "by Amdahl, FP8 products at twice the speed make all products "
            f"{limit or 0:.2f} times as fast at most",
        ),
    )
