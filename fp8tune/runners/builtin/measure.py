"""Steady steps, memory, and the proof that FP8 matmuls ran."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from fp8tune.runners.builtin.spec import Spec
from fp8tune.runners.builtin.step import Step, Training
from fp8tune.runners.steady import (
    Steady,
    half_width,
    steady,
    steady_by_micro_batch,
    step_samples,
)

GIB = 2**30
FLOAT8_MATMULS = ("aten::_scaled_mm", "aten::_scaled_mm_v2")
"""Operators that torchao's linears call, eager or compiled."""


class Device:
    """What differs between a GPU and the CPU."""

    def __init__(self, kind: str) -> None:
        self.cuda = kind == "cuda"
        self.name = torch.cuda.get_device_name() if self.cuda else "CPU"

    def wait(self) -> None:
        """Until everything that was started is done."""
        if self.cuda:
            torch.cuda.synchronize()

    def forget_building(self) -> None:
        """Start the memory peaks again, without what building the model left cached.

        The trainer builds it on the host and moves it to the GPU (parallel.py,
        build_parallel_model); a trial builds it there in fp32, which is faster.
        """
        if self.cuda:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def reserved(self) -> int:
        """Most bytes that the allocator has had at a time."""
        return torch.cuda.max_memory_reserved() if self.cuda else 0

    def retries(self) -> int:
        """How often the allocator has freed what it kept, to try again."""
        if not self.cuda:
            return 0
        return int(torch.cuda.memory_stats().get("num_alloc_retries", 0))

    def memory(self) -> dict[str, float]:
        """Peak of allocated and reserved memory, and capacity [GiB]."""
        if not self.cuda:
            import resource

            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB
            return {"peak_gib": peak, "reserved_gib": peak}
        return {
            "peak_gib": torch.cuda.max_memory_allocated() / GIB,
            "reserved_gib": torch.cuda.max_memory_reserved() / GIB,
            "capacity_gib": torch.cuda.get_device_properties(0).total_memory / GIB,
        }


class Timed(NamedTuple):
    """A step and its wall time [ms]; ``micro_ms`` are those of its micro-batches.

    They add up to the step: the last one has the reduction of the gradients, clipping
    and the optimizer.
    """

    ms: float
    micro_ms: list[float]
    step: Step


def timed_step(
    training: Training, device: Device, number: int, say: Callable[..., None]
) -> Timed:
    """Take a step and tell its time."""
    start = time.perf_counter()
    step = training.step()
    device.wait()
    ends = [start, *training.read_at[:-1], time.perf_counter()]
    micro_ms = [(end - begin) * 1e3 for begin, end in itertools.pairwise(ends)]
    took_ms = math.fsum(micro_ms)
    say(step=number, ms=took_ms, loss=step.loss, grad_norm=step.grad_norm)
    return Timed(took_ms, micro_ms, step)


def measure(
    training: Training,
    device: Device,
    spec: Spec,
    say: Callable[..., None],
    first: Timed,
) -> dict[str, Any]:
    """Train until the median step time is known to ``spec.precise``.

    Its samples are steps; where the fewest of those would take longer than
    ``spec.enough_s``, they are micro-batches. After ``enough_s`` the fewest samples
    have to do; for ``spec.least_s`` more are taken than the most. ``first`` is step 0.
    Which steps count is for ``runners.steady`` to say. Raises ``ArithmeticError`` where
    loss or gradient is not finite.
    """
    run = _Run(spec, first)
    seen = _Seen(device)
    retries = [device.retries()]
    for number in itertools.count(1):
        timed = timed_step(training, device, number, say)
        check_finite(timed.step)
        retries.append(device.retries())
        run.add(timed, seen.new())
        if run.suffices():
            break
    warm = retries[min(run.warm_up, len(retries)) - 1]
    return {
        **run.result(),
        "alloc_retries": retries[-1] - warm,
        "recompiles": seen.graphs,
    }


def train_for_losses(
    training: Training,
    device: Device,
    spec: Spec,
    say: Callable[..., None],
    first: Timed,
) -> dict[str, Any]:
    """Train for ``spec.steps`` steps, all of them reported; ``first`` is step 0.

    Raises ``ArithmeticError`` where loss or gradient is not finite.
    """
    times = [first.ms]
    for number in range(1, spec.steps):
        timed = timed_step(training, device, number, say)
        times.append(timed.ms)
        check_finite(timed.step)
    middle = statistics.median(times)
    return {
        "step_ms": times[1:] or times,
        "tokens_per_second_per_rank": spec.tokens_per_step() / middle * 1e3,
    }


def check_finite(step: Step) -> None:
    """Raise ``ArithmeticError`` where loss or gradient is not finite."""
    if not (math.isfinite(step.loss) and math.isfinite(step.grad_norm)):
        raise ArithmeticError("NaN or infinity in loss or gradient")


LONG_WARM_UP = 2
"""Steps of warm-up where micro-batches are the samples: the first has no optimizer
state yet, the second finds memory beside it."""


class _Run:
    """The steps of a trial so far, and what they amount to."""

    def __init__(self, spec: Spec, first: Timed) -> None:
        self._spec = spec
        self._times = [first.ms]
        self._micro = [first.micro_ms]
        self._events: dict[int, str] = {}

    def add(self, timed: Timed, event: str) -> None:
        """Take a step, in which ``event`` happened, if that is not empty."""
        if event:
            self._events[len(self._times)] = event
        self._times.append(timed.ms)
        self._micro.append(timed.micro_ms)

    @property
    def _by_micro_batch(self) -> bool:
        """Whether micro-batches are the samples, because steps are long."""
        spec = self._spec
        fewest = 1 + spec.warm_steps + spec.min_steps
        long = fewest * min(self._times) > spec.enough_s * 1e3
        return long and spec.grad_accum > 1

    @property
    def warm_up(self) -> int:
        """Steps that never count."""
        return LONG_WARM_UP if self._by_micro_batch else 1 + self._spec.warm_steps

    def _steady(self) -> Steady:
        if not self._by_micro_batch:
            return steady(self._times, self._events, self.warm_up)
        return steady_by_micro_batch(self._micro, self._events, self.warm_up)

    def _samples(self, start: int) -> list[float]:
        """Times of steps from ``start`` on, or of what stands for steps [ms]."""
        times = self._times[start:]
        micro = self._micro[start:] if self._by_micro_batch else []
        return step_samples(times, micro)

    def suffices(self) -> bool:
        """Whether the steady samples are enough, or the most that are taken."""
        spec, long = self._spec, self._by_micro_batch
        if sum(self._times[self.warm_up :]) < spec.least_s * 1e3:
            return False
        taken = len(self._samples(self.warm_up))
        late = sum(self._times[1:]) > spec.enough_s * 1e3
        if taken >= spec.max_steps and (late or not long):
            return True
        found = self._steady()
        kept = self._samples(found.start)
        enough = found.settled and len(kept) >= spec.min_steps
        return enough and (late or half_width(kept) <= spec.precise)

    def result(self) -> dict[str, Any]:
        """Which steps count, and the tokens/s that they make."""
        found = self._steady()
        start = min(found.start, len(self._times) - 1)
        kept, micro = self._times[start:], self._micro[start:]
        middle = statistics.median(kept)
        return {
            **({"micro_batch_ms": micro} if self._by_micro_batch else {}),
            "step_ms": kept,
            "discarded": [left._asdict() for left in found.left],
            "settled": found.settled,
            "tokens_per_second_per_rank": self._spec.tokens_per_step() / middle * 1e3,
        }


class _Seen:
    """What happened until now that steady steps do not have."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.graphs, self._held = _recompiles(), self._memory()

    def new(self) -> str:
        """What happened since the last call; ``""`` for nothing."""
        graphs, held = _recompiles(), self._memory()
        why = "recompile" if graphs != self.graphs else ""
        if held != self._held:
            why = why or "allocator"
        self.graphs, self._held = graphs, held
        return why

    def _memory(self) -> tuple[int, int]:
        return self._device.reserved(), self._device.retries()


def _recompiles() -> int:
    """Graphs that dynamo has compiled so far."""
    from torch._dynamo.utils import counters

    return int(counters["stats"].get("unique_graphs", 0))


def count_float8_matmuls(training: Training) -> int:
    """FP8 matmuls of a step, as the profiler sees them in one of its micro-batches."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as seen:
        training.try_micro_batch()
    counted = {event.key: event.count for event in seen.key_averages()}
    each: int = sum(counted.get(name, 0) for name in FLOAT8_MATMULS)
    return each * training.spec.grad_accum
