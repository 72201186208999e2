"""The fields of a job that follow from several overrides.

Source: src/megatron/bridge/training/mixed_precision.py.
"""

from __future__ import annotations

from typing import Any

from fp8tune.job import Job, Unknown, Words, known
from fp8tune.trainers.megatron_lm.job import RECIPES


def precision(
    mixed_precision_fp8: Any,
    mixed_precision_bf16: Any = None,
    mixed_precision_fp16: Any = None,
    model_transformer_impl: Any = None,
) -> str:
    """Precision of the linears: FP8 only with layers of Transformer Engine."""
    if mixed_precision_fp8 and model_transformer_impl in (None, "transformer_engine"):
        return Words("fp8")
    names = (("bf16", mixed_precision_bf16), ("fp16", mixed_precision_fp16))
    known("precision", mixed_precision_bf16)
    return Words(next((name for name, on in names if on), "fp32"))


def te_format(mixed_precision_fp8: Any) -> str:
    """FP8 format of Transformer Engine; empty without FP8."""
    return Words(mixed_precision_fp8 or "")


def te_recipe(
    mixed_precision_fp8_recipe: Any, te_format: str, local_layers: bool = False
) -> str:
    """Transformer Engine's recipe, ``""`` without FP8 or without its layers."""
    if not te_format or local_layers:
        return Words("")
    return Words(known("te_recipe", RECIPES.get(mixed_precision_fp8_recipe)))


def sequence_parallel(model_sequence_parallel: Any) -> bool:
    """Whether TP also splits the tokens; a recipe says it where the file does not."""
    return bool(known("sequence_parallel", model_sequence_parallel))


def local_layers(model_transformer_impl: Any) -> bool:
    """Whether layers are Megatron's own, which have no FP8."""
    return bool(model_transformer_impl == "local")


def adapters(job: Job) -> bool:
    """Whether the file sets up LoRA or another adapter."""
    return "peft" in job.written


def ac_modes() -> tuple[str, ...]:
    """AC modes that wrap some module, including none."""
    return ("none", "selective", "full")


def attention_passes() -> float:
    """Forward passes that attention costs: no speed was fitted to this trainer."""
    raise Unknown("speed.trainer")
