"""Measure steady steps and memory, and count the FP8 matmuls that ran."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from fp8tune.runners.builtin.spec import Spec
from fp8tune.runners.builtin.step import StepResult, Training
from fp8tune.runners.builtin.team import gathered, of_rank_0
from fp8tune.runners.sampling import (
    Steps,
    micro_batches,
    whole_step_ms,
)
from fp8tune.verify.kernels import kind

GIB = 2**30


class Device:
    """Operations that differ between a GPU and the CPU."""

    def __init__(self, kind: str) -> None:
        self.cuda = kind == "cuda"
        self.name = torch.cuda.get_device_name() if self.cuda else "CPU"

    def wait(self) -> None:
        """Wait until all work on the device is done."""
        if self.cuda:
            torch.cuda.synchronize()

    def forget_building(self) -> None:
        """Reset the memory peaks, and free what building the model left cached.

        The trainer builds it on the host and moves it to the GPU (parallel.py,
        build_parallel_model); a trial builds it there in fp32, which is faster.
        """
        if self.cuda:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def reserved(self) -> int:
        """Return the most bytes that the allocator has reserved."""
        return torch.cuda.max_memory_reserved() if self.cuda else 0

    def retries(self) -> int:
        """Return how often the allocator has freed cached memory and retried."""
        if not self.cuda:
            return 0
        return int(torch.cuda.memory_stats().get("num_alloc_retries", 0))

    def memory(self) -> dict[str, float]:
        """Return peak allocated and reserved memory, and capacity [GiB]."""
        if not self.cuda:
            import resource

            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB
            return {"peak_gib": peak, "reserved_gib": peak}
        return {
            "peak_gib": torch.cuda.max_memory_allocated() / GIB,
            "reserved_gib": torch.cuda.max_memory_reserved() / GIB,
            "capacity_gib": _of_gpu().total_memory / GIB,
        }


def _of_gpu() -> Any:
    return torch.cuda.get_device_properties(torch.cuda.current_device())


def of_fullest(memory: dict[str, float], spec: Spec) -> dict[str, float]:
    """Return the memory of the rank that holds most, and which one that is."""
    if spec.ranks < 2:
        return memory
    ranks = gathered(list(memory.values()), spec)
    fullest = max(range(spec.ranks), key=lambda rank: ranks[rank])
    found = dict(zip(memory, map(max, zip(*ranks, strict=True)), strict=True))
    if "capacity_gib" in memory:
        index = list(memory).index("capacity_gib")
        found["capacity_gib"] = min(rank[index] for rank in ranks)
    return {**found, "ranks": spec.ranks, "peak_rank": fullest}


class Timed(NamedTuple):
    """A step: its time, the time of a whole step, and of each micro-batch [ms].

    The micro-batches add up to its time: the last one includes the reduction of the
    gradients, clipping and the optimizer.
    """

    ms: float
    whole_ms: float
    micro_ms: list[float]
    step: StepResult


def timed_step(
    training: Training,
    device: Device,
    number: int,
    say: Callable[..., None],
    count: int = 0,
) -> Timed:
    """Run a step of ``count`` micro-batches, or of all, and report its time.

    Several ranks go by the clock of rank 0, as the trainers' logs do. The gradients'
    norm makes all ranks wait for the slowest one in each step; what a rank does later
    delays the next step of all.
    """
    start = time.perf_counter()
    step = training.step(count)
    device.wait()
    ends = [start, *training.read_at[:-1], time.perf_counter()]
    own_ms = [(end - begin) * 1e3 for begin, end in itertools.pairwise(ends)]
    micro_ms = of_rank_0(own_ms, training.spec)
    step = _as_logged(step, training.spec)
    ran_ms = math.fsum(micro_ms)
    whole_ms = whole_step_ms(micro_ms, training.spec.grad_accum)
    losses = {"loss": step.loss, "grad_norm": step.grad_norm}
    say(step=number, ms=ran_ms, step_ms=whole_ms, **losses)
    return Timed(ran_ms, whole_ms, micro_ms, step)


def _as_logged(step: StepResult, spec: Spec) -> StepResult:
    """Return a step with the loss that the trainer logs: rank 0's, or all ranks' mean.

    It is averaged in loss runs only: trainers do not log each step.
    """
    if spec.ranks < 2 or not (spec.steps and spec.averages_losses):
        return step
    return step._replace(
        loss=statistics.fmean(x for (x,) in gathered([step.loss], spec))
    )


def first_step(training: Training, device: Device, say: Callable[..., None]) -> Timed:
    """Run step 0; when measuring speed, with the fewest micro-batches."""
    spec = training.spec
    count = 0 if spec.steps else micro_batches(spec.grad_accum, ())
    return timed_step(training, device, 0, say, count)


def measure(
    training: Training,
    device: Device,
    spec: Spec,
    say: Callable[..., None],
    first: Timed,
) -> dict[str, Any]:
    """Train until the steps suffice by ``runners.sampling``; ``first`` is step 0.

    Steps with much accumulation run some of their micro-batches, and their time is
    scaled to all. ``runners.steady`` decides which steps count. Raises
    ``ArithmeticError`` if loss or gradient is not finite.
    """
    steps = Steps(spec.sampling)
    micro_ms = list(first.micro_ms)
    steps.add(first.ms, first.whole_ms)
    seen = _Seen(device, spec)
    retries = [device.retries()]
    for number in itertools.count(1):
        count = micro_batches(spec.grad_accum, micro_ms)
        timed = timed_step(training, device, number, say, count)
        check_finite(timed.step)
        micro_ms += timed.micro_ms
        event = seen.new()
        retries.append(seen.retries)
        steps.add(timed.ms, timed.whole_ms, event)
        if steps.suffice():
            break
    found = steps.steady()
    kept = steps.whole_ms[min(found.start, len(steps.whole_ms) - 1) :]
    speed = spec.tokens_per_step() / statistics.median(kept) * 1e3
    warm = retries[min(steps.warm_up, len(retries)) - 1]
    return {
        "step_ms": kept,
        "discarded": [left._asdict() for left in found.left],
        "settled": found.settled,
        "micro_batches": count,
        "tokens_per_second_per_rank": speed,
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
    """Train for ``spec.steps`` steps and report each; ``first`` is step 0.

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


def check_finite(step: StepResult) -> None:
    """Raise ``ArithmeticError`` where loss or gradient is not finite."""
    if not (math.isfinite(step.loss) and math.isfinite(step.grad_norm)):
        raise ArithmeticError("NaN or infinity in loss or gradient")


class _Seen:
    """What happened until now, on any rank, that steady steps do not have.

    ``retries`` are the allocator's, of the rank that has most.
    """

    def __init__(self, device: Device, spec: Spec) -> None:
        self._device = device
        self._spec = spec
        self.graphs, self._held = _recompiles(), self._memory()
        self.retries = 0

    def new(self) -> str:
        """What happened since the last call; ``""`` for nothing."""
        graphs, held = _recompiles(), self._memory()
        own = (graphs != self.graphs, held != self._held, held[1])
        ranks = gathered(own, self._spec)
        compiled, moved, retries = map(max, zip(*ranks, strict=True))
        self.graphs, self._held, self.retries = graphs, held, int(retries)
        if compiled:
            return "recompile"
        return "allocator" if moved else ""

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
    each = sum(
        event.count
        for event in seen.key_averages()
        if kind("operator", event.key) == "fp8-gemm"
    )
    return int(each) * training.spec.grad_accum
