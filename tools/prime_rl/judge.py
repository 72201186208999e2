"""What prime-rl's own config classes say of configs, one JSON line each.

``python -m tools.prime_rl.judge CHECKOUT < configs.jsonl`` needs a Python with
what prime-rl-configs requires (``source.py``). An input line holds ``kind`` (``sft``,
``rl``, ``rl_trainer``) and ``toml``. The output adds ``error``: the beginning of what
prime-rl prints, ``""`` if it accepts the config.

The file goes through ``cli`` of prime-pydantic-config, as ``sft @ FILE`` does. Packages
of environments are taken to be installed: any table stands for one.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

from tools.prime_rl.source import KINDS, config_class


def main() -> int:
    """Judge the configs on standard input."""
    checkout = Path(sys.argv[1])
    classes = {kind: config_class(checkout, kind) for kind in KINDS}
    _install_any_environment()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.toml"
        for line in sys.stdin:
            config = json.loads(line)
            path.write_text(config["toml"], encoding="utf-8")
            error = _error(classes[config["kind"]], str(path))
            print(json.dumps(config | {"error": error}), flush=True)
    return 0


def _error(kind: Any, path: str) -> str:
    """Return what the command prints when it reads a file; ``""`` if it starts."""
    cli = import_module("pydantic_config").cli
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            cli(kind, args=["@", path])
    except Exception as error:  # prime-rl lets some of them through
        return " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return ""


def _install_any_environment() -> None:
    """Let any table be the config of an environment, as if its package were there."""
    vf = import_module("verifiers.v1")

    def resolved(data: Any, _: Any = None) -> Any:
        env = data.get("env") if isinstance(data, dict) else None
        if isinstance(env, dict):
            seed = env.get("taskset")
            name = seed.get("id", "") if isinstance(seed, dict) else ""
            taskset = vf.TasksetConfig.model_construct(id=name)
            data["env"] = vf.SingleAgentEnvConfig.model_construct(
                id=env.get("id", ""), taskset=taskset
            )
        return data

    vars(vf)["resolve_env_field"] = resolved


if __name__ == "__main__":
    sys.exit(main())
