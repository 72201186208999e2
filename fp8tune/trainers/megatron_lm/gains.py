"""Whether FP8 pays with Megatron: where it cannot, and what was published.

Too few runs in both precisions are published with all their settings to fit a model of
Transformer Engine's speed to them, so the verdict is open where FP8 can run.
"""

from __future__ import annotations

import tomllib
from functools import cache
from typing import Any

from fp8tune.job import Unknown, Words
from fp8tune.trainers.about import path_of


@cache
def _published() -> dict[str, Any]:
    with open(path_of("megatron_lm", "gains.toml"), "rb") as file:
        return tomllib.load(file)


def fp8_tp_refused() -> bool:
    """Whether FP8 is refused with tensor parallelism: never."""
    return False


def attention_passes() -> float:
    """Forward passes that attention costs: no speed was fitted to this trainer."""
    raise Unknown("speed.pairs")


def gemms() -> tuple[()]:
    """The linears: unknown for the same reason."""
    raise Unknown("speed.pairs")


def fp8_against(fp8_obstacle: str, local_layers: bool, half_precision: bool) -> str:
    """Why FP8 cannot pay; empty if it may."""
    if fp8_obstacle or not local_layers:
        slow = "without bf16 all but the FP8 GEMMs runs in fp32: slower than bf16 alone"
        return fp8_obstacle or Words("" if half_precision else slow)
    return Words("Megatron's own layers have no FP8")


def fp8_pays(fp8_against: str) -> str:
    """Whether FP8 is worth it: "no" where it cannot be, else unknown."""
    if fp8_against:
        return Words("no")
    raise Unknown("speed.pairs")


def fp8_reasons(fp8_against: str, experts: int) -> list[str]:
    """Why FP8 does not pay, or what was published of models of this kind."""
    if fp8_against:
        return [fp8_against]
    pairs = [
        f"published: {row['run']}: {_gain(row):.2f} times bf16 ({row['source']})"
        for row in _published()["pair"]
        if row["experts"] == bool(experts)
    ]
    reports = [
        f"{row['says']} ({row['source']})"
        for row in _published()["report"]
        if row["experts"] == bool(experts)
    ]
    return [Words(text) for text in (*pairs, *reports)]


def _gain(row: dict[str, Any]) -> float:
    """Speed in FP8 relative to bf16 of a published pair [ratio]."""
    if "seconds" in row:
        return float(row["seconds"]["bf16"] / row["seconds"]["fp8"])
    return float(row["tokens"]["fp8"] / row["tokens"]["bf16"])
