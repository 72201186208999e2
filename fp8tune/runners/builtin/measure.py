"""Steady steps, memory, and the proof that FP8 matmuls ran."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from fp8tune.runners.builtin.spec import Spec
from fp8tune.runners.builtin.step import Step, Training
from fp8tune.runners.steady import half_width, steady

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

    def held(self) -> tuple[int, int]:
        """Most bytes that the allocator had so far, and how often it had to retry."""
        if not self.cuda:
            return 0, 0
        retries = torch.cuda.memory_stats().get("num_alloc_retries", 0)
        return torch.cuda.max_memory_reserved(), retries

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
    training: Training,
    device: Device,
    spec: Spec,
    say: Callable[..., None],
    first_ms: float,
) -> dict[str, Any]:
    """Train until the median step time is known to ``spec.precise``.

    ``first_ms`` is the time of step 0. What counts is told by ``runners.steady``: not
    the ``warm_steps``, nor what is before the last recompile or growth of memory.
    Raises ``ArithmeticError`` where loss or gradient is not finite.
    """
    times, losses = [first_ms], []
    events: dict[int, str] = {}
    seen = _Seen(device)
    for number in range(1, spec.warm_steps + spec.max_steps + 1):
        start = time.perf_counter()
        step = training.step()
        device.wait()
        times.append((time.perf_counter() - start) * 1e3)
        say(step=number, ms=times[-1], loss=step.loss, grad_norm=step.grad_norm)
        check_finite(step)
        losses.append(step.loss)
        if why := seen.new():
            events[number] = why
        if _precise(times, events, spec):
            break
    found = steady(times, events, spec.warm_steps + 1)
    middle = statistics.median(times[found.start :])
    return {
        "step_ms": times[found.start :],
        "discarded": [left._asdict() for left in found.left],
        "settled": found.settled,
        "tokens_per_second_per_rank": spec.tokens_per_step() / middle * 1e3,
        "losses": losses,
        "recompiles": seen.graphs,
    }


def check_finite(step: Step) -> None:
    """Raise ``ArithmeticError`` where loss or gradient is not finite."""
    if not (math.isfinite(step.loss) and math.isfinite(step.grad_norm)):
        raise ArithmeticError("NaN or infinity in loss or gradient")


def _precise(times: list[float], events: dict[int, str], spec: Spec) -> bool:
    """Whether the steady steps are enough."""
    if len(times) <= spec.warm_steps + spec.min_steps:
        return False
    found = steady(times, events, spec.warm_steps + 1)
    kept = times[found.start :]
    enough = found.settled and len(kept) >= spec.min_steps
    return enough and half_width(kept) <= spec.precise


class _Seen:
    """What happened until now that steady steps do not have."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.graphs, self._held = _recompiles(), device.held()

    def new(self) -> str:
        """What happened since the last call; ``""`` for nothing."""
        graphs, held = _recompiles(), self._device.held()
        why = "recompile" if graphs != self.graphs else ""
        if held != self._held:
            why = why or "allocator"
        self.graphs, self._held = graphs, held
        return why


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
