"""What Megatron-LM itself says of flags, one JSON line each.

``PYTHON -m tools.megatron_lm.judge CHECKOUT < configs.jsonl`` needs a Python with
torch, triton and numpy. An input line holds ``flags`` (the arguments) and
``world_size``. The output adds ``error`` (empty if the arguments are accepted), and if
they are, ``failure`` (empty if the model can be built) and ``fp8``: the number of
layers that have linears of Transformer Engine and run inside of its FP8 autocast.

Arguments go through the parser of ``pretrain_gpt.py``, ``validate_args``,
``TransformerConfig``, the schedule, ``gpt_builder`` and the forward pass of
``TransformerBlock``, without a GPU. GPUs are taken to be Hopper's, and
``CUDA_DEVICE_MAX_CONNECTIONS`` to be as the arguments need it. The model is that of
the last stage (``forward.py``).
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import sys
import tempfile
import warnings
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tools.megatron_lm import te_stand_in
from tools.megatron_lm.forward import fp8_layers, start
from tools.megatron_lm.source import module

HOPPER = 9
SHARDED = ("--use-torch-fsdp2", "--use-megatron-fsdp")
"""With these, connections must not be limited to one; else they must, with TP."""


def main() -> int:
    """Judge the configs on standard input."""
    warnings.simplefilter("ignore")
    package = tempfile.TemporaryDirectory()
    te_stand_in.install(package.name)
    arguments = module(Path(sys.argv[1]))
    arguments.get_device_arch_version = lambda: HOPPER
    logging.disable()
    start()
    before = dict(os.environ)
    for line in sys.stdin:
        config = json.loads(line)
        os.environ.clear()  # Megatron-LM sets variables of Transformer Engine
        os.environ.update(before)
        found: list[Any] = []
        config["error"] = error(arguments, config, found)
        if not config["error"]:
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    config["failure"], config["fp8"] = "", layers(*found)
            except Exception as failed:
                config["failure"] = f"{type(failed).__name__}: {failed}"[:300]
        print(json.dumps(config), flush=True)
    os._exit(0)


def layers(args: Any, config: Any) -> int:
    """Return how many layers of the arguments' model compute in FP8."""
    vars(import_module("megatron.training.global_vars"))["_GLOBAL_ARGS"] = args
    args.padded_vocab_size = 256
    is_first = args.pipeline_model_parallel_size == 1
    builder = import_module("gpt_builders").gpt_builder
    return fp8_layers(config, lambda: builder(args, is_first, True, config=config))


def schedule(args: Any) -> None:
    """Build the schedule of the arguments, whose checks end a run too."""
    vars(import_module("megatron.training.global_vars"))["_GLOBAL_ARGS"] = args
    build = import_module("megatron.training.training").get_optimizer_param_scheduler
    if not args.skip_train:
        build(SimpleNamespace(param_groups=[]))


def error(arguments: Any, config: dict[str, Any], found: list[Any]) -> str:
    """Return why the arguments are refused; empty if they are not.

    Else ``found`` gets the arguments and the config of the model.
    """
    flags = config["flags"]
    alone = any(flag in flags for flag in SHARDED)
    os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "8" if alone else "1"
    os.environ["WORLD_SIZE"] = str(config["world_size"])
    sys.argv = ["pretrain_gpt.py", *flags]
    said = io.StringIO()
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(said),
        ):
            args = arguments.parse_args()
            arguments.validate_args(args)
            found += args, arguments.core_transformer_config_from_args(args)
            schedule(args)
    except SystemExit:
        return f"argparse: {said.getvalue().strip().splitlines()[-1]}"
    except Exception as refused:
        return f"{type(refused).__name__}: {refused}"[:300]
    return ""


if __name__ == "__main__":
    sys.exit(main())
