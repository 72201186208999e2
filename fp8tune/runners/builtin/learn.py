"""A run for its losses: so many steps, all of them told."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from fp8tune.runners.builtin.measure import (
    Device,
    Timed,
    check_finite,
    timed_step,
)
from fp8tune.runners.builtin.spec import Spec
from fp8tune.runners.builtin.step import Training


def learn(
    training: Training,
    device: Device,
    spec: Spec,
    say: Callable[..., None],
    first: Timed,
) -> dict[str, Any]:
    """Train to the end of ``spec.steps``; ``first`` is step 0.

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
