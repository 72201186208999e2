"""The range of a peak under transformers' Trainer and NeMo Automodel (``shared``)."""

from __future__ import annotations

from fp8tune.facts.memory.fit import least_peak_gib
from fp8tune.job import Job


def memory_least_peak_gib(
    job: Job, samples_may_be_shorter: bool, memory_peak_gib: float | None = None
) -> float:
    """The peak with samples as short as they may be, or what is modelled of it [GiB].

    Without packing a batch is as long as its longest sample, which no file says.
    """
    shortest = job.with_values({"block_tokens": 1}) if samples_may_be_shorter else job
    if memory_peak_gib is None:
        return least_peak_gib(shortest)
    return float(shortest["memory.peak_gib"])


def memory_low_gib(
    memory_peak_gib: float,
    memory_least_peak_gib: float,
    memory_band: tuple[float, float],
) -> float:
    """Lower end of the peak's band [GiB]."""
    return min(memory_peak_gib, memory_least_peak_gib) * (1 - memory_band[0])


def memory_high_gib(memory_peak_gib: float, memory_band: tuple[float, float]) -> float:
    """Upper end of the peak's band [GiB]."""
    return memory_peak_gib * (1 + memory_band[1])
