"""What prime-rl knows of the models that configs name, from ``models.toml``."""

from __future__ import annotations

from functools import cache
from typing import Any

from fp8tune.trainers.about import read_toml


@cache
def _table() -> dict[str, Any]:
    return read_toml("prime_rl", "models.toml")


def has_renderer(name: str) -> bool:
    """Return whether the package renderers knows how the model writes messages."""
    return name in _table()["renderers"]


def family(name: str) -> dict[str, Any]:
    """Return what holds for a model's family; empty if nothing is known."""
    families = _table()["family"]
    return next((f for f in families if name.startswith(tuple(f["prefixes"]))), {})
