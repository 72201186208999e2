"""The small configs whose steps ``step_memory.py`` runs, so that every term shows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple


class Case(NamedTuple):
    """A small config and the number of GPUs it is for."""

    name: str
    config: str
    world_size: int


BASE = {
    "model.dim": 256,
    "model.n_layers": 4,
    "model.n_heads": 16,
    "model.n_kv_heads": 4,
    "model.vocab_size": 2048,
    "model.ffn_hidden_dim": 896,
    "model.max_seq_len": 256,
    "train.batch_size": 2,
    "train.seq_len": 256,
    "train.grad_accum_steps": 1,
    "train.compile_model": False,
    "train.activation_checkpointing": "full",
    "distributed.dp_shard": -1,
}

TP = {"distributed.tp": 4}

FP32 = {"train.mixed_precision": "fp32"}

MOE = {
    "model.num_experts": 8,
    "model.ffn_hidden_dim": 448,
}

VLM = {
    "vision_encoder.type": "random",
    "vision_encoder.num_tokens": 64,
    "vision_encoder.feature_dim": 64,
    "vlm.max_text_len": 128,
    "train.seq_len": 192,
}

VARIANTS: dict[str, dict[str, Any]] = {
    "dense": {},
    "accumulated": {"train.grad_accum_steps": 2},
    "short": {"train.seq_len": 64},
    "deep": {"model.n_layers": 12, "train.grad_accum_steps": 2},
    "wide FFN": {"model.ffn_hidden_dim": 2048},
    "small vocabulary": {"model.vocab_size": 256},
    "large vocabulary": {"model.vocab_size": 8192},
    "no AC": {"train.activation_checkpointing": "none"},
    "selective AC": {"train.activation_checkpointing": "selective"},
    "multi-head": {"model.n_kv_heads": 16},
    "gelu": {"model.activation": "gelu"},
    "gelu no AC": {
        "model.activation": "gelu",
        "train.activation_checkpointing": "none",
    },
    "gelu selective AC": {
        "model.activation": "gelu",
        "train.activation_checkpointing": "selective",
    },
    "layernorm": {"model.norm_type": "layernorm"},
    "QK norm": {"model.qk_norm": True},
    "tied": {"model.tie_embeddings": True},
    "chunked": {"train.loss_fn": "chunked_cross_entropy", "train.ce_chunk_size": 256},
    "z-loss": {"train.z_loss_weight": 1e-4},
    "chunked z-loss": {
        "train.loss_fn": "chunked_cross_entropy",
        "train.ce_chunk_size": 256,
        "train.z_loss_weight": 1e-4,
    },
    "lion": {"optimizer.name": "lion"},
    "muon": {"optimizer.name": "muon"},
    "schedule-free": {"optimizer.name": "schedule_free_adamw"},
    "unfused": {"optimizer.fused": False},
}

FEW = {"model.vocab_size": 8192, "train.batch_size": 1, "train.seq_len": 64}
"""Few tokens against the vocabulary: embedding and head are the peak."""

FEW_TOKENS: dict[str, tuple[dict[str, Any], int]] = {
    "fsdp8": ({}, 8),
    "fsdp2": ({}, 2),
    "tp2 fsdp2": ({"distributed.tp": 2}, 4),
    "tp4": (TP, 4),
    "accumulated, fsdp2": (VARIANTS["accumulated"], 2),
    "accumulated thrice, fsdp8": ({"train.grad_accum_steps": 3}, 8),
    "tied, fsdp8": (VARIANTS["tied"], 8),
    "no AC, fsdp8": (VARIANTS["no AC"], 8),
    "fp32, fsdp8": (FP32, 8),
    "adamw, one GPU": ({}, 1),
    "lion, one GPU": (VARIANTS["lion"], 1),
    "schedule-free, one GPU": (VARIANTS["schedule-free"], 1),
    "tied lion, one GPU": (VARIANTS["tied"] | VARIANTS["lion"], 1),
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
}
"""Experts that compute otherwise, or that FSDP holds copies of."""

MUON: tuple[tuple[str, dict[str, Any], int], ...] = (
    ("muon, one GPU", {}, 1),
    ("muon beside AdamW, one GPU", {"model.vocab_size": 4096}, 1),
    ("muon packed experts, one GPU", PACKED, 1),
    ("muon packed experts, few tokens, one GPU", PACKED | FEW, 1),
    ("muon wide FFN, one GPU", {"model.ffn_hidden_dim": 3072}, 1),
    ("muon, fsdp2", {}, 2),
    ("muon, tp4", TP, 4),
    ("fp32 muon, one GPU", FP32, 1),
)
"""With few shards, so that its products are large."""

IN_TP = (
    "dense",
    "accumulated",
    "no AC",
    "selective AC",
    "gelu no AC",
    "gelu selective AC",
    "short",
    "tied",
)

IN_FP32 = (
    "dense",
    "accumulated",
    "short",
    "no AC",
    "selective AC",
    "gelu no AC",
    "large vocabulary",
    "chunked",
    "z-loss",
    "lion",
    "muon",
)


def cases() -> Iterator[Case]:
    """Every variant under FSDP, those that differ there under TP, then the rest."""
    for name, change in VARIANTS.items():
        yield case(f"{name}, fsdp8", change, 8)
    for name in IN_TP:
        yield case(f"{name}, tp4 fsdp8", VARIANTS[name] | TP, 32)
    for name in ("dense", "selective AC", "no AC", "chunked"):
        yield case(f"{name}, tp2 fsdp8", VARIANTS[name] | {"distributed.tp": 2}, 16)
    yield case("accumulated, tp4", VARIANTS["accumulated"] | TP, 4)
    yield case("dense, one GPU", {}, 1)
    yield case("accumulated, one GPU", VARIANTS["accumulated"], 1)
    yield from with_experts()
    for arch in ("joint_decoder", "cross_attention", "mot"):
        for ac in ("none", "full"):
            change = VLM | {"vlm.arch": arch, "train.activation_checkpointing": ac}
            if arch == "cross_attention":
                change |= {"train.seq_len": 128}
            yield case(f"{arch} AC {ac}, fsdp4", change, 4)
    for ga in (2, 4):
        change = TP | {"distributed.pp": 2, "train.grad_accum_steps": ga}
        yield case(f"first of 2 stages, {ga} micro-batches, tp4 fsdp4", change, 32)
    yield from in_other_precisions()
    yield from beside_activations()


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


def in_other_precisions() -> Iterator[Case]:
    """The same in fp32, where gradients and gathered weights differ, and fp16."""
    for name in IN_FP32:
        yield case(f"fp32 {name}, fsdp8", VARIANTS[name] | FP32, 8)
    for name in ("dense", "accumulated", "no AC", "selective AC"):
        yield case(f"fp32 {name}, tp4 fsdp8", VARIANTS[name] | TP | FP32, 32)
    for name in ("dense", "accumulated"):
        yield case(f"fp32 {name}, one GPU", VARIANTS[name] | FP32, 1)
    for arch in ("joint_decoder", "cross_attention", "mot"):
        change = VLM | FP32 | {"vlm.arch": arch}
        yield case(f"fp32 {arch} AC full, fsdp4", change, 4)
    stages = TP | FP32 | {"distributed.pp": 2, "train.grad_accum_steps": 4}
    name = "fp32 first of 2 stages, 4 micro-batches, tp4 fsdp4"
    yield case(name, stages, 32)
    yield case("fp16 dense, fsdp8", {"train.mixed_precision": "fp16"}, 8)


def beside_activations() -> Iterator[Case]:
    """Where embedding and head, or the optimizer's step, are the peak."""
    for name, (change, gpus) in FEW_TOKENS.items():
        yield case(f"few tokens, {name}", FEW | change, gpus)
    for name, change, gpus in MUON:
        yield case(name, VARIANTS["muon"] | change, gpus)


def case(name: str, change: dict[str, Any], world_size: int) -> Case:
    """The base config with some keys changed, as TOML."""
    tables: dict[str, dict[str, Any]] = {}
    for key, value in (BASE | change).items():
        section, _, name_in_it = key.partition(".")
        tables.setdefault(section, {})[name_in_it] = value
    text = "".join(
        f"[{section}]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in keys.items())
        for section, keys in tables.items()
    )
    return Case(name, text, world_size)
