"""The linears of a config in bf16 and in FP8, each by itself, against the prediction.

A linear runs forward and backward as the trainer has it: bf16 weights, torchao's
tensorwise recipe, compiled. M goes over powers of two; K and N are the config's. The
time is that of the kernels by the profiler: with small M the wall time is that of
launches, which a whole step hides and which makes FP8 look slower than it is.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from fp8tune.facts import gemm_speed
from fp8tune.job import Job

SMALL, LARGE = 512, 32768
"""M of the first and the last row [tokens]."""
REPEATS = {"cuda": (7, 20), "cpu": (2, 1)}
"""Profiles of each linear, and passes in one."""


class Shape(NamedTuple):
    """A linear [M, K] @ [K, N] and its name."""

    name: str
    m: int
    k: int
    n: int


class Row(NamedTuple):
    """One linear: times of forward and backward [ms], and the gain of FP8 [ratio].

    All are 0 where the linear does not fit into the GPU's memory.
    """

    name: str
    m: int
    k: int
    n: int
    bf16_ms: float
    fp8_ms: float
    gain: float
    predicted: float


def shapes(job: Job, largest: int) -> Iterator[Shape]:
    """Every different linear that FP8 converts, for each M."""
    seen = {(gemm.k, gemm.n): gemm.name for gemm in job["gemms"] if gemm.fp8}
    m = SMALL
    while m <= largest:
        for (k, n), name in seen.items():
            yield Shape(name, m, k, n)
        m *= 2


def measure(todo: Iterable[Shape], device: str) -> Iterator[Row]:
    """Time the shapes, one after the other."""
    import torch

    for name, m, k, n in todo:
        predicted = gemm_speed.tensorwise(m, k, n)
        try:
            bf16 = milliseconds(m, k, n, device, fp8=False)
            fp8 = milliseconds(m, k, n, device, fp8=True)
        except torch.OutOfMemoryError:
            yield Row(name, m, k, n, 0.0, 0.0, 0.0, predicted)
        else:
            yield Row(name, m, k, n, bf16, fp8, bf16 / fp8, predicted)


def milliseconds(m: int, k: int, n: int, device: str, *, fp8: bool) -> float:
    """Median time of one forward and backward pass [ms]."""
    import torch
    from torch import nn

    torch._dynamo.reset()
    layer: Any = nn.Sequential(nn.Linear(k, n, bias=False))
    layer = layer.to(device=device, dtype=torch.bfloat16)
    if fp8:
        from torchao.float8 import Float8LinearConfig, convert_to_float8_training

        config = Float8LinearConfig.from_recipe_name("tensorwise")
        convert_to_float8_training(layer, config=config)
    compiled = torch.compile(layer)
    x = torch.randn(m, k, device=device, dtype=torch.bfloat16, requires_grad=True)
    upstream = torch.randn(m, n, device=device, dtype=torch.bfloat16)

    repeats, inner = REPEATS[device]

    def run() -> None:
        for _ in range(inner):
            compiled(x).backward(upstream)
        if device == "cuda":
            torch.cuda.synchronize()

    run()
    return statistics.median(_kernels_ms(run, device) / inner for _ in range(repeats))


def _kernels_ms(run: Callable[[], None], device: str) -> float:
    """Return the time of all kernels of a call, or of all CPU operators [ms].

    Raises ``RuntimeError`` if the profiler sees no kernel, as without CUPTI.
    """
    from torch.profiler import ProfilerActivity, profile

    cuda = device == "cuda"
    activity = ProfilerActivity.CUDA if cuda else ProfilerActivity.CPU
    with profile(activities=[activity]) as recorded:
        run()
    spent = sum(
        event.self_device_time_total if cuda else event.self_cpu_time_total
        for event in recorded.key_averages()
    )
    if not spent:
        raise RuntimeError("the profiler saw no kernels; is CUPTI installed?")
    return float(spent) / 1e3
