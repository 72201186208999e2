"""Common claims about FP8 training, and what is known (``myths.toml``)."""

from __future__ import annotations

import os.path
import tomllib
from functools import cache
from typing import NamedTuple


class Myth(NamedTuple):
    """One common claim; ``myths.toml`` explains the fields."""

    name: str
    claim: str
    verdict: str
    answer: str
    about: list[str]
    sources: list[str]


@cache
def myths() -> tuple[Myth, ...]:
    """Return all myths, in the order of the file."""
    path = os.path.join(os.path.dirname(__file__), "myths.toml")
    with open(path, "rb") as file:
        entries = tomllib.load(file)["myth"]
    return tuple(Myth(**entry) for entry in entries)


def about(*names: str) -> list[Myth]:
    """Return the myths that belong to any of the names."""
    return [myth for myth in myths() if not set(names).isdisjoint(myth.about)]
