"""Pipeline stages of Megatron: layers, tables and micro-batches of the first and last.

Source: megatron/core/pipeline_parallel/schedules.py and
core/transformer/transformer_block.py at d98e8a64d.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from fp8tune.job import Unknown, ranks_left

MOST_LAYERS = 10_000
"""No pattern of more layers is read."""

REPEATED = re.compile(r"\[([01](?:,[01])*)\](?:\*(\d{1,5}))?")
"""A list of 0 and 1 in a pattern of layers, and how often it is repeated."""


class Stage(NamedTuple):
    """One pipeline stage.

    ``dense`` and ``moe`` are its layers without and with experts, ``bf16_layers`` those
    that FP8 leaves out. ``in_flight`` micro-batches have activations at its peak, and
    ``tables`` matrices of the vocabulary's size are its own.
    """

    name: str
    dense: float
    moe: float
    bf16_layers: float
    in_flight: float
    tables: int
    positions: bool
    last: bool

    @property
    def layers(self) -> float:
        """All its layers."""
        return self.dense + self.moe


def moe_pattern(layers: int, experts: int, moe_layer_freq: Any) -> list[int]:
    """1 for each layer with experts, 0 for each other one.

    ``moe_layer_freq`` is every how many layers, or lists of 0 and 1 with ``*`` and
    ``+``. Unknown for any other expression, which only Python can compute.
    """
    if layers > MOST_LAYERS:
        raise Unknown("moe_layer_freq")
    if not experts:
        return [0] * layers
    text = re.sub(r"[\s()]", "", str(moe_layer_freq))
    if text.isdigit() and int(text):
        return [int(layer % int(text) == 0) for layer in range(layers)]
    parts = [REPEATED.fullmatch(part) for part in text.split("+")]
    found: list[int] = []
    for part in parts:
        if part is None or len(found) > layers:
            raise Unknown("moe_layer_freq")
        one = [int(word) for word in part[1].split(",")]
        found += one * min(int(part[2] or 1), MOST_LAYERS)
    if len(found) != layers:
        raise Unknown("moe_layer_freq")
    return found


def dense_ffn_layers(moe_pattern: list[int]) -> int:
    """Layers with a dense FFN."""
    return len(moe_pattern) - sum(moe_pattern)


def stage_layers(layers: int, pp: int, end_layers: tuple[int, int]) -> int:
    """Layers of the first stage."""
    return end_layers[0] or _evenly(layers, pp, end_layers)


def last_stage_layers(layers: int, pp: int, end_layers: tuple[int, int]) -> int:
    """Layers of the last stage."""
    return end_layers[1] or _evenly(layers, pp, end_layers)


def _evenly(layers: int, pp: int, ends: tuple[int, int]) -> int:
    """Layers of each stage whose number no flag gives."""
    stages = pp - sum(map(bool, ends))
    each, rest = divmod(layers - sum(ends), stages) if stages > 0 else (0, 1)
    if rest or each < 1:
        raise Unknown("stage_layers")
    return each


def in_flight(pp: int, virtual_stages: int, grad_accum: int) -> float:
    """Micro-batches with activations on the first stage, 1F1B or interleaved."""
    chunks = pp if virtual_stages == 1 else (virtual_stages + 1) * pp - 1
    return min(grad_accum * virtual_stages, chunks) / virtual_stages


def last_in_flight(pp: int, virtual_stages: int, grad_accum: int) -> float:
    """The same on the last stage: one, or one of its last chunk and all of others."""
    chunks = (virtual_stages - 1) * pp + 1
    return min(grad_accum * virtual_stages, chunks) / virtual_stages


def stages(
    pp: int,
    virtual_stages: int,
    stage_layers: int,
    last_stage_layers: int,
    in_flight: float,
    last_in_flight: float,
    moe_pattern: list[int],
    tied_embeddings: bool,
    learned_positions: bool,
    bf16_ends: tuple[int, int],
) -> tuple[Stage, ...]:
    """The first and the last stage; one if there is no pipeline.

    Interleaved stages have layers from all parts of the model: of experts their share.
    """
    share = sum(moe_pattern) / len(moe_pattern)

    def stage(name: str, part: list[int], **rest: Any) -> Stage:
        moe = sum(part) if virtual_stages == 1 else share * len(part)
        return Stage(name, len(part) - moe, moe, **rest)

    first = moe_pattern[:stage_layers]
    if pp == 1:
        tables = 1 if tied_embeddings else 2
        whole = stage(
            "",
            first,
            bf16_layers=sum(bf16_ends),
            in_flight=in_flight,
            tables=tables,
            positions=learned_positions,
            last=True,
        )
        return (whole,)
    return (
        stage(
            "first",
            first,
            bf16_layers=bf16_ends[0],
            in_flight=in_flight,
            tables=1,
            positions=learned_positions,
            last=False,
        ),
        stage(
            "last",
            moe_pattern[-last_stage_layers:],
            bf16_layers=bf16_ends[1],
            in_flight=last_in_flight,
            tables=1,
            positions=False,
            last=True,
        ),
    )


def dp_ranks(tp: int, pp: int, cp: int, world_size: int) -> int:
    """Data-parallel ranks: all GPUs that the other degrees leave."""
    return ranks_left(world_size, tp, pp, cp)


def dp_replicate() -> int:
    """Replicas of a sharded group: none, data-parallel ranks are one group."""
    return 1


def dp_shard(dp_ranks: int) -> int:
    """Ranks that share what is sharded: all data-parallel ones."""
    return dp_ranks


def expert_ranks(etp: int, ep: int, pp: int, world_size: int) -> int:
    """Data-parallel ranks of the experts, which share one copy of them."""
    return ranks_left(world_size, etp, ep, pp)
