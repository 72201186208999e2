"""How fast one linear is in FP8, next to bf16, forward and backward, compiled."""

from __future__ import annotations

import statistics
import time
from importlib import import_module
from typing import Any

from benchmarks.fp8_shapes import Gemm

WARM, TIMED = 5, 20
"""Passes before the clock runs, and passes that are timed."""


def gain(shape: Gemm, device: str) -> float:
    """Speed of torchao's tensorwise Float8Linear, in that of a bf16 linear."""
    torch: Any = import_module("torch")
    float8: Any = import_module("torchao.float8")
    made: dict[str, Any] = {"device": device, "dtype": torch.bfloat16}
    plain, converted = (
        torch.nn.Sequential(torch.nn.Linear(shape.k, shape.n, bias=False, **made))
        for _ in range(2)
    )
    float8.convert_to_float8_training(converted)
    tokens = torch.randn(shape.m, shape.k, requires_grad=True, **made)
    torch._dynamo.reset()
    bf16, fp8 = (median_ms(torch.compile(m), tokens) for m in (plain, converted))
    return bf16 / fp8


def median_ms(model: Any, tokens: Any) -> float:
    """Median time of a forward and backward pass [ms]."""
    torch: Any = import_module("torch")
    wait = torch.cuda.synchronize if tokens.is_cuda else (lambda: None)
    times = []
    for _ in range(WARM + TIMED):
        wait()
        start = time.perf_counter()
        model(tokens).sum().backward()
        wait()
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times[WARM:])
