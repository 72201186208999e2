"""Tokens and learning rate of an optimizer step."""

from __future__ import annotations


def warmup_peak(warmup_steps: int, max_steps: int) -> float:
    """Highest share of the peak learning rate that warmup reaches, at most 1.

    Linear warmup applies step / warmup_steps at steps 0 .. max_steps - 1.
    Source: torch LambdaLR as used by KempnerForge training/scheduler.py.
    """
    return min(1.0, (max_steps - 1) / warmup_steps) if warmup_steps else 1.0
