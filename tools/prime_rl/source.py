"""prime-rl's config classes, imported from a checkout.

They need ``pydantic``, ``prime-pydantic-config``, ``renderers`` and ``verifiers``, and
neither torch nor a GPU.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

RELEASE = "0.8.1.dev67"
COMMIT = "559b44772"
"""What ``pyproject.toml`` of the checkout calls it, and the commit that was read."""

KINDS = {
    "rl": ("prime_rl.configs.rl", "RLConfig"),
    "rl_trainer": ("prime_rl.configs.trainer", "TrainerConfig"),
    "sft": ("prime_rl.configs.sft", "SFTConfig"),
}
"""Kinds of config files: of the commands ``rl``, ``trainer`` and ``sft``."""

ENVIRONMENT = "SingleAgentEnvConfig"
"""Stands for the config of any environment: these are packages of their own."""


def config_class(checkout: Path, kind: str) -> Any:
    """Return the pydantic class of a kind of file."""
    path = str(checkout / "packages" / "prime-rl-configs" / "src")
    if path not in sys.path:
        sys.path.insert(0, path)
    for name in ("PRIME_LOG_LEVEL", "PRIME_VF_LOG_LEVEL"):
        os.environ.pop(name, None)
    module, name = KINDS[kind]
    return vars(import_module(module))[name]
