"""Steady steps, memory, and the proof that FP8 matmuls ran."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from fp8tune.runners.builtin.spec import Spec
from fp8tune.runners.builtin.step import Step, Training
from fp8tune.runners.early import is_hopeless
from fp8tune.runners.steady import half_width, interval, steady

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


def timed_step(
    training: Training, device: Device, number: int, say: Callable[..., None]
) -> tuple[float, Step]:
    """A step and its wall time [ms], which are also told."""
    start = time.perf_counter()
    step = training.step()
    device.wait()
    took_ms = (time.perf_counter() - start) * 1e3
    say(step=number, ms=took_ms, loss=step.loss, grad_norm=step.grad_norm)
    return took_ms, step


def measure(
    training: Training,
    device: Device,
    spec: Spec,
    say: Callable[..., None],
    first_ms: float,
) -> dict[str, Any]:
    """Train until the median step time is known to ``spec.precise``.

    After ``spec.enough_s`` the fewest steps have to do; for ``spec.least_s`` more are
    taken than the most.
    ``first_ms`` is the time of step 0. What counts is told by ``runners.steady``: not
    the ``warm_steps``, nor what is before the last recompile or growth of memory. One
    that is surely slower than ``spec.floor`` tokens/s ends there, ``censored``: its
    tokens/s are their upper bound.
    Raises ``ArithmeticError`` where loss or gradient is not finite.
    """
    times, losses, censored = [first_ms], [], False
    events: dict[int, str] = {}
    seen = _Seen(device)
    for number in itertools.count(1):
        took_ms, step = timed_step(training, device, number, say)
        times.append(took_ms)
        check_finite(step)
        losses.append(step.loss)
        if why := seen.new():
            events[number] = why
        if _suffices(times, events, spec):
            break
        censored = _hopeless(times, events, spec)
        if censored:
            break
    return {
        **_counted(times, events, spec, censored=censored),
        "losses": losses,
        "recompiles": seen.graphs,
    }


def _counted(
    times: list[float], events: dict[int, str], spec: Spec, *, censored: bool
) -> dict[str, Any]:
    """Which steps count, and the tokens/s that they make: at most, where censored."""
    found = steady(times, events, spec.warm_steps + 1)
    kept = times[found.start :]
    middle = interval(kept)[0] if censored else statistics.median(kept)
    return {
        **({"censored": True} if censored else {}),
        "step_ms": kept,
        "discarded": [left._asdict() for left in found.left],
        "settled": found.settled,
        "tokens_per_second_per_rank": spec.tokens_per_step() / middle * 1e3,
    }


def check_finite(step: Step) -> None:
    """Raise ``ArithmeticError`` where loss or gradient is not finite."""
    if not (math.isfinite(step.loss) and math.isfinite(step.grad_norm)):
        raise ArithmeticError("NaN or infinity in loss or gradient")


def _suffices(times: list[float], events: dict[int, str], spec: Spec) -> bool:
    """Whether the steady steps are enough, or the most that are taken."""
    taken = len(times) - 1 - spec.warm_steps
    short = sum(times[1 + spec.warm_steps :]) < spec.least_s * 1e3
    if short or taken < spec.min_steps:
        return False
    if taken >= spec.max_steps:
        return True
    found = steady(times, events, spec.warm_steps + 1)
    kept = times[found.start :]
    enough = found.settled and len(kept) >= spec.min_steps
    late = sum(times[1:]) > spec.enough_s * 1e3
    return enough and (late or half_width(kept) <= spec.precise)


def _hopeless(times: list[float], events: dict[int, str], spec: Spec) -> bool:
    """Whether the steady steps so far are surely too slow to go on."""
    if not spec.floor:
        return False
    found = steady(times, events, spec.warm_steps + 1)
    kept = times[found.start :]
    return found.settled and is_hopeless(kept, spec.tokens_per_step(), spec.floor)


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
