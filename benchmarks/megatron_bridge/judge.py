"""What Megatron-Bridge itself makes of overrides, one JSON line each.

``PYTHON -m benchmarks.megatron_bridge.judge BRIDGE MEGATRON < configs.jsonl`` needs a
Python with torch, triton, hydra-core and omegaconf. An input line holds ``yaml``. The
output adds ``verdicts``, for each mixed precision that a recipe may hold (``BASES``):
``error``, ``skipped`` (keys that were skipped with a warning) and ``fp8`` of the model.

Bridge's own merge of overrides and its mixed precision run, on the config classes of
Megatron-LM. Its recipes and model providers import Transformer Engine, which needs a
GPU: in place of a provider stands ``TransformerConfig``, the class below it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import logging
import re
import sys
import tempfile
import types
import warnings
from pathlib import Path
from typing import Any

from benchmarks.megatron_lm.source import module

PACKAGES = ("megatron.bridge", "megatron.bridge.training", "megatron.bridge.models")
"""Packages whose ``__init__`` imports Transformer Engine: their folders alone."""


BASES = (
    "bf16_mixed",
    "object:bf16_mixed",
    "object:bf16_with_fp8_current_scaling_mixed",
)
"""A recipe holds a name, as most that ship do, or the object itself."""

SKIPPED = r"Key '(\w+)' in overrides not found"


@dataclasses.dataclass
class Container:
    """The parts of Bridge's container over which mixed precision is copied."""

    model: Any
    optimizer: Any
    ddp: Any
    mixed_precision: Any


def main() -> int:
    """Judge the overrides on standard input."""
    warnings.simplefilter("ignore")
    bridge, megatron = map(Path, sys.argv[1:])
    module(megatron)
    import megatron as namespace

    source = bridge / "src" / "megatron"
    namespace.__path__.append(str(source))
    for name in PACKAGES:
        package = types.ModuleType(name)
        package.__path__ = [str(bridge / "src" / name.replace(".", "/"))]
        sys.modules[name] = package
    models: Any = sys.modules["megatron.bridge.models"]
    models.GPTModelProvider = models.T5ModelProvider = object  # annotations alone
    for line in sys.stdin:
        config = json.loads(line)
        with contextlib.redirect_stdout(io.StringIO()):
            config["verdicts"] = [verdict(config["yaml"], base) for base in BASES]
        print(json.dumps(config), flush=True)
    return 0


def verdict(text: str, base: str) -> dict[str, Any]:
    """Return what becomes of one file that is merged into a recipe."""
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    logging.getLogger().handlers = [handler]
    found: dict[str, Any] = {"error": "", "fp8": None}
    try:
        found["fp8"] = set_up(text, base)
    except Exception as refused:
        found["error"] = f"{type(refused).__name__}: {refused}"[:200]
    skipped = set(re.findall(SKIPPED, said.getvalue())) - {"_target_"}
    return {**found, "skipped": sorted(skipped)}


def set_up(text: str, base: str) -> Any:
    """Return the FP8 format of the model; raises what Bridge raises."""
    from megatron.bridge.training import mixed_precision
    from megatron.bridge.training.utils.omegaconf_utils import (
        process_config_with_overrides,
    )
    from megatron.core.distributed import DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig
    from megatron.core.transformer import TransformerConfig

    kind, _, name = base.rpartition(":")
    held = mixed_precision.MIXED_PRECISION_RECIPES[name]() if kind else name
    model = TransformerConfig(num_layers=4, hidden_size=64, num_attention_heads=4)
    parts = OptimizerConfig(), DistributedDataParallelConfig()
    container = Container(model, *parts, held)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        process_config_with_overrides(container, file.name)
    precision = container.mixed_precision
    if isinstance(precision, str):
        precision = mixed_precision.get_mixed_precision_config(precision)
    precision.finalize()
    precision.setup(model, *parts)
    model.__post_init__()
    return model.fp8


if __name__ == "__main__":
    sys.exit(main())
