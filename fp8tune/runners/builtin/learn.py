"""A run for its losses: so many steps, all of them told."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from fp8tune.runners.builtin.measure import Device, check_finite
from fp8tune.runners.builtin.spec import Spec
from fp8tune.runners.builtin.step import Training


def learn(
    training: Training,
    device: Device,
    spec: Spec,
    say: Callable[..., None],
    first_ms: float,
) -> dict[str, Any]:
    """Train to the end of ``spec.steps``; ``first_ms`` is the time of step 0.

    Raises ``ArithmeticError`` where loss or gradient is not finite.
    """
    times = [first_ms]
    for number in range(1, spec.steps):
        start = time.perf_counter()
        step = training.step()
        device.wait()
        times.append((time.perf_counter() - start) * 1e3)
        say(step=number, ms=times[-1], loss=step.loss, grad_norm=step.grad_norm)
        check_finite(step)
    middle = statistics.median(times)
    return {
        "step_ms": times[1:] or times,
        "tokens_per_second_per_rank": spec.tokens_per_step() / middle * 1e3,
    }
