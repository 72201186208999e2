"""Alternative values for the same run: the fastest that fit, and their gain.

A value fits if the whole band of the predicted peak is usable memory. Gains
are ratios of predicted tokens/s; each prediction is within 4 % of KempnerForge's
published runs under FSDP alone and within 9 % with tensor parallelism
(``docs/accuracy.md``). All are unknown for a run whose parallel degrees contradict its
number of GPUs: it does not start, so no other run does the same work on the same GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from fp8tune.facts.memory.verdict import FITS
from fp8tune.facts.speed import NODE
from fp8tune.job import Job, Prose, Unknown, Words

MOST = 256
"""Largest micro-batch that is tried."""

EMPTY, WAITING, WORTH = 0.25, 0.5, 1.5
"""When GPUs are nearly empty and wait for each other.

At most so much of the GPU's memory is used, communication is at least so much of a
step, and twice the tokens per step give so many times the tokens/s: more than predicted
tokens/s were off by on any cluster with H100s or H200s (``docs/accuracy.md``).
"""


class Choice(NamedTuple):
    """Values to set, the upper end of their peak's band [GiB], and their gain."""

    ac: str
    micro_batch: int
    grad_accum: int
    high_gib: float
    gain: float


def lighter_ac(job: Job, speed_tokens_per_second: float, ac: str) -> Any:
    """The fastest AC mode other than full that fits; unknown if none fits."""
    if ac != "full":
        raise Unknown("instead.lighter_ac")
    modes = [{"ac": mode} for mode in ("none", "selective")]
    return _fastest(job, modes, speed_tokens_per_second)


def ac(instead_lighter_ac: Any) -> str:
    """AC mode of ``instead.lighter_ac``, by the trainer's name."""
    return Words(instead_lighter_ac.ac)


def ac_gib(instead_lighter_ac: Any) -> float:
    """Upper end of the peak's band with ``instead.ac`` [GiB]."""
    return float(instead_lighter_ac.high_gib)


def ac_gain(instead_lighter_ac: Any) -> float:
    """Tokens/s with ``instead.ac`` relative to full AC [ratio]."""
    return float(instead_lighter_ac.gain)


def larger_batch(
    job: Job, speed_tokens_per_second: float, micro_batch: int, grad_accum: int
) -> Any:
    """The fastest larger micro-batch, with less accumulation, that fits.

    The tokens per step do not change. Unknown if none fits.
    """
    found = list(_batches(micro_batch * grad_accum))
    larger = [values for values in found if values["micro_batch"] > micro_batch]
    return _fastest(job, larger, speed_tokens_per_second)


def micro_batch(instead_larger_batch: Any) -> int:
    """Micro-batch of ``instead.larger_batch``."""
    return int(instead_larger_batch.micro_batch)


def grad_accum(instead_larger_batch: Any) -> int:
    """Gradient accumulation of ``instead.larger_batch``."""
    return int(instead_larger_batch.grad_accum)


def batch_gib(instead_larger_batch: Any) -> float:
    """Upper end of the peak's band with ``instead.larger_batch`` [GiB]."""
    return float(instead_larger_batch.high_gib)


def batch_gain(instead_larger_batch: Any) -> float:
    """Tokens/s with ``instead.larger_batch`` relative to the config [ratio]."""
    return float(instead_larger_batch.gain)


def fsdp_alone(
    job: Job,
    speed_tokens_per_second: float,
    tp: int,
    dp_shard: int,
    micro_batch: int,
    grad_accum: int,
) -> Any:
    """The fastest batch that fits if FSDP uses the GPUs of tensor parallelism.

    The tokens per step do not change: tp times as many ranks share the sequences.
    Unknown if the sequences do not divide over them, or if nothing fits.
    """
    rows, rest = divmod(micro_batch * grad_accum, tp)
    if tp == 1 or rest:
        raise Unknown("instead.fsdp_alone")
    alone = {"tp": 1, "dp_shard": dp_shard * tp}
    found = [alone | values for values in _batches(rows)]
    return _fastest(job, found, speed_tokens_per_second)


def fsdp_micro_batch(instead_fsdp_alone: Any) -> int:
    """Micro-batch of ``instead.fsdp_alone``."""
    return int(instead_fsdp_alone.micro_batch)


def fsdp_grad_accum(instead_fsdp_alone: Any) -> int:
    """Gradient accumulation of ``instead.fsdp_alone``."""
    return int(instead_fsdp_alone.grad_accum)


def fsdp_gib(instead_fsdp_alone: Any) -> float:
    """Upper end of the peak's band with ``instead.fsdp_alone`` [GiB]."""
    return float(instead_fsdp_alone.high_gib)


def fsdp_gain(instead_fsdp_alone: Any) -> float:
    """Tokens/s of ``instead.fsdp_alone`` relative to tensor parallelism [ratio]."""
    return float(instead_fsdp_alone.gain)


def twice_gain(job: Job, micro_batch: int, speed_tokens_per_second: float) -> float:
    """Tokens/s with twice the micro-batch, and so twice the tokens per step [ratio].

    Relative to the config. Unknown if that may not fit.
    """
    return _gain(job, {"micro_batch": 2 * micro_batch}, speed_tokens_per_second)


def half_gain(
    job: Job,
    micro_batch: int,
    dp_shard: int,
    world_size: int,
    speed_tokens_per_second: float,
) -> float:
    """Tokens/s on half the GPUs with the same tokens per step [ratio].

    Relative to the config. Unknown for an odd number of shards, or if that may not fit.
    """
    if dp_shard % 2:
        raise Unknown("instead.half_gain")
    changes = {"micro_batch": 2 * micro_batch, "dp_shard": dp_shard // 2}
    return _gain(job, changes, speed_tokens_per_second, world_size // 2)


def fp32_fit(job: Job) -> str:
    """Memory verdict of the same run in fp32."""
    found: str = job.with_values({"precision": "fp32"})["memory.fit"]
    return found


def nearly_empty(
    speed_communication_share: float,
    gpu_memory_gib: float,
    memory_high_gib: float,
    instead_twice_gain: float,
) -> bool:
    """Whether GPUs wait for communication and use so little memory that they need not.

    Communication is most of a step, at most a quarter of the memory is used, and twice
    the tokens per step are predicted to pay. For FSDP alone without accumulation.
    """
    empty = memory_high_gib < EMPTY * gpu_memory_gib
    waits = speed_communication_share > WAITING and instead_twice_gain >= WORTH
    return empty and waits


def fuller(
    job: Job,
    micro_batch: int,
    world_size: int,
    instead_twice_gain: float,
    instead_half_gain: float | None = None,
    gpus_per_node: int | None = None,
) -> str:
    """What twice the tokens per step, or half the GPUs, would gain, in words."""
    twice = f"`{job.key('micro_batch')} = {2 * micro_batch}`"
    words = (
        f"{twice}, which doubles the tokens per step, is predicted to give "
        f"{instead_twice_gain:.2f} times the tokens/s"
    )
    if instead_half_gain is not None:
        words += (
            f"; on {world_size // 2} GPUs it keeps the tokens per step and gives "
            f"{instead_half_gain:.2f} times the tokens/s"
        )
    assumed = "" if gpus_per_node else f" (assuming nodes of {NODE} GPUs)"
    return Prose(words + assumed)


def _gain(
    job: Job, changes: dict[str, Any], tokens: float, world_size: int = 0
) -> float:
    """The tokens/s of a change that fits, relative to ``tokens`` [ratio]."""
    _check_gpus(job)
    other = job.with_values(changes, world_size)
    if other["memory.fit"] != FITS:
        raise Unknown("instead")
    return float(other["speed.tokens_per_second"] / tokens)


def _check_gpus(job: Job) -> None:
    """Raise ``Unknown`` if the parallel degrees are for another number of GPUs."""
    if job.find("declared_gpus") not in (None, job.find("world_size")):
        raise Unknown("instead")


def _batches(rows: int) -> Iterator[dict[str, Any]]:
    """Yield micro-batches that divide a step's sequences, with their accumulation."""
    for size in range(1, min(rows, MOST) + 1):
        if rows % size == 0:
            yield {"micro_batch": size, "grad_accum": rows // size}


def _fastest(job: Job, changes: Iterable[dict[str, Any]], tokens: float) -> Choice:
    """The fastest of several changes that fit, compared with ``tokens``/s."""
    _check_gpus(job)
    found = [choice for each in changes if (choice := _choice(job, each, tokens))]
    if not found:
        raise Unknown("instead")
    return max(found, key=lambda choice: choice.gain)


def _choice(job: Job, changes: dict[str, Any], tokens: float) -> Choice | None:
    other = job.with_values(changes)
    try:
        odd = other["micro_batch"] % other["fp8.batch_step"]
        if odd or other["memory.fit"] != FITS:
            return None
        gain = other["speed.tokens_per_second"] / tokens
    except Unknown:
        return None
    sizes = other["micro_batch"], other["grad_accum"]
    return Choice(other["ac"], *sizes, other["memory.high_gib"], gain)
