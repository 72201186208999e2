"""What Megatron-Bridge itself makes of overrides, one JSON line each.

``PYTHON -m tools.megatron_bridge.judge BRIDGE MEGATRON < configs.jsonl`` needs a
Python with torch, triton, hydra-core and omegaconf. An input line holds ``yaml``. The
output adds ``verdicts``, for each mixed precision that a recipe may hold (``BASES``):
``error``, ``skipped`` (keys that were skipped with a warning), and of the model ``fp8``
(its format) and ``layers`` (how many compute in FP8).

Bridge's own merge of overrides, mixed precision, model provider and model builder run,
without a GPU, and the forward pass of the model that they build
(``tools/megatron_lm/forward.py``). The recipe holds a small model of 32 layers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
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

from tools.megatron_lm import te_stand_in
from tools.megatron_lm.forward import fp8_layers, start
from tools.megatron_lm.source import module

PACKAGES = ("megatron.bridge", "megatron.bridge.training", "megatron.bridge.models")
"""Packages whose ``__init__`` imports all models: their folders alone."""

BASES = (
    "bf16_mixed",
    "object:bf16_mixed",
    "object:bf16_with_fp8_current_scaling_mixed",
    "config:bf16_mixed",
)
"""A recipe holds a name, as most that ship do, or the object itself.

Its model is a ``GPTModelProvider``, or with ``config`` a ``BridgeGPTModelConfig``, as
the recipes of Llama have it.
"""

SIZES = {"num_layers": 32, "hidden_size": 64, "num_attention_heads": 4}
"""The model that the recipe holds."""

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
    folder = tempfile.TemporaryDirectory()
    te_stand_in.install(folder.name)
    module(megatron)
    import megatron as namespace

    source = bridge / "src" / "megatron"
    namespace.__path__.append(str(source))
    for name in PACKAGES:
        package = types.ModuleType(name)
        package.__path__ = [str(bridge / "src" / name.replace(".", "/"))]
        sys.modules[name] = package
    models: Any = sys.modules["megatron.bridge.models"]
    provider = importlib.import_module("megatron.bridge.models.gpt_provider")
    models.GPTModelProvider = provider.GPTModelProvider
    models.T5ModelProvider = object  # an annotation alone
    start()
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
    found: dict[str, Any] = {"error": "", "fp8": None, "layers": 0}
    try:
        model = set_up(text, base)
        found["fp8"] = model.fp8
        found["layers"] = fp8_layers(model, lambda: built(model))
    except Exception as refused:
        found["error"] = f"{type(refused).__name__}: {refused}"[:200]
    skipped = set(re.findall(SKIPPED, said.getvalue())) - {"_target_"}
    return {**found, "skipped": sorted(skipped)}


def built(model: Any) -> Any:
    """Return the model of a provider, or of a config by its builder."""
    from megatron.core.process_groups_config import ProcessGroupCollection

    if hasattr(model, "provide"):
        return model.provide(True, True)
    groups = ProcessGroupCollection.use_mpu_process_groups()
    return model.get_builder_cls()(model).build_model(groups, True, True)


def set_up(text: str, base: str) -> Any:
    """Return the provider or config of the model; raises what Bridge raises."""
    from megatron.bridge.models import GPTModelProvider
    from megatron.bridge.models.gpt.model_config import BridgeGPTModelConfig
    from megatron.bridge.models.transformer_config import TransformerConfig
    from megatron.bridge.training import mixed_precision
    from megatron.bridge.training.utils.omegaconf_utils import (
        process_config_with_overrides,
    )
    from megatron.core.distributed import DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig

    kind, _, name = base.rpartition(":")
    recipe = mixed_precision.MIXED_PRECISION_RECIPES[name]
    held = recipe() if kind == "object" else name
    model = GPTModelProvider(**SIZES, vocab_size=256)
    if kind == "config":
        sizes = TransformerConfig(**SIZES)
        model = BridgeGPTModelConfig(transformer=sizes, vocab_size=256)
    parts = OptimizerConfig(), DistributedDataParallelConfig()
    container = Container(model, *parts, held)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        process_config_with_overrides(container, file.name)
    precision = container.mixed_precision
    if precision is not None:
        if isinstance(precision, str):
            precision = mixed_precision.get_mixed_precision_config(precision)
        precision.finalize()
        precision.setup(model, *parts)
    model.finalize()
    return model


if __name__ == "__main__":
    sys.exit(main())
