"""Steady steps, memory, and the proof that FP8 matmuls ran."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from fp8tune.runners.builtin.spec import Spec
from fp8tune.runners.builtin.step import Training

GIB = 2**30
FLOAT8_MATMULS = ("aten::_scaled_mm", "aten::_scaled_mm_v2")
"""Operators that torchao's linears call, eager or compiled."""


class Device:
    """What differs between a GPU and the CPU."""

    def __init__(self, kind: str) -> None:
        self.cuda = kind == "cuda"
        self.name = torch.cuda.get_device_name() if self.cuda else "CPU"
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()

    def wait(self) -> None:
        """Until everything that was started is done."""
        if self.cuda:
            torch.cuda.synchronize()

    def memory(self) -> dict[str, float]:
        """Peak of allocated and reserved memory, capacity [GiB], allocator retries."""
        if not self.cuda:
            import resource

            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB
            return {"peak_gib": peak, "reserved_gib": peak}
        stats = torch.cuda.memory_stats()
        return {
            "peak_gib": torch.cuda.max_memory_allocated() / GIB,
            "reserved_gib": torch.cuda.max_memory_reserved() / GIB,
            "capacity_gib": torch.cuda.get_device_properties(0).total_memory / GIB,
            "alloc_retries": stats.get("num_alloc_retries", 0),
        }


def measure(
    training: Training, device: Device, spec: Spec, say: Callable[..., None]
) -> dict[str, Any]:
    """Train until the median step time is known to ``spec.precise``.

    The first ``warm_steps`` and all steps up to the last recompilation are left out.
    Raises ``ArithmeticError`` where loss or gradient is not finite.
    """
    times: list[float] = []
    losses: list[float] = []
    compiled = _recompiles()
    for number in range(1, spec.warm_steps + spec.max_steps + 1):
        start = time.perf_counter()
        step = training.step()
        device.wait()
        took = (time.perf_counter() - start) * 1e3
        say(step=number, ms=took, loss=step.loss, grad_norm=step.grad_norm)
        if not (math.isfinite(step.loss) and math.isfinite(step.grad_norm)):
            raise ArithmeticError("NaN or infinity in loss or gradient")
        losses.append(step.loss)
        if _recompiles() != compiled:
            compiled, times = _recompiles(), []
        elif number > spec.warm_steps:
            times.append(took)
        if len(times) >= spec.min_steps and half_width(times) <= spec.precise:
            break
    middle = statistics.median(times)
    return {
        "step_ms": times,
        "tokens_per_second_per_rank": spec.tokens_per_step() / middle * 1e3,
        "losses": losses,
        "recompiles": compiled,
    }


def half_width(times: list[float]) -> float:
    """Half of the median's 95 % interval, relative to it (order statistics)."""
    ordered = sorted(times)
    count = len(ordered)
    reach = 0.98 * math.sqrt(count)
    low = ordered[max(0, math.floor(count / 2 - reach))]
    high = ordered[min(count - 1, math.ceil(count / 2 + reach))]
    return (high - low) / 2 / statistics.median(ordered)


def _recompiles() -> int:
    """Graphs that dynamo has compiled so far."""
    from torch._dynamo.utils import counters

    return int(counters["stats"].get("unique_graphs", 0))


def count_float8_matmuls(training: Training) -> int:
    """FP8 matmuls of one more step, as the profiler sees them."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as seen:
        training.step()
    counted = {event.key: event.count for event in seen.key_averages()}
    return sum(counted.get(name, 0) for name in FLOAT8_MATMULS)
