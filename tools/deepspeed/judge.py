"""What DeepSpeed itself says of configs: JSON lines in, the same with ``error`` out.

``TRAINER_PYTHON -m tools.deepspeed.judge < configs.jsonl`` needs ``deepspeed``.
Each config is written to a file and read by ``DeepSpeedConfig`` on the number of
data-parallel ranks that ``world`` gives. Model parallelism may take some of these, and
0 says that their number is unknown: a config is refused if it is refused on every
number of ranks that is left.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import warnings
from importlib import import_module
from typing import Any

ABOUT_BATCH = ("batch", "accumulation", "zerodivision")
"""Words of errors that depend on the number of ranks."""

MOST = 1200
"""Most ranks that are tried where their number is unknown."""


def main() -> int:
    """Judge the configs on standard input."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    module: Any = import_module("deepspeed.runtime.config")
    release = import_module("deepspeed").__version__
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ds.json")
        for line in sys.stdin:
            config = json.loads(line)
            with open(path, "w", encoding="utf-8") as file:
                file.write(config["json"])
            error = verdict(module, path, config["world"])
            told = {"release": release, "error": error}
            print(json.dumps(config | told), flush=True)
    return 0


def verdict(module: Any, path: str, world: int) -> str:
    """Return DeepSpeed's error for a file; ``""`` if it starts on some ranks."""
    numbers = range(1, (world or MOST) + 1)
    found = ""
    for ranks in reversed([n for n in numbers if not world or world % n == 0]):
        error = _error(module, path, ranks)
        if not error:
            return ""
        found = found or error
        if not any(word in error.lower() for word in ABOUT_BATCH):
            return error
    return found


def _error(module: Any, path: str, ranks: int) -> str:
    module.dist.get_rank = lambda *_: 0
    module.dist.get_world_size = lambda *_: ranks
    try:
        module.DeepSpeedConfig(path)
    except Exception as error:  # whatever ends the run
        return " ".join(f"{type(error).__name__}: {error}".split())[:200]
    return ""


if __name__ == "__main__":
    sys.exit(main())
