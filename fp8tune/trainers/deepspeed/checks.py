"""How values of a DeepSpeed config must fit together, as DeepSpeed checks them.

A section may be missing from ``values`` where a value of it is refused already; then
nothing that reads it is said. Source: the files that loader.py names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from fp8tune.formats.document import Path
from fp8tune.trainers.schema import Schema, since

Case = tuple[Path, str]
"""The key that is refused, and why."""

_GONE = "this feature was removed from DeepSpeed: remove the key"
REMOVED: dict[Path, str] = {
    ("nebula",): _GONE,
    ("compression_training",): _GONE,
    ("amp",): "Apex was removed: use `bf16`, `fp16` or `torch_autocast`",
    ("quantize_training",): _GONE,
    ("sparse_gradients",): _GONE,
    ("eigenvalue",): _GONE,
    ("sparse_attention",): _GONE,
    ("elasticity",): "elastic training was removed: set the batch sizes directly",
    ("graph_harvesting",): _GONE,
    ("curriculum_learning",): (
        "write it in `data_efficiency.data_sampling.curriculum_learning`"
    ),
    ("progressive_layer_drop",): _GONE,
    ("zero_optimization", "mics_shard_size"): _GONE,
    ("zero_optimization", "mics_hierarchical_params_gather"): _GONE,
    ("zero_optimization", "zeropp_loco_param"): _GONE,
}
"""Keys that DeepSpeed refuses by name, with what to do."""

DTYPES = (
    *("torch.float16", "fp16", "float16", "half"),
    *("torch.float32", "fp32", "float32", "float"),
    *("torch.int8", "int8", "torch.bfloat16", "bf16", "bfloat16"),
)
"""Names of dtypes that ``torch_autocast`` takes."""

RENAMED = {
    "cpu_offload": ("offload_optimizer",),
    "cpu_offload_param": ("offload_param",),
    "stage3_gather_fp16_weights_on_model_save": (
        "stage3_gather_16bit_weights_on_model_save",
        "gather_16bit_weights_on_model_save",
    ),
}
"""Old names of keys, which exclude the new ones."""

BATCH = (
    "train_batch_size",
    "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps",
)


def refused(
    raw: dict[str, Any], values: dict[str, Any], schema: Schema
) -> Iterator[Case]:
    """Everything that a release of DeepSpeed refuses beyond single values."""
    added = (*(_loss_scale,) * since(schema, 0, 18), *LATER * since(schema, 0, 19))
    gone = () if since(schema, 0, 18) else (_master_weights,)
    for check in (*CHECKS, *added, *gone):
        try:
            yield from check(raw, values)
        except KeyError:  # a value that is refused already
            continue


def _precision(raw: dict[str, Any], values: dict[str, Any]) -> Iterator[Case]:
    bf16 = "bf16" if raw.get("bf16") is not None else "bfloat16"
    on = values.get(f"{bf16}.enabled") is True
    if on and values["fp16.enabled"] is True:
        yield ("fp16", "enabled"), f"`{bf16}.enabled` is true too; choose one"


def _loss_scale(raw: dict[str, Any], values: dict[str, Any]) -> Iterator[Case]:
    table = raw.get("fp16")
    if isinstance(table, dict) and isinstance(table.get("loss_scale"), bool):
        yield ("fp16", "loss_scale"), "it must be a number, not true or false"
        return
    scale = values["fp16.loss_scale"]
    if not math.isfinite(scale) or scale < 0:
        yield ("fp16", "loss_scale"), "it must be 0 (dynamic) or above"


def _dynamic_scale(raw: dict[str, Any], values: dict[str, Any]) -> Iterator[Case]:
    table = raw.get("fp16")
    for key in ("loss_scale_window", "min_loss_scale"):
        value = table.get(key) if isinstance(table, dict) else None
        if isinstance(value, bool):
            yield ("fp16", key), "it must be a number, not true or false"
            continue
        dynamic = values["fp16.enabled"] and values["fp16.loss_scale"] == 0
        if dynamic and values[f"fp16.{key}"] <= 0:
            yield ("fp16", key), "it must be above 0 with a dynamic loss scale"


def _autocast(raw: dict[str, Any], _: dict[str, Any]) -> Iterator[Case]:
    table = raw.get("torch_autocast")
    if isinstance(table, dict) and "dtype" in table and table["dtype"] not in DTYPES:
        words = "bf16, fp16, fp32 or int8"
        yield ("torch_autocast", "dtype"), f"DeepSpeed knows {words}, and no FP8 here"


def _zero(raw: dict[str, Any], values: dict[str, Any]) -> Iterator[Case]:
    stage = values["zero_optimization.stage"]
    own = "zero_optimization"
    if not values.get(f"{own}.compute_grad_norm", True) and stage not in (1, 2):
        yield (own, "compute_grad_norm"), "false needs stage 1 or 2"
    ratio = values.get(f"{own}.offload_optimizer.ratio")
    if ratio is not None and ratio < 1 and stage != 3:
        yield (own, "offload_optimizer", "ratio"), "a part below 1.0 needs stage 3"
    if values["fp16.fp16_master_weights_and_grads"] and not stage:
        yield ("fp16", "fp16_master_weights_and_grads"), "it needs ZeRO 1, 2 or 3"
    bf16 = "bf16" if raw.get("bf16") is not None else "bfloat16"
    master = values.get(f"{bf16}.bf16_master_weights_and_grads")
    if master and not stage:
        yield (bf16, "bf16_master_weights_and_grads"), "it needs ZeRO 1, 2 or 3"
    elif values.get(f"{bf16}.bf16_optimizer_states") and not (stage and master):
        reason = "it needs ZeRO 1, 2 or 3 and `bf16_master_weights_and_grads`"
        yield (bf16, "bf16_optimizer_states"), reason


def _renamed(raw: dict[str, Any], _: dict[str, Any]) -> Iterator[Case]:
    """A key and the old name for it, which set the same value."""
    table = raw.get("zero_optimization")
    given = table if isinstance(table, dict) else {}
    for old, new in RENAMED.items():
        if old in given and any(given.get(n, "auto") != "auto" for n in new):
            yield ("zero_optimization", old), f"`{new[0]}` replaces it, and is set too"


def _master_weights(_: dict[str, Any], values: dict[str, Any]) -> Iterator[Case]:
    stage = values["zero_optimization.stage"]
    if values["fp16.fp16_master_weights_and_grads"] and stage in (1, 3):
        yield ("fp16", "fp16_master_weights_and_grads"), "it needs ZeRO 2"


def _times(raw: dict[str, Any], _: dict[str, Any]) -> Iterator[Case]:
    value = raw.get("wall_clock_breakdown", False)
    if not isinstance(value, int):
        yield ("wall_clock_breakdown",), "it must be true or false"


def _reduction(raw: dict[str, Any], _: dict[str, Any]) -> Iterator[Case]:
    for key in ("communication_data_type", "seq_parallel_communication_data_type"):
        value = raw.get(key, "fp32")
        known = isinstance(value, str) and value.lower() in ("fp32", "fp16", "bf16")
        if value is not None and not known:
            yield (key,), "it must be fp32, fp16 or bf16"


def _operation(raw: dict[str, Any], values: dict[str, Any]) -> Iterator[Case]:
    key = "gradient_allreduce_op"
    value = str(raw.get(key, "mean")).lower()
    if value not in ("mean", "sum"):
        yield (key,), "it must be mean or sum"
    elif value == "sum" and values["zero_optimization.stage"] == 3:
        yield (key,), "sum does not work with ZeRO 3"
    elif value == "sum" and values.get("compile.deepcompile"):
        yield (key,), "sum does not work with DeepCompile"


def _batch(raw: dict[str, Any], _: dict[str, Any]) -> Iterator[Case]:
    """Batch sizes that are no positive whole numbers; ``"auto"`` is the Trainer's."""
    for key in BATCH:
        value = raw.get(key)
        if value is None or isinstance(value, str):
            continue
        if not isinstance(value, (int, float)) or value <= 0:
            yield (key,), "it must be above 0"


def _checkpoint(raw: dict[str, Any], _: dict[str, Any]) -> Iterator[Case]:
    table = raw.get("checkpoint")
    mode = table.get("tag_validation", "warn") if isinstance(table, dict) else "warn"
    if str(mode).upper() not in ("WARN", "IGNORE", "FAIL"):
        yield ("checkpoint", "tag_validation"), "it must be Warn, Ignore or Fail"


def _kept_modules(raw: dict[str, Any], _: dict[str, Any]) -> Iterator[Case]:
    types = raw.get("data_types")
    kept = types.get("keep_in_fp32_modules", "auto") if isinstance(types, dict) else ""
    names = isinstance(kept, list) and all(isinstance(name, str) for name in kept)
    if kept and kept != "auto" and not names:
        yield ("data_types", "keep_in_fp32_modules"), "it must be a list of names"


Check = Callable[[dict[str, Any], dict[str, Any]], Iterator[Case]]
CHECKS: tuple[Check, ...] = (
    *(_precision, _autocast, _zero, _renamed, _times, _reduction),
    *(_batch, _checkpoint),
)
LATER: tuple[Check, ...] = (_dynamic_scale, _operation, _kept_modules)
"""Checks that 0.19 brought."""
