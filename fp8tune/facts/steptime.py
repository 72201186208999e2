"""Time of one micro-batch on one rank, part by part [s].

A sum of simple terms: FLOPs over measured matmul ceilings, bytes over bandwidth, and
a few rates of each engine (``engines.toml``) that ``python -m benchmarks.estimates
--fit`` takes from published runs (``docs/accuracy.md``). Valid for decoders of hidden
size 1024 and more.
"""

# no future annotations: as strings, they double the import time of a NamedTuple
import math
import os.path
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from fp8tune.facts import gemm_speed
from fp8tune.facts.gpus import find
from fp8tune.facts.linears import Gemm
from fp8tune.job import Unknown

GIGA = 1e9
LAUNCH = 5e-6
"""Start and tail of one GEMM kernel [s]: 1024 cubed takes 11 us, of which 3.3 us
are FLOPs (https://github.com/pytorch/ao/pull/940)."""

NVLINK = 300.0
"""Bus bandwidth of collectives within a node [GB/s]; the rates are relative to it."""


class Chip(NamedTuple):
    """Measured matmul ceiling [TFLOPS] and bandwidth [GB/s]; FP8's ceiling / bf16's."""

    tflops: float
    gb_per_s: float
    fp8: float = 1402.6 / 794.5


class Step(NamedTuple):
    """The computation and communication of a rank in one micro-batch.

    ``weights`` are those of one rank's layers before FSDP shards them. ``forwards`` is
    4 if activation checkpointing repeats the forward pass, else 3. ``reduces_each``:
    FSDP reduces the gradients of every micro-batch, and so keeps them sharded.
    ``gathers_each``: it gathers weights for each pass, and not once per step.
    ``fp8_reduces``: tensor parallelism also reduces in FP8, ``hides_tp``: beside GEMMs,
    where the engine can. ``routed`` is how many
    copies of tokens go to experts in all layers, on ``ep`` ranks of which ``etp`` share
    an expert.
    """

    gemms: tuple[Gemm, ...]
    attention_flops: float
    tokens: int
    layers: int
    hidden_size: int
    ffn_width: float
    vocab_size: int
    weights: float
    forwards: int
    grad_accum: int
    shards: int
    tp: int
    pp: int
    compile: bool
    across_nodes: bool
    reduces_each: bool = False
    gathers_each: bool = True
    fp8_reduces: bool = False
    hides_tp: bool = True
    virtual_stages: int = 1
    routed: float = 0.0
    ep: int = 1
    etp: int = 1


class Engine(NamedTuple):
    """What runs the linears, and its rates: ``engines.toml`` explains them."""

    title: str
    gain_band: tuple[float, float]
    far_gain_band: tuple[float, float]
    published: Mapping[str, Any]
    matmul: float
    attention: float
    tensor: float
    elementwise: float = 1.0
    eager: float = 1.0
    sharded: float = 1.0
    pipelined: float = 1.0
    contention: float = 1.0
    exposed: float = 1.0
    network: float = 50.0
    accumulation: float = 12.0
    overlaps: bool = False
    fp8_scale: float = gemm_speed.SCALE
    fp8_power: float = gemm_speed.POWER
    fp8_matmul: float = 1.0
    dispatch: float = 25.0
    permute: float = 12.0
    permute_fp8: float = 0.0
    casts: Mapping[str, float] = {}


@cache
def engines() -> dict[str, Engine]:
    """Every engine of ``engines.toml`` by name."""
    import tomllib

    path = os.path.join(os.path.dirname(__file__), "engines.toml")
    with open(path, "rb") as file:
        return {name: Engine(**table) for name, table in tomllib.load(file).items()}


class Parts(NamedTuple):
    """Seconds of one micro-batch, by cause."""

    linears: float
    attention: float
    elementwise: float
    optimizer: float
    communication: float
    bubble: float

    @property
    def total(self) -> float:
        """The sum of all parts."""
        return sum(self)


def seconds(
    step: Step, chip: Chip, recipe: str, engine: Engine, *, gather: bool = True
) -> Parts:
    """The time of one micro-batch; ``recipe`` is "" in bf16.

    ``gather`` says whether the run gathers its FP8 weights in FP8. What torchao saves
    so is limited to what the FP8 products save: no gain is published if they lose, and
    on 64 GPUs one report measured none
    (https://github.com/pytorch/torchtitan/issues/653).
    """
    if recipe in engine.casts:
        return _parts(step, chip, recipe, engine, gather=gather)
    plain = _parts(step, chip, recipe, engine, gather=False)
    if recipe != "tensorwise" or not gather:
        return plain
    won = _parts(step, chip, "", engine, gather=False).total - plain.total
    least = plain.communication - max(won, 0.0)
    whole = _parts(step, chip, recipe, engine, gather=True).communication
    return _with_communication(step, plain, max(whole, least))


def _parts(
    step: Step, chip: Chip, recipe: str, engine: Engine, *, gather: bool
) -> Parts:
    """The same with FP8 weights gathered in FP8, or all in bf16."""
    memory = 0.85 * chip.gb_per_s * GIGA
    stage = engine.pipelined / step.pp if step.pp > 1 else 1.0
    stage *= engine.sharded if step.shards > 1 and step.tp == 1 else 1.0
    linears = stage * _linears(step, chip, recipe, engine)
    ceiling = chip.tflops * 1e12
    attention = stage * step.attention_flops / (engine.attention * ceiling)
    moved = _elementwise_bytes(step, engine) + _permuted_bytes(step, engine, recipe)
    elementwise = stage * moved / memory
    optimizer = stage * _optimizer_bytes(step, engine) / memory
    compute = linears + attention + elementwise + optimizer
    communication = _sharding(step, compute, _gathered_bytes(step, fp8=gather), engine)
    if step.tp > 1:
        communication += _tensor_parallel(step, linears, recipe, engine)
    if step.routed:
        communication += _expert_parallel(step, engine)
    parts = Parts(linears, attention, elementwise, optimizer, 0.0, 0.0)
    return _with_communication(step, parts, communication)


def _with_communication(step: Step, parts: Parts, seconds: float) -> Parts:
    busy = sum(parts[:4]) + seconds
    bubble = busy * (step.pp - 1) / (step.grad_accum * step.virtual_stages)
    return parts._replace(communication=seconds, bubble=bubble)


def _linears(step: Step, chip: Chip, recipe: str, engine: Engine) -> float:
    return sum(_linear(gemm, step, chip, recipe, engine) for gemm in step.gemms)


def _linear(gemm: Gemm, step: Step, chip: Chip, recipe: str, engine: Engine) -> float:
    """The time of all passes of one kind of linear, with its casts."""
    flops = gemm.flops / (engine.matmul * chip.tflops * 1e12)
    launch = LAUNCH * gemm.copies * gemm.passes
    if not recipe or not gemm.fp8:
        return flops + launch
    if recipe not in engine.casts:
        return (flops + launch) / _speedup(gemm, recipe, engine)
    memory = 0.85 * chip.gb_per_s * GIGA
    cast = engine.casts[recipe] * _cast_values(gemm, step) / memory
    return flops / (engine.fp8_matmul * chip.fp8) + cast + 2 * launch


def linear_gain(gemm: Gemm, step: Step, recipe: str, engine: str) -> float:
    """Speed of one FP8 linear relative to bf16 on an H100, of an engine with casts."""
    chip, rates = _chip("h100-sxm"), engines()[engine]
    slow, fast = (_linear(gemm, step, chip, name, rates) for name in ("", recipe))
    return slow / fast


def _cast_values(gemm: Gemm, step: Step) -> float:
    """The values of an FP8 linear's inputs and gradients that a rank casts.

    Those of the residual stream are cast before tensor parallelism gathers them.
    """
    inputs = gemm.k / (step.tp if gemm.k == step.hidden_size else 1)
    gradients = gemm.n / (step.tp if gemm.n == step.hidden_size else 1)
    again = max(gemm.passes - 3, 0)
    return gemm.copies * gemm.m * ((1 + again) * inputs + gradients)


def _speedup(gemm: Gemm, recipe: str, engine: Engine) -> float:
    measured = gemm_speed.rowwise(gemm.m, gemm.k, gemm.n)
    if recipe == "rowwise":
        return measured
    return gemm_speed.corrected(measured, engine.fp8_scale, engine.fp8_power)


def _elementwise_bytes(step: Step, engine: Engine) -> float:
    """The bytes of norms, rotations, residuals, activations and the loss.

    Forward 12 x hidden + 6 x FFN bytes per token and block when fused, twice that
    backward; 20 bytes per logit of the loss.
    """
    factor = engine.elementwise * (1.0 if step.compile else engine.eager)
    block = 12 * step.hidden_size + 6 * step.ffn_width
    blocks = factor * step.tokens * step.layers * block * step.forwards
    return blocks + 20.0 * step.tokens * step.vocab_size / step.tp


def _permuted_bytes(step: Step, engine: Engine, recipe: str) -> float:
    """The bytes of sorting tokens by expert, and in FP8 of padding and casting."""
    moved = engine.permute + (engine.permute_fp8 if recipe else 0.0)
    return moved * step.routed * step.hidden_size / step.tp


def _optimizer_bytes(step: Step, engine: Engine) -> float:
    """The bytes of AdamW in bf16 (14 per sharded weight) and of accumulation."""
    kept = step.weights / (step.shards if step.reduces_each else 1)
    accumulation = engine.accumulation * kept * (step.grad_accum - 1)
    return (14.0 * step.weights / step.shards + accumulation) / step.grad_accum


def _gathered_bytes(step: Step, *, fp8: bool) -> float:
    """The bytes of weights to gather once: bf16, or FP8 for FP8 linears."""
    halved = sum(gemm.weights for gemm in step.gemms if gemm.fp8)
    return 2 * step.weights - (halved if fp8 and step.weights else 0)


def _sharding(step: Step, compute: float, gathered: float, engine: Engine) -> float:
    """The time of collectives of weights and gradients among data-parallel ranks.

    FSDP gathers twice per micro-batch, a sharded optimizer once per step.
    """
    others = (step.shards - 1) / step.shards
    reduced = 4.0 * step.weights / (1 if step.reduces_each else step.grad_accum)
    sent = (2 * gathered if step.gathers_each else gathered / step.grad_accum) + reduced
    moved = others * sent / step.pp
    inside = moved / (NVLINK * GIGA)
    outside = moved / (engine.network * GIGA)
    if step.tp > 1 and step.gathers_each:
        return engine.exposed * (outside if step.across_nodes else inside)
    late = (compute**3 + outside**3) ** (1 / 3) - compute if step.across_nodes else 0.0
    return late + engine.contention * inside


def _tensor_parallel(step: Step, linears: float, recipe: str, engine: Engine) -> float:
    """The time of 12 collectives of activations per block that GEMMs do not hide.

    In FP8 half the bytes; Transformer Engine reduces in bf16 unless it is told.
    """
    volume = 24.0 * step.tokens * step.hidden_size * step.layers / step.pp
    half = 0.5 if step.fp8_reduces or recipe == "tensorwise" else 0.75
    volume *= half if recipe in (*engine.casts, "tensorwise") else 1.0
    rate = engine.tensor * GIGA
    if not engine.overlaps:
        return volume / step.tp / rate
    beside = volume * (step.tp - 1) / step.tp / rate
    return math.hypot(linears, beside) - linears if step.hides_tp else beside


def _expert_parallel(step: Step, engine: Engine) -> float:
    """The time to send tokens to their experts and back, forward and backward."""
    sent = 8.0 * step.routed * step.hidden_size / step.tp / step.pp
    rate = engine.dispatch if step.across_nodes else NVLINK
    shared = (step.etp - 1) / NVLINK
    return sent * ((step.ep - 1) / step.ep / rate + shared) / GIGA


SWITCHED = ("h100-sxm", "h200")
"""GPUs with published runs that show what several of them lose to communication.

They have NVSwitch. PCIe boards and the NVL have NVLink in pairs, H800 less of it, and
GH200 are joined in several ways.
"""


def is_hopper(gpu: str) -> bool:
    """Whether H100 measurements apply: Hopper with 700 TFLOPS or more.

    An H20 has a seventh of the matmul rate at more bandwidth, so other shapes pay.
    """
    found = find(gpu)
    hopper = found.vendor == "nvidia" and found.compute_capability == 9.0
    return hopper and (found.bf16_tflops or 0.0) >= 700


def seconds_on(
    gpu: str,
    step: Step,
    recipe: str,
    *,
    engine: str = "torchao",
    gather: bool = True,
    slower: float = 1.0,
) -> Parts:
    """The time of one micro-batch by part [s]; raises ``Unknown``.

    ``slower`` multiplies the fitted time of the collectives of weights; ``gather`` is
    that of ``seconds``.
    """
    chip, rates = _chip(gpu), engines()[engine]
    if step.shards * step.tp * step.pp > 1 and find(gpu).name not in SWITCHED:
        raise Unknown("speed.switched")
    rates = rates._replace(
        network=rates.network / slower,
        contention=rates.contention * slower,
    )
    return seconds(step, chip, recipe, rates, gather=gather)


def _chip(gpu: str) -> Chip:
    figures = find(gpu)
    peak, memory = figures.bf16_tflops or 0.0, figures.hbm_gb_per_s or 0.0
    if not is_hopper(gpu) or not peak or not memory:
        raise Unknown("speed.bf16_seconds")
    tflops = figures.bf16_measured_tflops or 0.803 * peak
    fp8 = figures.fp8_measured_tflops or Chip(1, 1).fp8 * tflops
    return Chip(tflops, memory, fp8 / tflops)
