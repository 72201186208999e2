"""Overrides of Megatron-Bridge to compare verdicts on, with mistakes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

NAMES = (
    *("bf16_mixed", "fp16_mixed", "bf16-mixed", "bf16_with_fp8_current_scaling_mixed"),
    *("bf16_with_fp8_delayed_scaling_mixed", "bf16-with-fp8-subchannel-scaling-mixed"),
    *("bf16_with_mxfp8_mixed", "nanov2_bf16_with_fp8_current_scaling_mixed"),
    *("nemotron_h_bf16_with_fp8_current_scaling_mixed", "bf16_with_nvfp4_mixed"),
    *("bf16_with_fp8_mixed", "bf16_with_fp8_curent_scaling_mixed", "fp8", "BF16_mixed"),
    "null",
)
TARGET = "megatron.bridge.training.mixed_precision.MixedPrecisionConfig"
PRECISION: dict[str, tuple[str, ...]] = {
    "_target_": (TARGET,),
    "bf16": ("true", "false"),
    "fp8": ("hybrid", "e4m3", "null"),
    "fp8_recipe": ("tensorwise", "delayed", "mxfp8", "blockwise"),
    "fp8_param_gather": ("true", "false"),
    "first_last_layers_bf16": ("true", "false"),
    "num_layers_at_start_in_bf16": ("0", "1"),
    "num_layers_at_end_in_bf16": ("0", "1", "2"),
    "fp8_format": ("hybrid",),
    "fp8_reciepe": ("mxfp8",),
}
"""Fields of a mapping, some of which no class has."""

MODEL: dict[str, tuple[str, ...]] = {
    "fp8": ("hybrid",),
    "fp8_recipe": ("tensorwise", "delayed"),
    "num_layers": ("2", "4", "8"),
    "transformer_impl": ("local", "transformer_engine"),
    "tensor_model_parallel_sise": ("2",),
}


def configs(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield overrides, the same for the same seed."""
    draw = random.Random(seed)  # noqa: S311
    for number in range(count):
        text = ""
        kind = draw.random()
        if kind < 0.45:
            text += f"mixed_precision: {draw.choice(NAMES)}\n"
        elif kind < 0.9:
            lines = fields(draw, PRECISION, 0.5)
            text += f"mixed_precision:\n{lines}" if lines else ""
        lines = fields(draw, MODEL, 0.3)
        text += f"model:\n{lines}" if lines else ""
        if draw.random() < 0.1:
            text += "optimiser:\n  lr: 0.0003\n"
        text = text or "model:\n  num_layers: 4\n"
        yield {"id": f"{seed}-{number}", "yaml": text}


def fields(
    draw: random.Random, choices: dict[str, tuple[str, ...]], share: float
) -> str:
    """Return the lines of a section."""
    rare = ("fp8_format", "fp8_reciepe", "tensor_model_parallel_sise")
    return "".join(
        f"  {key}: {draw.choice(values)}\n"
        for key, values in choices.items()
        if draw.random() < (0.1 if key in rare else share)
    )
