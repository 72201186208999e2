"""Time of one micro-batch on one rank, part by part [s].

A sum of simple terms: FLOPs over measured matmul ceilings, bytes over bandwidth, and
a few rates that ``python -m benchmarks.estimates --fit`` takes from published
runs (``docs/accuracy.md``). Valid for dense decoders of hidden size
1024 and more.
"""

from __future__ import annotations

from typing import NamedTuple

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
    """Measured bf16 matmul ceiling [TFLOPS] and memory bandwidth [GB/s]."""

    tflops: float
    gb_per_s: float


class Step(NamedTuple):
    """The computation and communication of a rank in one micro-batch.

    ``weights`` are those of one rank's layers before FSDP shards them. ``forwards`` is
    4 if activation checkpointing repeats the forward pass, else 3. ``reduces_each``:
    FSDP reduces the gradients of every micro-batch, and so keeps them sharded.
    """

    gemms: tuple[Gemm, ...]
    attention_flops: float
    tokens: int
    layers: int
    hidden_size: int
    ffn_width: int
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


class Rates(NamedTuple):
    """Rates fitted to published runs.

    ``matmul`` and ``attention`` are shares of the matmul ceiling. ``elementwise``,
    ``eager``, ``sharded`` and ``pipelined`` are factors. ``contention`` and ``exposed``
    are the share of the time of FSDP's collectives that compute does not hide, without
    and with tensor parallelism. ``network`` and ``tensor`` are bandwidths [GB/s].
    ``fp8_scale`` and ``fp8_power`` are the tensorwise correction of ``gemm_speed``.
    """

    matmul: float = 0.9134
    attention: float = 0.5532
    elementwise: float = 1.267
    eager: float = 4.812
    sharded: float = 1.055
    pipelined: float = 1.336
    contention: float = 0.8453
    exposed: float = 0.9484
    network: float = 58.41
    tensor: float = 62.8
    fp8_scale: float = gemm_speed.SCALE
    fp8_power: float = gemm_speed.POWER


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
    step: Step, chip: Chip, recipe: str, rates: Rates, *, gather: bool = True
) -> Parts:
    """The time of one micro-batch; ``recipe`` is "", "tensorwise" or "rowwise".

    ``gather`` says whether a tensorwise run gathers its FP8 weights in FP8. That saving
    is limited to what the FP8 products save: no gain is published if they lose, and on
    64 GPUs one report measured none (https://github.com/pytorch/torchtitan/issues/653).
    """
    found = _parts(step, chip, recipe, rates, gather=False)
    if recipe != "tensorwise" or not gather:
        return found
    won = _parts(step, chip, "", rates, gather=False).total - found.total
    least = found.communication - max(won, 0.0)
    whole = _parts(step, chip, recipe, rates, gather=True).communication
    return _with_communication(step, found, max(whole, least))


def _parts(step: Step, chip: Chip, recipe: str, rates: Rates, *, gather: bool) -> Parts:
    """The same with FP8 weights gathered in FP8, or all in bf16."""
    memory = 0.85 * chip.gb_per_s * GIGA
    stage = rates.pipelined / step.pp if step.pp > 1 else 1.0
    stage *= rates.sharded if step.shards > 1 and step.tp == 1 else 1.0
    linears = stage * _linears(step, chip, recipe, rates)
    ceiling = chip.tflops * 1e12
    attention = stage * step.attention_flops / (rates.attention * ceiling)
    elementwise = stage * _elementwise_bytes(step, rates) / memory
    optimizer = stage * _optimizer_bytes(step) / memory
    compute = linears + attention + elementwise + optimizer
    communication = _fsdp(step, compute, _gathered_bytes(step, fp8=gather), rates)
    if step.tp > 1:
        communication += _tensor_parallel(step, recipe, rates)
    parts = Parts(linears, attention, elementwise, optimizer, 0.0, 0.0)
    return _with_communication(step, parts, communication)


def _with_communication(step: Step, parts: Parts, seconds: float) -> Parts:
    busy = sum(parts[:4]) + seconds
    bubble = busy * (step.pp - 1) / step.grad_accum
    return parts._replace(communication=seconds, bubble=bubble)


def _linears(step: Step, chip: Chip, recipe: str, rates: Rates) -> float:
    rate = rates.matmul * chip.tflops * 1e12
    return sum(
        (gemm.flops / rate + LAUNCH * gemm.copies * gemm.passes)
        / (_speedup(gemm, recipe, rates) if recipe and gemm.fp8 else 1.0)
        for gemm in step.gemms
    )


def _speedup(gemm: Gemm, recipe: str, rates: Rates) -> float:
    found = gemm_speed.rowwise(gemm.m, gemm.k, gemm.n)
    if recipe == "rowwise":
        return found
    return gemm_speed.corrected(found, rates.fp8_scale, rates.fp8_power)


def _elementwise_bytes(step: Step, rates: Rates) -> float:
    """The bytes of norms, rotations, residuals, activations and the loss.

    Forward 12 x hidden + 6 x FFN bytes per token and block when fused, twice that
    backward; 20 bytes per logit of the loss.
    """
    factor = rates.elementwise * (1.0 if step.compile else rates.eager)
    block = 12 * step.hidden_size + 6 * step.ffn_width
    blocks = factor * step.tokens * step.layers * block * step.forwards
    return blocks + 20.0 * step.tokens * step.vocab_size / step.tp


def _optimizer_bytes(step: Step) -> float:
    """The bytes of AdamW in bf16 (14 per sharded weight), accumulation (12)."""
    kept = step.weights / (step.shards if step.reduces_each else 1)
    accumulation = 12.0 * kept * (step.grad_accum - 1)
    return (14.0 * step.weights / step.shards + accumulation) / step.grad_accum


def _gathered_bytes(step: Step, *, fp8: bool) -> float:
    """The bytes that FSDP gathers for one pass: bf16, or FP8 for FP8 linears."""
    halved = sum(gemm.weights for gemm in step.gemms if gemm.fp8)
    return 2 * step.weights - (halved if fp8 else 0)


def _fsdp(step: Step, compute: float, gathered: float, rates: Rates) -> float:
    """The time of FSDP's collectives: ``gathered`` bytes twice, gradients."""
    others = (step.shards - 1) / step.shards
    reduced = 4.0 * step.weights / (1 if step.reduces_each else step.grad_accum)
    sent = 2 * gathered + reduced
    moved = others * sent / step.pp
    inside = moved / (NVLINK * GIGA)
    outside = moved / (rates.network * GIGA)
    if step.tp > 1:
        return rates.exposed * (outside if step.across_nodes else inside)
    late = (compute**3 + outside**3) ** (1 / 3) - compute if step.across_nodes else 0.0
    return late + rates.contention * inside


def _tensor_parallel(step: Step, recipe: str, rates: Rates) -> float:
    """The time of 12 collectives of activations per block; half in FP8."""
    volume = 24.0 * step.tokens * step.hidden_size * step.layers / step.tp / step.pp
    return volume * (0.5 if recipe == "tensorwise" else 1.0) / (rates.tensor * GIGA)


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
    gpu: str, step: Step, recipe: str, *, gather: bool = True, slower: float = 1.0
) -> Parts:
    """The time of one micro-batch by part [s]; raises ``Unknown``.

    ``slower`` multiplies the fitted time of the collectives of weights; ``gather`` is
    that of ``seconds``.
    """
    chip, rates = _chip(gpu), Rates()
    if step.shards * step.tp * step.pp > 1 and find(gpu).name not in SWITCHED:
        raise Unknown("speed.switched")
    rates = rates._replace(
        network=rates.network / slower,
        contention=rates.contention * slower,
    )
    return seconds(step, chip, recipe, rates, gather=gather)


def _chip(gpu: str) -> Chip:
    found = find(gpu)
    peak, memory = found.bf16_tflops or 0.0, found.hbm_gb_per_s or 0.0
    if not is_hopper(gpu) or not peak or not memory:
        raise Unknown("speed.bf16_seconds")
    return Chip(found.bf16_measured_tflops or 0.803 * peak, memory)
