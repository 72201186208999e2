"""Recipes of NeMo Automodel to compare verdicts on: one that starts, and mistakes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

BASE = """\
recipe: TrainFinetuneRecipeForNextTokenPrediction
model:
  pretrained_model_name_or_path: Qwen/Qwen2.5-7B
packed_sequence:
  packed_sequence_size: 8192
"""
CHOICES: dict[str, dict[str, tuple[str, ...]]] = {
    "fp8": {
        "enabled": ("true", "true", "true", "false", '"true"', "1", '"off"', "on"),
        "recipe_name": (
            *("tensorwise", "rowwise", "rowwise_with_gw_hp", "null", "none", '"none"'),
            *("rowise", "blockwise", "Tensorwise"),
        ),
        "enable_fsdp_float8_all_gather": ("true", "false"),
        "precompute_float8_dynamic_scale_for_fsdp": ("true", "false"),
        "force_recompute_fp8_weight_in_bwd": ("true", "false"),
        "filter_fqns": (
            *('["lm_head"]', "[]", '["layers"]', '[""]', "lm_head", "null"),
            *('["lm_head", "layers"]', "[q_proj, lm_head]"),
        ),
        "emulate": ("true", "false"),
        "recipe": ("tensorwise",),
        "enable": ("true",),
    },
    "compile": {
        "enabled": ("true", "false"),
        "mode": ("default", "max-autotune"),
        "fullgraph": ("true", "false"),
        "enable": ("true",),
    },
    "distributed": {
        "strategy": ("fsdp2", "fsdp2", "ddp", "megatron_fsdp", "FSDP2", "fsdp", "none"),
        "tp_size": ("1", "2", "none", '"2"'),
        "pp_size": ("1", "1", "1", "2"),
        "cp_size": ("1", "none"),
        "dp_size": ("none", "8"),
        "pipeline": ("{}", "{pp_schedule: 1f1b}"),
        "enable_compile": ("true", "false"),
        "enable_async_tensor_parallel": ("true", "false"),
        "activation_checkpointing": ("true", "false", "full", "selective"),
        "enable_fp8": ("true",),
        "tensor_parallel_size": ("2",),
    },
    "checkpoint": {
        "enabled": ("true", "false"),
        "model_save_format": ("safetensors", "torch_save", "safetensor"),
        "checkpoint_dir": ("checkpoints",),
        "save_consolidated": ("true", "false"),
        "save_format": ("torch_save",),
    },
    "step_scheduler": {
        "global_batch_size": ("32", "8"),
        "local_batch_size": ("1", "2"),
        "max_steps": ("100",),
        "micro_batch_size": ("1",),
        "num_epochs": ("1",),
    },
}
"""Keys of each section, and what they are set to; some keys and values are wrong."""

OFTEN = {"fp8": 0.9, "compile": 0.6, "distributed": 0.6, "checkpoint": 0.3}
RARELY = ("recipe", "enable", "enable_fp8", "tensor_parallel_size", "save_format")
RARE = ("micro_batch_size", "model_save_format", "strategy", *RARELY)


def configs(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield recipes, the same for the same seed."""
    draw = random.Random(seed)  # noqa: S311
    for number in range(count):
        text = BASE
        for section, keys in CHOICES.items():
            if draw.random() > OFTEN.get(section, 0.2):
                continue
            lines = []
            for key, values in keys.items():
                if key == "enabled" and section == "fp8":
                    share = 0.9
                else:
                    share = 0.08 if key in RARE else 0.5
                if draw.random() < share:
                    lines.append(f"  {key}: {draw.choice(values)}\n")
            text += f"{section}:\n{''.join(lines)}" if lines else ""
        yield {"id": f"{seed}-{number}", "yaml": text}
