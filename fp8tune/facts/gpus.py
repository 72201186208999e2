"""The GPU table: figures with a source each, found by the names users write."""

from __future__ import annotations

import os.path
import tomllib
from functools import cache
from typing import Any, NamedTuple

from fp8tune.job import Unknown


class Gpu(NamedTuple):
    """One GPU model; ``None`` where no source was found."""

    name: str
    title: str
    aliases: tuple[str, ...] = ()
    vendor: str = "nvidia"
    compute_capability: float | None = None
    fp8_matmul: bool | None = None
    memory_gib: float | None = None
    hbm_gb_per_s: float | None = None
    bf16_tflops: float | None = None
    fp8_tflops: float | None = None
    sources: dict[str, str] = {}


class UnknownGpu(Exception):
    """No GPU of that name; ``args`` hold the name and a did-you-mean or ``""``."""


@cache
def table() -> tuple[dict[str, Gpu], dict[str, list[str]]]:
    """Every GPU by name and alias, and the names that mean more than one."""
    path = os.path.join(os.path.dirname(__file__), "gpus.toml")
    with open(path, "rb") as file:
        data: dict[str, Any] = tomllib.load(file)
    found = {}
    for entry in data["gpu"]:
        gpu = Gpu(**entry)
        for name in (gpu.name, *gpu.aliases):
            found[_plain(name)] = gpu
    return found, {_plain(name): which for name, which in data["ambiguous"].items()}


def resolve(name: str) -> str:
    """The table's name for a GPU as a user writes it.

    Raises ``UnknownGpu`` for names that are not in the table, or that mean more
    than one GPU.
    """
    found, ambiguous = table()
    plain = _plain(name)
    if plain in ambiguous:
        raise UnknownGpu(name, " or ".join(ambiguous[plain]))
    if plain in found:
        return found[plain].name
    from fp8tune.suggest import closest

    raise UnknownGpu(name, closest(plain, [*found, *ambiguous]))


def find(name: str) -> Gpu:
    """The GPU of a resolved name; ``Unknown`` if there is none."""
    gpu = table()[0].get(_plain(name))
    if gpu is None:
        raise Unknown("gpu")
    return gpu


def _plain(name: str) -> str:
    words = name.casefold().replace("_", " ").replace("-", " ").split()
    return "-".join(words[1:] if words[:1] in (["nvidia"], ["amd"]) else words)
