"""Small configs with mixtures of experts, for ``step_cases.py``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.step_case import TP, VARIANTS, Case, case

MOE = {
    "model.num_experts": 8,
    "model.ffn_hidden_dim": 448,
}

PACKED = MOE | {"model.moe_packed_experts": True}

PADDED: dict[str, tuple[dict[str, Any], int]] = {
    "fsdp6": ({}, 6),
    "fsdp32": ({}, 32),
    "accumulated, fsdp32": (VARIANTS["accumulated"], 32),
    "no AC, fsdp32": (VARIANTS["no AC"], 32),
    "every other block, fsdp32": ({"model.moe_frequency": 2}, 32),
    "ep2 fsdp16": ({"distributed.ep": 2}, 32),
    "accumulated, ep2 fsdp16": (VARIANTS["accumulated"] | {"distributed.ep": 2}, 32),
    "every other block, ep2 fsdp16": (
        {"model.moe_frequency": 2, "distributed.ep": 2},
        32,
    ),
}
"""Packed experts on more shards than there are experts, or no multiple of them."""

FINE = PACKED | {
    "model.num_experts": 64,
    "model.moe_top_k": 6,
    "model.ffn_hidden_dim": 88,
}
SPARSE = PACKED | {
    "model.ffn_hidden_dim": 848,
    "model.moe_frequency": 4,
    "train.seq_len": 256,
}
SPECIAL: dict[str, tuple[dict[str, Any], int]] = {
    "narrow, fsdp8": (FINE, 8),
    "narrow, ep8 fsdp8": (FINE | {"distributed.ep": 8, "train.batch_size": 6}, 64),
    "padded in every fourth block, fsdp64": (
        SPARSE | {"model.n_layers": 8, "train.batch_size": 1},
        64,
    ),
    "padded in every fourth block, selective, ep8 fsdp16": (
        SPARSE
        | VARIANTS["selective AC"]
        | {"distributed.ep": 8, "model.moe_top_k": 1, "train.batch_size": 4},
        128,
    ),
}
"""Experts no wider than the model, and padded ones in few of the blocks."""

ROUTED: dict[str, tuple[dict[str, Any], int]] = {
    "all chosen, fsdp2": (MOE | {"model.num_experts": 4, "model.moe_top_k": 4}, 2),
    "all chosen, no AC, ep2 fsdp2": (
        MOE
        | VARIANTS["no AC"]
        | {
            "model.num_experts": 4,
            "model.moe_top_k": 4,
            "model.ffn_hidden_dim": 64,
            "distributed.ep": 2,
        },
        4,
    ),
    "gelu, few tokens, ep2 fsdp2": (
        PACKED | VARIANTS["gelu"] | {"train.seq_len": 64, "distributed.ep": 2},
        4,
    ),
    "top 1, accumulated thrice, in every fourth block, fsdp8": (
        PACKED
        | {
            "model.n_layers": 8,
            "model.moe_top_k": 1,
            "model.moe_frequency": 4,
            "train.grad_accum_steps": 3,
            "train.seq_len": 64,
        },
        8,
    ),
    "narrow, no AC, in every third block, ep2 fsdp8": (
        FINE
        | VARIANTS["no AC"]
        | {"model.n_layers": 6, "model.moe_frequency": 3, "distributed.ep": 2},
        16,
    ),
    "padded, accumulated thrice, ep4 fsdp32": (
        PACKED
        | {
            "model.moe_shared_experts": 1,
            "train.grad_accum_steps": 3,
            "train.seq_len": 64,
            "distributed.ep": 4,
        },
        128,
    ),
    "QK norm, fsdp8": (PACKED | VARIANTS["QK norm"], 8),
    "QK norm, tp4 ep2 fsdp4": (
        MOE | VARIANTS["QK norm"] | TP | {"distributed.ep": 2},
        32,
    ),
    "layernorm, fsdp8": (PACKED | VARIANTS["layernorm"], 8),
    "few tokens, accumulated, in every third block, fsdp2": (
        PACKED
        | VARIANTS["accumulated"]
        | {
            "model.n_layers": 3,
            "model.moe_frequency": 3,
            "train.batch_size": 1,
            "train.seq_len": 16,
        },
        2,
    ),
    "in one of nine blocks, accumulated, fsdp16": (
        PACKED
        | VARIANTS["accumulated"]
        | {"model.n_layers": 9, "model.moe_frequency": 5},
        16,
    ),
    "narrow, few tokens, ep2 fsdp32": (
        PACKED
        | {
            "model.num_experts": 16,
            "model.ffn_hidden_dim": 64,
            "train.batch_size": 1,
            "train.seq_len": 64,
            "distributed.ep": 2,
        },
        64,
    ),
    "in both of two blocks, fsdp8": (MOE | {"model.n_layers": 2}, 8),
    "in the only block, padded, fsdp32": (PACKED | {"model.n_layers": 1}, 32),
}
"""Other routings, degrees and places."""

MIXED: dict[str, dict[str, Any]] = {
    "gelu": VARIANTS["gelu"],
    "no AC": VARIANTS["no AC"],
    "no AC, few tokens": VARIANTS["no AC"] | {"train.batch_size": 1},
    "packed no AC": VARIANTS["no AC"] | {"model.moe_packed_experts": True},
    "accumulated thrice": {"train.grad_accum_steps": 3},
    "accumulated twice, shared, in every other of three blocks": {
        "model.n_layers": 3,
        "model.num_experts": 2,
        "model.moe_top_k": 2,
        "model.moe_shared_experts": 1,
        "model.moe_frequency": 2,
        "train.batch_size": 4,
        "train.grad_accum_steps": 2,
    },
    "packed accumulated twice, nine layers": {
        "model.n_layers": 9,
        "model.moe_packed_experts": True,
        "train.batch_size": 4,
        "train.grad_accum_steps": 2,
    },
}
"""Experts that compute otherwise, or that FSDP holds copies of."""


def with_experts() -> Iterator[Case]:
    """Mixtures of experts, one tensor each or packed, with and without EP."""
    for name in ("dense", "accumulated", "selective AC", "short"):
        yield case(f"MoE {name}, fsdp8", VARIANTS[name] | MOE, 8)
    more = {"model.num_experts": 16, "model.moe_packed_experts": True}
    yield case("MoE 16 packed, fsdp8", MOE | more, 8)
    for name, (change, gpus) in PADDED.items():
        yield case(f"MoE 8 packed, {name}", PACKED | change, gpus)
    for name, (change, gpus) in (SPECIAL | ROUTED).items():
        yield case(f"MoE {name}", change, gpus)
    mixed = {"model.moe_frequency": 2, "model.moe_shared_experts": 1}
    yield case("MoE every other block, fsdp8", MOE | mixed, 8)
    for name, change in MIXED.items():
        yield case(f"MoE {name}, fsdp8", MOE | change, 8)
    yield case("MoE dense, tp4 fsdp4", MOE | TP, 16)
    for name in ("dense", "selective AC"):
        change = VARIANTS[name] | MOE | TP | {"distributed.ep": 2}
        yield case(f"MoE {name}, tp4 ep2 fsdp4", change, 32)
