"""What trainers that run transformers' Trainer through Accelerate share."""

from __future__ import annotations

from typing import Any


def drop_share(values: dict[str, Any], section: str = "") -> None:
    """Drop the warmup where it is a share of the run's steps, which the data tells.

    Source: ``TrainingArguments.get_warmup_steps`` of transformers 5, and
    core/builders/base.py of Axolotl 0.19.0, which warms up 3% without a number.
    """
    key, ratio = f"{section}warmup_steps", values.get(f"{section}warmup_ratio")
    steps = values.get(key)
    is_number = isinstance(steps, (int, float)) and not 0 < steps < 1
    if ratio or not is_number:
        values.pop(key, None)
