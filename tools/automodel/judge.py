"""What NeMo Automodel itself makes of recipes, one JSON line each.

``PYTHON -m tools.automodel.judge RELEASE < configs.jsonl`` needs a Python with
torch, torchao, PyYAML and what the config classes import; RELEASE is the folder of a
checkout or of an unpacked wheel. An input line holds ``yaml``. The output adds
``version``, ``error`` (empty if nothing is refused), ``fp8`` (how many linears of a
model of four became Float8Linear) and ``compiled``.

What runs is the set-up of TrainFinetuneRecipeForNextTokenPrediction as far as it
concerns the file's switches: the YAML reader, the config classes of ``distributed``,
``checkpoint`` and ``step_scheduler``, the conversion of the linears, and the choice of
what is compiled. GPUs are taken to have FP8. Not run: the model of the recipe, data,
process groups.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
import tempfile
from importlib import import_module
from typing import Any

HOPPER = (9, 0)


def main() -> int:
    """Judge the recipes on standard input."""
    sys.path.insert(0, sys.argv[1])
    logging.disable(logging.CRITICAL)
    with contextlib.redirect_stdout(sys.stderr):
        about: Any = import_module("nemo_automodel.package_info")
        fp8: Any = import_module("nemo_automodel.components.quantization.fp8")
    fp8._has_cuda_capability = lambda *least: least <= HOPPER
    for line in sys.stdin:
        config = json.loads(line)
        quiet = io.StringIO()
        with contextlib.redirect_stderr(quiet), contextlib.redirect_stdout(quiet):
            config |= verdict(config["yaml"])
        config["version"] = about.__version__
        print(json.dumps(config), flush=True)
    return 0


def verdict(text: str) -> dict[str, Any]:
    """Return what becomes of one recipe."""
    try:
        return set_up(text)
    except Exception as refused:
        error = f"{type(refused).__name__}: {refused}"[:300]
        return {"error": error, "fp8": 0, "compiled": None}


def set_up(text: str) -> dict[str, Any]:
    """Return FP8 linears and what is compiled; raises what Automodel raises."""
    import torch
    from nemo_automodel.components.config.loader import load_yaml_config
    from nemo_automodel.components.quantization.fp8 import (
        apply_fp8_to_model,
        build_fp8_config,
    )
    from nemo_automodel.components.utils.compile_utils import build_compile_config
    from nemo_automodel.recipes._dist_utils import parse_distributed_section
    from nemo_automodel.recipes._typed_config import RecipeConfig
    from torchao.float8.float8_linear import Float8Linear

    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        cfg = RecipeConfig(load_yaml_config(file.name))
    section = cfg.get("distributed", None)
    parsed = parse_distributed_section(section.to_dict() if section else {})
    _ = cfg.step_scheduler, cfg.checkpoint
    model: Any = torch.nn.Module()
    model.layers = torch.nn.ModuleList(
        torch.nn.ModuleDict(
            {"q_proj": torch.nn.Linear(64, 64), "up_proj": torch.nn.Linear(64, 128)}
        )
        for _ in range(2)
    )
    model.lm_head = torch.nn.Linear(64, 256)
    asked = cfg.get("fp8", None)
    if asked is not None:
        model = apply_fp8_to_model(model, config=build_fp8_config(asked))
    converted = sum(isinstance(each, Float8Linear) for each in model.modules())
    compiles = build_compile_config(cfg.get("compile", None)).enabled
    strategy = parsed["strategy_config"]
    fsdp2 = type(strategy).__name__ == "FSDP2Config"
    whole = bool(compiles) and not fsdp2
    layers = fsdp2 and bool(
        strategy.enable_compile
        or (strategy.enable_async_tensor_parallel and parsed["tp_size"] > 1)
    )
    return {"error": "", "fp8": converted, "compiled": whole or layers}


if __name__ == "__main__":
    sys.exit(main())
