"""Peak memory of a rank of Megatron, of the first and of the last pipeline stage.

Megatron holds weights and gradients of a stage whole, so that its peak is a sum: these,
the optimizer's state, the activations of all micro-batches in flight, and either the
logits or the work of one layer. Routing is taken to be balanced. ``python -m
benchmarks.megatron_lm.recorded`` compares with the memory that the tests of Megatron-LM
recorded on 8 GPUs.

Source: megatron/core at d98e8a64d.
"""

from __future__ import annotations

from typing import NamedTuple

from fp8tune.facts.memory import GIB, RECOMPUTED, Parts
from fp8tune.facts.memory.held import workspaces_gib
from fp8tune.job import Unknown, Words
from fp8tune.trainers.megatron_lm.activations import FLOAT, Layer
from fp8tune.trainers.megatron_lm.stages import Stage
from fp8tune.trainers.megatron_lm.weights import Held, Weights, held

BANDS = {
    "dense": (0.03, 0.05),
    "experts": (0.05, 0.08),
    "fp8": (0.08, 0.15),
}
"""How far below and above the estimate a peak may lie, by ``estimate_family``.

Wider than the errors of all recorded runs (``python -m
benchmarks.megatron_lm.recorded``), of which none is of a first stage, and in FP8 two.
"""


class Peak(NamedTuple):
    """The moment of a stage's peak, and its parts [GiB]."""

    moment: str
    parts: Parts


def block_tokens(micro_batch: int, seq_len: int, cp: int) -> int:
    """Tokens of one micro-batch on a rank."""
    return micro_batch * seq_len // cp


def logit_bytes(compute_bytes: int, logit_copies: int) -> int:
    """Bytes per token and vocabulary entry in the loss: as computed, and in fp32."""
    return compute_bytes + FLOAT * logit_copies


def memory_workspaces_gib(
    local_layers: bool, gpu_compute_capability: float = 0
) -> float:
    """Workspaces of cuBLAS: torch's two, and one of Transformer Engine's size [GiB]."""
    own = 0 if local_layers else 1
    return workspaces_gib(gpu_compute_capability) * (1 + own / 2)


def memory_peaks(
    known_model: bool,
    stages: tuple[Stage, ...],
    layer_weights: Weights,
    layer_bytes: Layer,
    block_tokens: int,
    hidden_size: int,
    vocab_size: int,
    max_seq_len: int,
    norm_vectors: int,
    tp: int,
    cp: int,
    dp_ranks: int,
    expert_ranks: int,
    optimizer_copies: int,
    optimizer_sharded: bool,
    weight_bytes: int,
    gradient_bytes: int,
    optimizer_bytes: int,
    optimizer_temporary_bytes: int,
    fp8_weight_bytes: int,
    compute_bytes: int,
    logit_bytes: int,
    stream_share: float,
    recomputed_layers: tuple[float, float],
    kept_input_bytes: float,
) -> dict[str, Peak]:
    """The peak of each end of the pipeline, by the stage's name.

    ``recomputed_layers`` are the layers of a stage whose inputs alone are kept, as a
    share, and how many of them are computed again at a time.
    """
    if not known_model:
        raise Unknown("memory.trainer")
    shards = dp_ranks * cp / optimizer_copies if optimizer_sharded else 1
    expert_shards = expert_ranks / optimizer_copies if optimizer_sharded else 1
    found = {}
    for stage in stages:
        others = norm_vectors * hidden_size * stage.last
        others += max_seq_len * hidden_size * stage.positions
        table = vocab_size * hidden_size / tp
        mine = held(stage, layer_weights, table, others)
        state = _state(mine, weight_bytes, gradient_bytes, fp8_weight_bytes)
        sharded = mine.dense / shards + mine.experts / expert_shards
        state["optimizer state"] = sharded * optimizer_bytes / GIB
        share, at_once = recomputed_layers
        kept, one, work = _layers(stage, layer_bytes, share)
        inputs = share * stage.layers * kept_input_bytes / max(at_once, 1)
        activations = stage.in_flight * (kept + inputs) * block_tokens / GIB
        again = (at_once * one + work) * block_tokens / GIB
        head = 2 * compute_bytes * hidden_size * stream_share * block_tokens / GIB
        logits = vocab_size / tp * logit_bytes * block_tokens / GIB
        name = RECOMPUTED if at_once else "temporaries of one layer"
        moments = {
            "backward": {"activations": activations, name: again},
            "loss": {"activations": activations + head, "logits": logits},
            "optimizer step": {
                "gradients in fp32": sharded * optimizer_temporary_bytes / GIB
            },
        }
        if not stage.last:
            del moments["loss"]
        moment = max(moments, key=lambda name: sum(moments[name].values()))
        found[stage.name] = Peak(moment, state | moments[moment])
    return found


def _state(mine: Held, weights: int, gradients: int, copies: float) -> Parts:
    """Weights, their FP8 copies and gradients of a stage [GiB]."""
    every = mine.dense + mine.experts
    found = {"weights": every * weights / GIB, "gradients": every * gradients / GIB}
    if copies:
        found["FP8 copies of weights"] = mine.converted * copies / GIB
    return found


def _layers(stage: Stage, each: Layer, again: float) -> tuple[float, float, float]:
    """Bytes per token of a stage's layers.

    What all keep that are not computed again (``again`` is the share of those that
    are), one layer's whole, and the work of one in the backward pass.
    """
    whole = stage.layers * each.attention + stage.dense * each.ffn
    whole += stage.moe * each.experts
    ffn = each.experts if stage.moe else each.ffn
    work = each.expert_work if stage.moe else each.work
    return whole * (1 - again), each.attention + ffn, work


def memory_largest_stage(memory_peaks: dict[str, Peak]) -> str:
    """The stage with the higher peak: first or last, empty without a pipeline."""
    sums = {name: sum(peak.parts.values()) for name, peak in memory_peaks.items()}
    return Words(max(sums, key=lambda name: sums[name]))


def memory_breakdown(
    memory_peaks: dict[str, Peak],
    memory_largest_stage: str,
    memory_workspaces_gib: float,
) -> dict[str, float]:
    """Parts of the peak, largest first [GiB]."""
    found = dict(memory_peaks[memory_largest_stage].parts)
    found["cuBLAS workspaces"] = memory_workspaces_gib
    kept = ((name, gib) for name, gib in found.items() if gib)
    return dict(sorted(kept, key=lambda part: -part[1]))


def memory_peak_gib(memory_breakdown: dict[str, float]) -> float:
    """Peak memory allocated on a rank of the stage that needs most [GiB].

    As ``torch.cuda.max_memory_allocated`` counts it. The CUDA context, NCCL's buffers
    and the allocator's reserve come on top.
    """
    return sum(memory_breakdown.values())


def memory_peak_at(memory_peaks: dict[str, Peak], memory_largest_stage: str) -> str:
    """Moment of the peak in a step, and of which stage."""
    stage = memory_largest_stage
    where = f" of the {stage} pipeline stage" if stage else ""
    return Words(memory_peaks[stage].moment + where)


def memory_init_gib() -> float:
    """Memory before the first step, which is part of the rest [GiB]."""
    return 0.0


def estimate_family(precision: str, experts: int) -> str:
    """The group of recorded runs from which the estimate's error is taken."""
    return Words("fp8" if precision == "fp8" else "experts" if experts else "dense")


def memory_low_gib(memory_peak_gib: float, estimate_family: str) -> float:
    """Lower end of the peak's band, by the errors of recorded runs [GiB]."""
    return memory_peak_gib * (1 - BANDS[estimate_family][0])


def memory_high_gib(memory_peak_gib: float, estimate_family: str) -> float:
    """Upper end of the peak's band, by the errors of recorded runs [GiB]."""
    return memory_peak_gib * (1 + BANDS[estimate_family][1])


def memory_first_stage_only() -> bool:
    """Whether the peak is of the first stage alone: the last is covered too."""
    return False
