"""What Megatron-LM itself says of flags, one JSON line each.

``PYTHON -m benchmarks.megatron_lm.judge CHECKOUT < configs.jsonl`` needs a Python with
torch, triton and numpy. An input line holds ``flags`` (the arguments) and
``world_size``. The output adds ``error`` (empty if the arguments are accepted).

Arguments go through the parser of ``pretrain_gpt.py``, ``validate_args`` and
``TransformerConfig``, without a GPU. GPUs are taken to be Hopper's, and
``CUDA_DEVICE_MAX_CONNECTIONS`` to be as the arguments need it. Transformer Engine is
not installed: what asks for its version says so in ``error``, and is counted apart.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

from benchmarks.megatron_lm.source import module

HOPPER = 9
SHARDED = ("--use-torch-fsdp2", "--use-megatron-fsdp")
"""With these, connections must not be limited to one; else they must, with TP."""


def main() -> int:
    """Judge the configs on standard input."""
    warnings.simplefilter("ignore")
    arguments = module(Path(sys.argv[1]))
    arguments.get_device_arch_version = lambda: HOPPER
    for line in sys.stdin:
        config = json.loads(line)
        config["error"] = error(arguments, config)
        print(json.dumps(config), flush=True)
    return 0


def error(arguments: Any, config: dict[str, Any]) -> str:
    """Return why the arguments are refused; empty if they are not."""
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
            arguments.core_transformer_config_from_args(args)
    except SystemExit:
        return f"argparse: {said.getvalue().strip().splitlines()[-1]}"
    except Exception as refused:
        return f"{type(refused).__name__}: {refused}"[:300]
    return ""


if __name__ == "__main__":
    sys.exit(main())
