"""What the ``config.json`` of a model says (``shared``).

A ``model_path`` names a local folder, relative to where the trainer runs, or a model of
the hub. Nothing is downloaded: ``hub_models.toml`` knows some of the hub's models.
"""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any

from fp8tune.job import Unknown
from fp8tune.trainers.about import path_of

MAX_BYTES = 1024 * 1024
"""Largest file that is read; configs of models have a few KB."""

EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
"""What model families call the number of experts."""


def local_config(model_path: str) -> dict[str, Any]:
    """The config of a model in a local folder, or of a known one of the hub."""
    if published := _published().get(model_path):
        return published
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


@cache
def _published() -> dict[str, dict[str, Any]]:
    """Return the known models of the hub by their names."""
    import tomllib

    with open(path_of("hub_models.toml"), "rb") as file:
        models = tomllib.load(file)["model"]
    return {name: model for model in models for name in model["names"]}


def model_family(local_config: dict[str, Any]) -> str:
    """Family of the model, by transformers' name."""
    return str(local_config.get("model_type", ""))


def model_experts(local_config: dict[str, Any]) -> int:
    """Experts per MoE block of the model, 0 for a dense one."""
    found = (local_config.get(name) for name in EXPERTS)
    return next((each for each in found if isinstance(each, int) and each > 0), 0)
