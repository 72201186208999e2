"""What the ``config.json`` of a model in a local folder says (``shared``).

A trainer's ``model_path`` names the folder, relative to where it runs. A model of the
hub is unknown: nothing is downloaded.
"""

from __future__ import annotations

import json
import os
from typing import Any

from fp8tune.job import Unknown

MAX_BYTES = 1024 * 1024
"""Largest file that is read; configs of models have a few KB."""

EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
"""What model families call the number of experts."""


def local_config(model_path: str) -> dict[str, Any]:
    """The config of a model in a local folder; unknown for one of the hub."""
    path = os.path.join(model_path, "config.json")
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > MAX_BYTES:
            raise Unknown("model.sizes")
        with open(path, encoding="utf-8") as file:
            found = json.loads(file.read(MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        raise Unknown("model.sizes") from None
    if not isinstance(found, dict):
        raise Unknown("model.sizes")
    text = found.get("text_config")  # of models that also see or hear
    return found | text if isinstance(text, dict) else found


def model_family(local_config: dict[str, Any]) -> str:
    """Family of the model, by transformers' name."""
    return str(local_config.get("model_type", ""))


def model_experts(local_config: dict[str, Any]) -> int:
    """Experts per MoE block of the model, 0 for a dense one."""
    found = (local_config.get(name) for name in EXPERTS)
    return next((each for each in found if isinstance(each, int) and each > 0), 0)
