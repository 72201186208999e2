"""Let KempnerForge's own loader and validator judge configs on standard input.

``TRAINER_PYTHON -m tools.kempnerforge.judge CHECKOUT`` needs what the trainer needs.
"""

from __future__ import annotations

import importlib
import json
import logging
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path


def main() -> int:
    """Judge the configs on standard input."""
    verdict = trainer_verdict(Path(sys.argv[1]))
    for line in sys.stdin:
        case = json.loads(line)
        arguments = case.get("arguments", ())
        message = verdict(case["toml"], case["world_size"], arguments)
        case |= {"verdict": "reject" if message else "accept", "message": message}
        print(json.dumps(case), flush=True)
    return 0


def trainer_verdict(checkout: Path) -> Callable[..., str]:
    """Return a function from text, GPUs and overrides to the refusal, or ``""``."""
    sys.path.insert(0, str(checkout))
    logging.disable(logging.CRITICAL)
    loader = importlib.import_module("kempnerforge.config.loader")
    path = Path(tempfile.mkdtemp()) / "config.toml"

    def verdict(text: str, world_size: int, arguments: Sequence[str] = ()) -> str:
        path.write_text(text, encoding="utf-8")
        try:
            loader.load_config(path, cli_args=[*arguments]).validate(world_size)
        except Exception as error:  # any exception is a refusal
            return f"{type(error).__name__}: {error}"
        return ""

    return verdict


if __name__ == "__main__":
    sys.exit(main())
