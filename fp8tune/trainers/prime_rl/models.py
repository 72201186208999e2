"""What prime-rl knows of the models that configs name, from ``models.toml``."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _table() -> dict[str, Any]:
    path = Path(__file__).parent / "models.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def has_renderer(name: str) -> bool:
    """Return whether the package renderers knows how the model writes messages."""
    return name in _table()["renderers"]


def family(name: str) -> dict[str, Any]:
    """Return what holds for a model's family; empty if nothing is known."""
    families = _table()["family"]
    return next((f for f in families if name.startswith(tuple(f["prefixes"]))), {})
