"""Requirements of FP8 linears on a job's shapes, and their share of a step.

``torch._scaled_mm`` on CUDA needs K and N divisible by 16 in the forward pass,
and M too in the backward pass, where M is the contraction dimension of the
weight gradient. Source: aten/src/ATen/native/cuda/Blas.cpp; pytorch/ao#571,
#1268, #3111.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from fp8tune.job import Job, Unknown, Words, known

if TYPE_CHECKING:
    from fp8tune.facts.linears import Gemm, Linear

ALIGNMENT = 16
PAYS, HARDLY = 1.05, 1.03
"""FP8 pays if the whole band is above; it does not if the prediction is below."""

GAINS = 1.10
"""No rule warns that FP8 gains little where the whole band is above."""

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
    """Next smaller hidden size that is a multiple of 16 and of the number of heads."""
    step = math.lcm(ALIGNMENT, 2 * heads)
    return hidden_size // step * step


def hidden_size_above(hidden_size: int, heads: int) -> int:
    """Next larger hidden size that is a multiple of 16 and of the number of heads."""
    step = math.lcm(ALIGNMENT, 2 * heads)
    return -(-hidden_size // step) * step


def leaves_odd_sizes() -> bool:
    """Whether linears whose sizes 16 does not divide stay in bf16: here they fail."""
    return False


def judged_apart() -> bool:
    """Whether rules of a trainer's own say what FP8 does on GPUs without it."""
    return False


def tokens_vary() -> bool:
    """Whether micro-batches have fewer tokens than the longest: here all are full."""
    return False


def unaligned_tokens(fp8_tokens: tuple[int, ...], fp8_tokens_vary: bool = False) -> int:
    """The first M (tokens per GEMM) that is not a multiple of 16, or 0 [tokens]."""
    if fp8_tokens_vary:
        raise Unknown("fp8_tokens.vary")
    return next((tokens for tokens in fp8_tokens if tokens % ALIGNMENT), 0)


def batch_multiple(
    fp8_tokens: tuple[int, ...], micro_batch: int, fp8_tokens_vary: bool = False
) -> int:
    """Smallest micro-batch with which every token stream has an M divisible by 16.

    1 where batches have other numbers of tokens each.
    """
    if fp8_tokens_vary:
        return 1
    sequences = (tokens // micro_batch for tokens in fp8_tokens)
    return math.lcm(*(ALIGNMENT // math.gcd(ALIGNMENT, n) for n in sequences))


def batch_step(precision: str, fp8_batch_multiple: int = 1) -> int:
    """``fp8.batch_multiple`` in FP8, else 1: what micro-batches must divide by."""
    return fp8_batch_multiple if precision == "fp8" else 1


def linears(
    hidden_size: int,
    heads: int = 0,
    kv_heads: int = 0,
    head_dim: int = 0,
    ffn_size: int = 0,
    dense_ffn_layers: int = 0,
    vocab_size: int = 0,
    fp8_converts_head: bool = False,
) -> tuple[Linear, ...]:
    """Kinds of linears that the trainer's FP8 mode converts: weight of N rows by K.

    Those of a dense decoder. Linears whose sizes are unknown are left out, and those
    whose sizes 16 does not divide: they stay in bf16, or other rules refuse them.
    """
    from fp8tune.facts.linears import of_block

    ffn, vocab = ffn_size * bool(dense_ffn_layers), vocab_size * fp8_converts_head
    attention = heads * head_dim, kv_heads * head_dim
    return tuple(
        one
        for one in of_block(hidden_size, *attention, ffn, vocab)
        if (one.rows | one.columns) % ALIGNMENT == 0
    )


def sharded_rows(fp8_linears: tuple[Linear, ...], tp: int = 1) -> int:
    """What the shard degree must divide with FP8 all-gather [rows].

    The greatest common divisor of the rows of all FP8 weights on one tensor-parallel
    rank. torchao gathers the shards without the padding that FSDP2 adds to uneven ones
    (fsdp_utils.py, ``fsdp_pre_all_gather``): ``benchmarks/results/sharded_shapes.md``.
    """
    rows = (int(one.on_rank(tp)[0]) for one in fp8_linears)
    return known("fp8.linears", math.gcd(*rows) or None)


def uneven_weight(fp8_linears: tuple[Linear, ...], shards: int, tp: int = 1) -> str:
    """The first FP8 weight whose rows the shards do not divide, empty if there is none.

    Such a weight ends the run in its first FP8 all-gather (``fp8.sharded_rows``).
    """
    if shards < 1:
        raise Unknown("shards")
    for linear in fp8_linears:
        rows = linear.on_rank(tp)[0]
        if rows % shards:
            part = f" / {tp} TP ranks = {rows:g}" if rows != linear.rows else ""
            return Words(f"{linear.name}: {linear.rows}{part}")
    return Words("")


def shard_degrees(fp8_sharded_rows: int, shards: int) -> str:
    """Shard degrees near ``shards`` with which FP8 all-gather works."""
    rows = fp8_sharded_rows
    below = next(n for n in range(min(shards, rows), 0, -1) if rows % n == 0)
    above = next((n for n in range(shards, rows + 1) if rows % n == 0), below)
    *most, last = sorted({math.gcd(rows, shards), below, above} - {1}) or [1]
    return Words(f"{', '.join(map(str, most))} or {last}" if most else str(last))


def odd_part(fp8_linears: tuple[Linear, ...], tp: int = 1) -> str:
    """The first FP8 linear whose part on one TP rank is no multiple of 16, in words.

    Whole sizes that are none have rules of their own.
    """
    from fp8tune.facts.linears import odd

    return Words(odd(fp8_linears, ALIGNMENT, tp)[1])


def linear_share(gemms: tuple[Gemm, ...]) -> float:
    """Share of the linears' FLOPs that run in FP8."""
    reached = sum(gemm.flops for gemm in gemms if gemm.fp8)
    return reached / sum(gemm.flops for gemm in gemms)


def flop_share(
    gemms: tuple[Gemm, ...], gemm_flops: float, gemm_attention_flops: float
) -> float:
    """Share of a step's matrix FLOPs, attention included, that run in FP8."""
    reached = sum(gemm.flops for gemm in gemms if gemm.fp8)
    return reached / (gemm_flops + gemm_attention_flops)


def limit(fp8_flop_share: float) -> float:
    """Upper bound of the gain [ratio].

    FP8 GEMMs take half the time and casts none (Amdahl's law).
    """
    return 1 / (1 - fp8_flop_share / 2)


def table_recipe(speed_engine: str = "torchao", fp8_recipe: str = "") -> str:
    """The recipe by which torchao's tables of linears give their speed."""
    if speed_engine != "torchao":
        raise Unknown("fp8.table_recipe")
    return Words(fp8_recipe)


def linear_gain(gemms: tuple[Gemm, ...], fp8_table_recipe: str) -> float:
    """Speed of the FP8 linears together, relative to bf16, on an H100 [ratio].

    From torchao's table of 216 rowwise linears, corrected to tensorwise by 7 published
    linears. The error is at most 15 % (``docs/accuracy.md``).
    """
    from fp8tune.facts.gemm_speed import speedup

    mine = [gemm for gemm in gemms if gemm.fp8]
    slowed = sum(g.flops / speedup(fp8_table_recipe, g.m, g.k, g.n) for g in mine)
    return sum(gemm.flops for gemm in mine) / slowed


def linear_gain_low(fp8_linear_gain: float) -> float:
    """Lower end of the band of ``fp8.linear_gain`` [ratio]."""
    from fp8tune.facts.gemm_speed import ERROR

    return fp8_linear_gain * (1 - ERROR)


def linear_gain_high(fp8_linear_gain: float) -> float:
    """Upper end of the band of ``fp8.linear_gain`` [ratio]."""
    from fp8tune.facts.gemm_speed import ERROR

    return fp8_linear_gain * (1 + ERROR)


def gains(speed_fp8_gain_low: float | None = None) -> bool:
    """Whether the whole band of FP8's gain is above 1.10; no if the gain is unknown."""
    return speed_fp8_gain_low is not None and speed_fp8_gain_low > GAINS


def fused(
    speed_engine: str = "torchao",
    compile: bool | None = None,  # noqa: A002
) -> bool:
    """Whether casts are fused with other kernels: by compile, or by the engine."""
    return speed_engine != "torchao" or known("compile", compile)


def too_narrow(
    hidden_size: int,
    speed_engine: str = "torchao",
    fp8_linear_gain: float | None = None,
) -> bool:
    """Whether the model is too narrow: no FP8 linear gains, alone or together.

    K or N of each linear is the hidden size. In the H100's table of torchao no linear
    with 1024 gains at any M: at most 0.94 with K, 0.63 with N (rowwise,
    ``fp8_gemm_h100.csv``). With Transformer Engine both published runs of such models
    lose (``SMALL_TE``).
    """
    narrow = hidden_size <= NARROW
    if speed_engine != "torchao":
        return narrow
    return narrow and known("fp8.linear_gain", fp8_linear_gain) < 1


def slower_linears(gemms: tuple[Gemm, ...], fp8_table_recipe: str) -> str:
    """FP8 linears that are slower than in bf16 on an H100, by ``gemm.table``."""
    return Words(", ".join(gemm.name for gemm, _ in _slower(gemms, fp8_table_recipe)))


def slower_gain(gemms: tuple[Gemm, ...], fp8_table_recipe: str) -> float:
    """Speed of ``fp8.slower_linears`` together against bf16, on an H100 [ratio].

    1 if there are none.
    """
    slower = _slower(gemms, fp8_table_recipe)
    flops = sum(gemm.flops for gemm, _ in slower)
    return flops / sum(gemm.flops / gain for gemm, gain in slower) if slower else 1.0


def slower_cost(gemms: tuple[Gemm, ...], fp8_table_recipe: str) -> float:
    """Time that these linears lose, as a share of all linears' bf16 time [ratio]."""
    slower = _slower(gemms, fp8_table_recipe)
    lost = sum(gemm.flops * (1 / gain - 1) for gemm, gain in slower)
    return lost / sum(gemm.flops for gemm in gemms)


def _slower(gemms: tuple[Gemm, ...], recipe: str) -> list[tuple[Gemm, float]]:
    from fp8tune.facts.gemm_speed import speedup

    gains = ((g, speedup(recipe, g.m, g.k, g.n)) for g in gemms if g.fp8)
    return [(gemm, gain) for gemm, gain in gains if gain < 1]


def obstacle(
    job: Job,
    fp8_tp_refused: bool,
    hidden_size: int = 0,
    fp8_kv_size: int = 0,
    ffn_size: int = 0,
    dense_ffn_layers: int = 0,
    vocab_size: int = 0,
    fp8_unaligned_tokens: int = 0,
    fp8_leaves_odd_sizes: bool = False,
    gpu_fp8_matmul: bool | None = None,
    gpu_bf16_matmul: bool = True,
) -> str:
    """Why the job cannot run in FP8 at all; empty if it can.

    The rules gpu-without-fp8, fp8-with-tensor-parallel and fp8-...-not-16 report the
    same for a job in FP8.
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
    fixed = {} if fp8_leaves_odd_sizes else sizes
    odd = (f"{name}, {n}," for name, n in fixed.items() if n % ALIGNMENT)
    words = (
        no_fp8 if gpu_fp8_matmul is False else "",
        "the trainer refuses FP8 with tensor parallelism" if fp8_tp_refused else "",
        *(f"{size} is not a multiple of 16, as FP8 GEMMs need" for size in odd),
    )
    return Words(next(filter(None, words), ""))


def published(
    hidden_size: int, fp8_tokens: tuple[int, ...], speed_engine: str = "torchao"
) -> bool:
    """Whether gains of whole models are published for GEMMs of this size.

    Transformer Engine in Megatron gained from 2048 tokens on (engines.toml).
    """
    from fp8tune.facts.steptime import engines

    fewest = min(FEWEST_TOKENS, engines()[speed_engine].published["tokens"][0])
    return hidden_size >= SMALLEST_HIDDEN and fp8_tokens[0] >= fewest


def best_published(hidden_size: int, speed_engine: str = "torchao") -> float:
    """Best published gain of the engine over bf16 at this hidden size [ratio].

    On H100s; torchao's with tensorwise scaling. Between two published sizes it is that
    of the larger.
    """
    from fp8tune.facts.published import best

    return best(speed_engine, hidden_size).gain


def best_published_run(hidden_size: int, speed_engine: str = "torchao") -> str:
    """The run that reached ``fp8.best_published``, in words."""
    from fp8tune.facts.published import best

    return Words(best(speed_engine, hidden_size).run)


def compile_key(job: Job) -> str:
    """The key that compiles the model, as the help on FP8 without compile names it."""
    return Words(job.key("compile"))


def pays(
    fp8_obstacle: str,
    fp8_against: str = "",
    compile: bool | None = None,  # noqa: A002
    fp8_published: bool = False,
    speed_on_hopper: bool | None = None,
    speed_fp8_gain: float | None = None,
    speed_fp8_gain_low: float | None = None,
    fp8_linear_gain_low: float = 0.0,
    fp8_linear_gain_high: float | None = None,
    speed_fp8_gain_high: float = 0.0,
    fp8_recipe: str = "",
    te_recipe: str = "",
    fp8_too_narrow: bool = False,
    speed_engine: str = "torchao",
) -> str:
    """Whether FP8 is worth it: "yes", "marginal" or "no".

    No if the job cannot run in FP8 or, with torchao, is not compiled, or if its linears
    together are slower than in bf16 by the H100's table. Also no if the gain is below
    1.03, unless the linears themselves gain and only communication limits the gain.
    Rowwise runs gained up to 0.10 more than predicted, so there the upper end must be
    below 1.05.

    Yes if the whole band of the gain is above 1.05 and such gains are published: M of
    4096 or more and a hidden size of 2048 or more. Else marginal.

    Transformer Engine needs no compile. With it, no for narrow models (``SMALL_TE``).
    """
    engine = te_recipe or speed_engine != "torchao"
    if fp8_obstacle or fp8_against or (engine and fp8_too_narrow):
        return "no"
    if not engine and not known("compile", compile):
        return "no"
    slower = fp8_linear_gain_high is not None and fp8_linear_gain_high < 1
    if slower and speed_on_hopper is not False:
        return "no"
    if speed_fp8_gain is None or speed_fp8_gain_low is None:
        raise Unknown("fp8.pays")
    if speed_fp8_gain < HARDLY:
        more = fp8_recipe == "rowwise" and speed_fp8_gain_high >= PAYS
        return "marginal" if more or fp8_linear_gain_low > HARDLY else "no"
    return "yes" if fp8_published and speed_fp8_gain_low >= PAYS else "marginal"


def reasons(
    fp8_obstacle: str,
    fp8_against: str = "",
    compile: bool | None = None,  # noqa: A002
    hidden_size: int = NARROW + 1,
    fp8_published: bool = True,
    fp8_tokens: tuple[int, ...] = (),
    gpu: str = "",
    gpu_fp8_matmul: bool | None = None,
    speed_on_hopper: bool | None = None,
    fp8_linear_share: float | None = None,
    fp8_linear_gain: float | None = None,
    fp8_slower_linears: str = "",
    fp8_slower_gain: float = 1.0,
    fp8_slower_cost: float = 0.0,
    fp8_limit: float | None = None,
    gemm_attention_share: float | None = None,
    speed_fp8_gather_gain: float = 1.0,
    speed_fp8_gain: float | None = None,
    speed_fp8_gain_suspicious: bool | None = None,
    speed_beyond_published: bool = False,
    shards: int = 1,
    fp8_scales_precomputed: bool = True,
    fp8_filter_key: str = "",
    not_modelled: tuple[str, ...] = (),
    te_recipe: str = "",
    speed_engine: str = "torchao",
    speed_engine_title: str = "",
    speed_bf16_seconds: Any = None,
    speed_fp8_seconds: Any = None,
    fp8_weights: bool = False,
    fp8_too_narrow: bool = False,
    speed_fp8_reduces: bool | None = None,
) -> list[str]:
    """Why FP8 pays or not: one clause each, the most decisive first."""
    if fp8_obstacle or fp8_against:
        return [fp8_obstacle or fp8_against]
    if te_recipe or speed_engine != "torchao":
        clauses = [SMALL_TE] * fp8_too_narrow
        clauses += _shares(speed_bf16_seconds, speed_fp8_seconds, fp8_linear_share)
        if speed_fp8_gain_suspicious:
            title = speed_engine_title
            clauses.append(f"{title} has no published gain as large: measure it")
        clauses += [TE_COPIES] * (te_recipe != "" and not fp8_weights)
        clauses += [FP8_REDUCES] * (speed_fp8_reduces is None)
        return [Words(text) for text in clauses]
    known("compile", compile)
    all_gain = (fp8_linear_gain or 0) >= 1 and speed_on_hopper is not False
    sizes = f"M = {max(fp8_tokens[:1], default=0)} and hidden size {hidden_size}"
    said = (
        (not compile, "without compile each cast is a separate kernel"),
        (speed_on_hopper is False and gpu_fp8_matmul, _elsewhere(gpu)),
        (
            fp8_linear_share is not None and fp8_linear_share < 0.995,
            f"{fp8_linear_share or 0:.0%} of the linears' FLOPs run in FP8",
        ),
        (
            fp8_linear_gain is not None and speed_on_hopper is not False,
            f"the FP8 linears run at {fp8_linear_gain or 0:.2f} times their bf16 speed "
            f"(by H100 measurements), at {sizes}",
        ),
        (
            not fp8_published,
            f"almost no published model gains below M = {FEWEST_TOKENS} or a hidden "
            f"size of {SMALLEST_HIDDEN}",
        ),
        (
            speed_beyond_published,
            "no gain of torchao is published for more than 512 GPUs",
        ),
        *_of_the_rest(
            gemm_attention_share or 0,
            _gathered(speed_fp8_gain or 1.0, speed_fp8_gather_gain),
            fp8_limit,
        ),
        (
            all_gain and fp8_slower_cost >= 0.005,
            f"{fp8_slower_linears} run {1 - fp8_slower_gain:.0%} slower in FP8 than in "
            f"bf16: all linears together lose {fp8_slower_cost:.1%} of their time; "
            + (f"`{fp8_filter_key}` can keep them in bf16" * bool(fp8_filter_key))
            + "no key changes it" * (not fp8_filter_key),
        ),
        (
            speed_fp8_gain is not None and shards > 1 and not fp8_scales_precomputed,
            "not counted: this trainer all-reduces the largest value of each weight "
            "(one report measured 0.4 % on one node)",
        ),
        (
            speed_fp8_gain_suspicious,
            "almost no published gain of torchao is above 1.5: measure it",
        ),
    )
    loses = speed_fp8_gain is not None and speed_fp8_gain < PAYS
    step = _shares(speed_bf16_seconds, speed_fp8_seconds, fp8_linear_share)
    beside = (f"not modelled: {text}" for text in not_modelled)
    return [
        *(Words(text) for holds, text in said if holds),
        *map(Words, step * loses),
        *map(Words, beside),
    ]


SMALL_TE = (
    "two published runs of models of this width were slower in FP8 "
    "(https://github.com/huggingface/accelerate/issues/2597 and 1647, hidden size 768)"
)
TE_COPIES = (
    "Transformer Engine keeps FP8 copies of the weights beside them, so a run takes "
    "more memory than in bf16 "
    "(https://github.com/NVIDIA/TransformerEngine/issues/1429)"
)
"""What is published of Transformer Engine without FP8 parameters."""

FP8_REDUCES = (
    "the upper end holds if tensor parallelism also reduces in FP8: only the settings "
    "of its overlap say so (`fp8_buf`), which are not read"
)


def _shares(parts: Any, fp8_parts: Any, linear_share: float | None) -> list[str]:
    """What a step in bf16 spends on what FP8 does not shorten, largest first."""
    if parts is None or fp8_parts is None:
        return []
    kept = parts.linears * (1 - (linear_share or 0.0))
    others = (
        (parts.attention, "attention, which stays in bf16: shorter sequences"),
        (kept, "linears that stay in bf16, such as the head"),
        (
            parts.communication,
            "waiting for communication: larger micro-batches or fewer ranks",
        ),
        (parts.elementwise, "norms and activations"),
        (parts.optimizer, "the optimizer's step: more micro-batches per step"),
        (parts.bubble, "the pipeline's bubble: more micro-batches per step"),
    )
    large = sorted(pair for pair in others if pair[0] >= 0.1 * parts.total)[::-1]
    fast = (parts.linears - kept) / parts.total
    said = [f"{fast:.0%} of a bf16 step is linears that FP8 computes"]
    for seconds, what in large:
        name, _, change = what.partition(": ")
        change = f" ({change} would change that)" * bool(change)
        said.append(f"{seconds / parts.total:.0%} of it is {name}{change}")
    added = (fp8_parts.elementwise - parts.elementwise) / parts.total
    if added >= 0.02:
        said.append(
            f"FP8 adds {added:.0%} to it by padding and casting the tokens of each "
            "expert (fewer experts per token, or wider ones, would change that)"
        )
    return said


def _elsewhere(gpu: str) -> str:
    """What is published about FP8 on a GPU without a table of linears."""
    from fp8tune.facts.published import elsewhere

    words = "there are no published measurements of FP8 linears on this GPU"
    best = elsewhere(gpu)
    if best is None:
        return words
    return f"{words}; a whole model reaches {best.gain:.2f} times bf16: {best.run}"


def _gathered(gain: float, gather_gain: float) -> float:
    """The share of FP8's saving that comes from FP8 all-gather."""
    return min(1.0, (gather_gain - 1) / (gain - 1)) if gain > 1 else 0.0


def _of_the_rest(
    attention: float, gathered: float, limit: float | None
) -> tuple[tuple[bool, str], ...]:
    """Clauses on attention, all-gather and upper bound, and if they apply."""
    return (
        (
            attention > 0.2,
            f"attention has {attention:.0%} of the FLOPs and stays in bf16",
        ),
        (
            gathered >= 0.02,
            f"{gathered:.0%} of the saving comes from FP8 all-gather; on 64 GPUs one "
            "report measured no saving from it",
        ),
        (
            limit is not None,
            f"upper bound: {limit or 0:.2f}x, if FP8 halves the time of its GEMMs",
        ),
    )
