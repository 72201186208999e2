"""Published gains of whole models by FP8, the best of each engine. No facts.

All are relative to bf16 of the same trainer; torchao's to compiled bf16, with FP8
all-gather if weights are sharded. The full table, with predictions, is in
``docs/accuracy.md``.
"""

from __future__ import annotations

import os.path
import tomllib
from functools import cache
from typing import NamedTuple


class Published(NamedTuple):
    """A published gain [ratio], the model's hidden size, and the run in words."""

    gain: float
    hidden_size: int
    run: str
    source: str


@cache
def table() -> dict[str, tuple[Published, ...]]:
    """The best gains on H100s of each engine by hidden size, smallest first.

    ``elsewhere`` has the only gain of tensorwise FP8 that is published for another GPU,
    by the GPU.
    """
    path = os.path.join(os.path.dirname(__file__), "published.toml")
    with open(path, "rb") as file:
        data = tomllib.load(file)
    return {
        name: tuple(Published(**row) for row in rows) for name, rows in data.items()
    }


def best(engine: str, hidden_size: int) -> Published:
    """The best published gain of an engine for models of a hidden size.

    Between two published sizes it is the larger one's; gains grow with the hidden size.
    """
    rows = table()[engine]
    return next((row for row in rows if row.hidden_size >= hidden_size), rows[-1])


def elsewhere(gpu: str) -> Published | None:
    """The published gain of torchao on a GPU other than Hopper."""
    rows = table().get(f"torchao-{gpu}", ())
    return rows[0] if rows else None
