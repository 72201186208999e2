"""The models that a release builds, from ``models.toml``."""

from __future__ import annotations

from functools import cache
from typing import Any

from fp8tune.trainers.about import is_of, read_toml

DECODERS = ("llama3", "llama3_ft", "llama4", "qwen3", "deepseek_v3", "gpt_oss")
"""Models that are sharded by the same steps: what these check is known."""


@cache
def _table() -> dict[str, Any]:
    return read_toml("torchtitan", "models.toml")


def names(version: str) -> dict[str, bool]:
    """Return what ``model.name`` may be, and whether it can be split into stages."""
    return {
        model["name"]: model.get("pipeline", True)
        for model in _table()["model"]
        if is_of(model, version)
    }


def flavors(version: str, model: str) -> dict[str, dict[str, Any]]:
    """Return the sizes of each flavor of a model; empty if they are not known."""
    return {
        flavor["name"]: flavor
        for flavor in _table()["flavor"]
        if flavor["model"] == model and is_of(flavor, version)
    }
