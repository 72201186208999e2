"""Predicted speed of a step: seconds by part, tokens/s, and FP8's gain.

The model is fitted to published runs; ``docs/accuracy.md`` compares it with them.
Predictions are for dense text models on Hopper GPUs, in nodes of 8 by default, with
NVLink inside and 400 Gb/s per GPU between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fp8tune.job import Job, Unknown, Words, known

if TYPE_CHECKING:
    from fp8tune.facts.linears import Gemm
    from fp8tune.facts.steptime import Engine

NODE, SMALL_NODE = 8, 4
"""GPUs per node where nothing is said, and of smaller nodes that are usual too."""

ROWWISE_BAND = (0.05, 0.12)
"""The band of gains with torchao's rowwise recipe near published runs.

None of these was fitted. Seven published gains lie from 0.02 below to 0.10 above the
prediction (``docs/accuracy.md``).
"""

SPEED_ERROR, FAR_SPEED_ERROR = 0.12, 0.30
"""Relative error of tokens/s: H200 under full AC; other Hopper GPUs or modes."""

SMALLEST_EXPERT = 8192
"""Width of the smallest experts with a published pair: Llama 4 Maverick's."""

NEAR_GPUS = 64
"""GPUs of the largest published runs on H200s."""


def node(gpus_per_node: int | None = None) -> int:
    """GPUs per node, 8 by default."""
    return gpus_per_node or NODE


def engine(job: Job) -> str:
    """What would run the linears in FP8: an engine of ``facts/engines.toml``."""
    fp8 = job.with_values({"precision": "fp8"})
    return Words("te" if fp8.find("te_recipe") else "torchao")


def engine_title(speed_engine: str) -> str:
    """The engine's name in messages."""
    return Words(_engine(speed_engine).title)


def _engine(name: str) -> Engine:
    from fp8tune.facts.steptime import engines

    return engines()[name]


def gathers_each() -> bool:
    """Whether weights are gathered for each pass, and not once per step: FSDP."""
    return True


def hides_tp() -> bool:
    """Whether collectives of tensor parallelism run beside GEMMs if the engine can."""
    return True


def fp8_reduces() -> bool:
    """Whether tensor parallelism also reduces in FP8, beside gathering in it: no."""
    return False


def frozen() -> bool:
    """Whether the linears' weights get no gradient."""
    return False


def routed(layers: int, dense_ffn_layers: int, ep: int) -> float:
    """Copies of tokens that go to experts in all layers: only of dense models."""
    if ep > 1 or dense_ffn_layers != layers:
        raise Unknown("speed.step")
    return 0.0


def ffn_width(ffn_size: int, tp: int) -> float:
    """Width of a block's FFN on one rank, of all experts that get a token."""
    return ffn_size // tp


def step(
    gemm_attention_flops: float,
    ac_applied: str,
    gemms: tuple[Gemm, ...],
    fp8_tokens: tuple[int, ...],
    layers: int,
    hidden_size: int,
    vocab_size: int,
    grad_accum: int,
    dp_shard: int,
    dp_replicate: int,
    tp: int,
    pp: int,
    reduces_each_micro_batch: bool,
    speed_node: int,
    speed_engine: str,
    speed_routed: float,
    speed_gathers_each: bool,
    speed_ffn_width: float,
    speed_frozen: bool,
    speed_hides_tp: bool,
    speed_fp8_reduces: bool = False,
    cp: int = 1,
    ep: int = 1,
    etp: int = 1,
    virtual_stages: int = 1,
    compile: bool | None = None,  # noqa: A002
) -> Any:
    """What one rank computes and communicates per micro-batch."""
    from fp8tune.facts.steptime import Step

    if not _engine(speed_engine).casts:  # else its kernels are fused
        known("compile", compile)

    weights = sum(gemm.weights for gemm in gemms) + vocab_size * hidden_size
    shards = dp_shard * dp_replicate * cp
    degrees = (shards, tp, pp, grad_accum, layers, fp8_tokens[0])
    if min(degrees) < 1:
        raise Unknown("speed.step")
    return Step(
        gemms=gemms,
        attention_flops=gemm_attention_flops,
        tokens=fp8_tokens[0],
        layers=layers,
        hidden_size=hidden_size,
        ffn_width=speed_ffn_width,
        vocab_size=vocab_size,
        weights=0 if speed_frozen else weights,
        forwards=4 if ac_applied not in ("none", "attention") else 3,
        grad_accum=grad_accum,
        shards=shards,
        tp=tp,
        pp=pp,
        compile=compile is not False,
        across_nodes=shards * tp * pp > speed_node,
        reduces_each=reduces_each_micro_batch,
        gathers_each=speed_gathers_each,
        fp8_reduces=speed_fp8_reduces,
        hides_tp=speed_hides_tp,
        virtual_stages=virtual_stages,
        routed=speed_routed,
        ep=ep,
        etp=etp,
    )


def bf16_seconds(gpu: str, speed_step: Any, speed_engine: str) -> Any:
    """Seconds of one micro-batch in bf16, by part [s]."""
    from fp8tune.facts.steptime import seconds_on

    return seconds_on(gpu, speed_step, "", engine=speed_engine)


def fp8_seconds(
    job: Job,
    gpu: str,
    speed_step: Any,
    speed_engine: str,
) -> Any:
    """Seconds of one micro-batch in FP8, by part [s].

    With the recipe and the FP8 all-gather of the run in FP8. Unknown for torchao
    without compile and with ``rowwise_with_gw_hp``, and for Transformer Engine with
    MXFP8: no published run shows it.
    """
    from fp8tune.facts.gemm_speed import unmeasured
    from fp8tune.facts.steptime import seconds_on

    fp8 = job.with_values({"precision": "fp8"})
    casts = _engine(speed_engine).casts
    if casts:
        recipe = fp8["te_recipe"] or "delayed"
        if recipe not in casts:
            raise Unknown("speed.te_recipe")
        gather = bool(fp8.find("fp8_weights"))
        return seconds_on(gpu, speed_step, recipe, engine=speed_engine, gather=gather)
    if not fp8["compile"]:
        raise Unknown("speed.fp8_seconds")
    recipe = fp8["fp8_recipe"]
    if recipe not in ("tensorwise", "rowwise"):
        raise Unknown(unmeasured(recipe))
    gather = bool(fp8["fp8_all_gather"]) if speed_step.shards > 1 else True
    return seconds_on(gpu, speed_step, recipe, gather=gather)


def linear_gains(
    job: Job,
    gemms: tuple[Gemm, ...],
    speed_engine: str,
    speed_on_hopper: bool | None = None,
    fp8_recipe: str = "",
) -> dict[str, float]:
    """Speed of each FP8 linear relative to bf16 on an H100, by its name [ratio].

    torchao's from its tables (``fp8.linear_gain``), Transformer Engine's from the model
    of the step.
    """
    from fp8tune.facts.gemm_speed import speedup
    from fp8tune.facts.steptime import linear_gain

    if speed_on_hopper is False:
        raise Unknown("speed.bf16_seconds")
    mine = [gemm for gemm in gemms if gemm.fp8]
    if not _engine(speed_engine).casts:
        return {g.name: speedup(fp8_recipe, g.m, g.k, g.n) for g in mine}
    recipe = job.with_values({"precision": "fp8"})["te_recipe"] or "delayed"
    return {
        g.name: linear_gain(g, job["speed.step"], recipe, speed_engine) for g in mine
    }


def fp8_gather_gain(
    gpu: str,
    speed_step: Any,
    speed_fp8_seconds: Any,
    speed_engine: str = "torchao",
    fp8_recipe: str = "",
) -> float:
    """Tokens/s in FP8 as the run gathers weights, relative to bf16 all-gather [ratio].

    1 without FP8 all-gather. The weights of FP8 linears take half the bytes. The gain
    is limited to what the FP8 GEMMs save.
    """
    from fp8tune.facts.steptime import seconds_on

    if fp8_recipe == "rowwise" or speed_engine != "torchao":
        return 1.0
    plain = seconds_on(gpu, speed_step, "tensorwise", gather=False)
    return float(plain.total / speed_fp8_seconds.total)


def on_hopper(gpu: str) -> bool:
    """Whether H100 measurements apply to the GPU: Hopper with 700 TFLOPS or more.

    An H20 has a seventh of the matmul rate at more bandwidth, so other shapes pay.
    """
    from fp8tune.facts.steptime import is_hopper

    return is_hopper(gpu)


def fp8_gain(speed_bf16_seconds: Any, speed_fp8_seconds: Any) -> float:
    """Tokens/s in FP8 relative to bf16 in the same trainer [ratio].

    torchao, dense models with FSDP: within 6.1 percentage points of 10 published rows
    (1.146 to 1.51), median 0.8; within 10.0 of rows left out of the fit. Transformer
    Engine: a median of 3.0 points from 73 published pairs of dense models (0.997 to
    1.61) whose model was left out of the fit (``docs/accuracy.md``).
    """
    return float(speed_bf16_seconds.total / speed_fp8_seconds.total)


def fp8_gain_near(
    gpu: str,
    hidden_size: int,
    fp8_tokens: tuple[int, ...],
    pp: int,
    tp: int,
    speed_step: Any,
    speed_fp8_gain_suspicious: bool,
    speed_engine: str = "torchao",
    te_recipe: str = "",
    expert_size: int = 0,
) -> bool:
    """Whether published rows of the engine are similar to the job.

    torchao: FSDP alone on at most 512 H100 or H200 SXM, a hidden size from 2048 to
    8192, 4096 to 16384 tokens per GEMM. Transformer Engine: delayed scaling, hidden
    sizes from 2048 to 16384, 2048 tokens or more, experts of 8192 or more, in Megatron
    up to 2304 GPUs. The gain is no larger than published ones.
    """
    from fp8tune.facts.steptime import SWITCHED

    published = _engine(speed_engine).published
    near = gpu in SWITCHED and not speed_fp8_gain_suspicious
    near = near and _within(hidden_size, published["hidden_size"])
    near = near and _within(fp8_tokens[0], published["tokens"])
    near = near and _gpus(speed_step) <= published["gpus"]
    near = near and not (speed_step.routed and expert_size < SMALLEST_EXPERT)
    near = near and (tp == 1 or speed_step.hides_tp)
    alone = tp == 1 and pp == 1
    return bool(
        near and (alone or published["degrees"]) and te_recipe in ("", "delayed")
    )


def _within(size: int, ends: list[int]) -> bool:
    return ends[0] <= size <= ends[1]


def _gain_band(engine: str, near: bool, recipe: str) -> tuple[float, float]:
    rates = _engine(engine)
    if near and recipe == "rowwise" and not rates.casts:
        return ROWWISE_BAND
    below, above = rates.gain_band if near else rates.far_gain_band
    return below, above


def fp8_gain_low(
    speed_fp8_gain: float,
    speed_fp8_gain_near: bool,
    speed_fp8_gather_gain: float,
    speed_engine: str = "torchao",
    fp8_recipe: str = "",
) -> float:
    """Lower end of the gain's band [ratio].

    At most the gain without FP8 all-gather, because on 64 GPUs one report measured no
    saving from it (``fp8.reasons``).
    """
    below, _ = _gain_band(speed_engine, speed_fp8_gain_near, fp8_recipe)
    return min(speed_fp8_gain - below, speed_fp8_gain / speed_fp8_gather_gain)


def fp8_gain_high(
    job: Job,
    speed_fp8_gain: float,
    speed_fp8_gain_near: bool,
    speed_fp8_gain_limit: float,
    speed_engine: str = "torchao",
    fp8_recipe: str = "",
    speed_fp8_reduces: bool | None = None,
) -> float:
    """Upper end of the gain's band, at most ``speed.fp8_gain_limit`` [ratio].

    Where tensor parallelism may reduce in FP8, it is the end with it.
    """
    if speed_fp8_reduces is None:
        in_fp8 = job.with_values({"speed.fp8_reduces": True})
        return float(in_fp8["speed.fp8_gain_high"])
    _, above = _gain_band(speed_engine, speed_fp8_gain_near, fp8_recipe)
    return min(speed_fp8_gain + above, max(speed_fp8_gain, speed_fp8_gain_limit))


def fp8_gain_limit(
    speed_bf16_seconds: Any, speed_fp8_seconds: Any, fp8_linear_share: float
) -> float:
    """Upper bound of the gain, by the share of a step that FP8 shortens [ratio].

    FP8 linears take half the time and casts none. Of the rest only communication gets
    shorter, and a pipeline's bubble with both. No published gain is above it
    (``python -m benchmarks.estimates gains``).
    """
    bf16, fp8 = speed_bf16_seconds, speed_fp8_seconds
    saved = bf16.linears * fp8_linear_share / 2
    saved += max(0.0, bf16.communication - fp8.communication)
    busy = bf16.total - bf16.bubble
    return float(busy / (busy - saved))


def fp8_gain_suspicious(speed_fp8_gain: float, speed_engine: str = "torchao") -> bool:
    """Whether the predicted gain is larger than almost all published ones."""
    return bool(speed_fp8_gain > _engine(speed_engine).published["gain"])


def tokens_per_second(
    speed_bf16_seconds: Any,
    precision: str,
    optimizer: str,
    hidden_size: int,
    speed_step: Any,
    speed_beyond_published: bool,
    speed_fp8_seconds: Any = None,
    expert_size: int = 0,
) -> float:
    """Tokens/s of all GPUs together [tokens/s].

    Fitted to 22 bf16 runs of KempnerForge on H200s: FSDP alone within 4 %, with tensor
    or pipeline parallelism within 9 %. Unknown below a hidden size of 1024, where
    kernel launches dominate, for optimizers that multiply matrices, with experts
    narrower than published ones, and on more GPUs than in the engine's largest
    published run.
    """
    parts = {"bf16": speed_bf16_seconds, "fp8": speed_fp8_seconds}.get(precision)
    if parts is None:
        raise Unknown(_why_unknown(precision))
    if optimizer not in ("adam", "adamw", "lion", "schedule_free_adamw"):
        raise Unknown("speed.optimizer")
    if hidden_size < 1024:
        raise Unknown("speed.hidden_size")
    if speed_step.routed and expert_size < SMALLEST_EXPERT:
        raise Unknown("speed.experts")
    if speed_beyond_published:
        raise Unknown("speed.most_gpus")
    return float(speed_step.tokens * speed_step.shards / parts.total)


def _why_unknown(precision: str) -> str:
    """Return why a precision has no time: FP8 as it is run, or another one."""
    return "speed.fp8_seconds" if precision == "fp8" else "speed.precision"


def communication_share(
    precision: str, speed_bf16_seconds: Any, speed_fp8_seconds: Any = None
) -> float:
    """Predicted share of a step in which GPUs wait for communication [ratio].

    Communication that compute does not hide, in nodes of 8 with 400 Gb/s per GPU
    between them.
    """
    parts = {"bf16": speed_bf16_seconds, "fp8": speed_fp8_seconds}.get(precision)
    if parts is None:
        raise Unknown(_why_unknown(precision))
    return float(parts.communication / parts.total)


def beyond_published(speed_step: Any, speed_engine: str = "torchao") -> bool:
    """Whether there are more GPUs than in any published run of the engine."""
    return bool(_gpus(speed_step) > most_gpus(speed_engine))


def most_gpus(speed_engine: str = "torchao") -> int:
    """GPUs of the largest published run of the engine."""
    return int(_engine(speed_engine).published["gpus"])


def tokens_error(
    gpu: str,
    attention_passes: float,
    fp8_tokens: tuple[int, ...],
    speed_step: Any,
    speed_engine: str = "torchao",
) -> float:
    """Half-width of the band of tokens/s: 0.12, or 0.30 far from the fit [ratio].

    Near the fit are at most 64 H200s with activation checkpointing and 8192 tokens or
    more. Published runs on other clusters with H100s are up to 30 % slower. Transformer
    Engine: 0.30, because all its runs are of one cluster.
    """
    if speed_engine != "torchao":
        return FAR_SPEED_ERROR
    near = (
        _gpus(speed_step) <= NEAR_GPUS
        and gpu == "h200"
        and attention_passes > 4
        and fp8_tokens[0] >= 8192
    )
    return SPEED_ERROR if near else FAR_SPEED_ERROR


def on_small_nodes(speed_step: Any, gpus_per_node: int | None = None) -> bool:
    """Whether the GPUs may be in nodes of 4: one node of 8 may also be two of 4."""
    return not gpus_per_node and SMALL_NODE < _gpus(speed_step) <= NODE


def _gpus(step: Any) -> int:
    return int(step.shards * step.tp * step.pp)


def tokens_least(
    job: Job, speed_tokens_per_second: float, speed_on_small_nodes: bool
) -> float:
    """Lowest predicted tokens/s: in nodes of 4, if that is possible [tokens/s]."""
    if not speed_on_small_nodes:
        return speed_tokens_per_second
    split = job.with_values({"gpus_per_node": SMALL_NODE})
    return float(min(speed_tokens_per_second, split["speed.tokens_per_second"]))


def tokens_low(speed_tokens_least: float, speed_tokens_error: float) -> float:
    """Lower end of the band of tokens/s [tokens/s]."""
    return speed_tokens_least * (1 - speed_tokens_error)


def tokens_high(
    tp: int, speed_tokens_per_second: float, speed_tokens_error: float
) -> float:
    """Upper end of the band of tokens/s [tokens/s].

    No run was faster than predicted by more than the error near the fit, except two
    with tensor parallelism over many nodes.
    """
    alone = 1 + min(speed_tokens_error, SPEED_ERROR)
    return speed_tokens_per_second * (
        alone if tp == 1 else 1 / (1 - speed_tokens_error)
    )


def bubble(pp: int, grad_accum: int) -> float:
    """Share of a step that a pipeline stage idles, 1F1B and GPipe alike.

    (stages - 1) / (micro-batches + stages - 1), https://arxiv.org/abs/2104.04473.
    """
    return (pp - 1) / (grad_accum + pp - 1)
