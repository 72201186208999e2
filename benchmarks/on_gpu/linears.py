"""The linears of a config in bf16 and in FP8, each by itself, against the prediction.

A linear runs forward and backward as the trainer has it: bf16 weights, torchao's
tensorwise recipe, compiled. M goes over powers of two; K and N are the config's.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from fp8tune.facts import gemm_speed
from fp8tune.job import Job

SMALL, LARGE = 512, 32768
"""M of the first and the last row [tokens]."""
REPEATS, INNER = 7, 20


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

    def run() -> None:
        for _ in range(INNER):
            compiled(x).backward(upstream)
        if device == "cuda":
            torch.cuda.synchronize()

    run()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3 / INNER)
    return statistics.median(times)
