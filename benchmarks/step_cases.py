"""The small configs whose steps ``step_memory.py`` runs, so that every term shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.step_case import FEW, FP32, TP, VARIANTS, Case, case
from benchmarks.step_experts import PACKED, with_experts

VLM = {
    "vision_encoder.type": "random",
    "vision_encoder.num_tokens": 64,
    "vision_encoder.feature_dim": 64,
    "vlm.max_text_len": 128,
    "train.seq_len": 192,
}

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

MANY = {
    "model.dim": 512,
    "model.n_kv_heads": 16,
    "model.vocab_size": 512,
    "model.ffn_hidden_dim": 1408,
    "train.batch_size": 24,
}
NARROW = {"model.ffn_hidden_dim": 512}
TIED = VARIANTS["tied"]

MANY_TOKENS: dict[str, tuple[dict[str, Any], int]] = {
    "fsdp2": ({}, 2),
    "gelu, narrow FFN, fsdp2": (VARIANTS["gelu"] | NARROW, 2),
    "accumulated, fsdp2": (VARIANTS["accumulated"], 2),
    "one GPU": ({}, 1),
    "tied, tp2 fsdp2": (TIED | {"distributed.tp": 2}, 4),
    "tied, tp4 fsdp2": (TIED | TP, 8),
    "wide FFN, tp2 fsdp2": ({"distributed.tp": 2, "model.ffn_hidden_dim": 3072}, 4),
    "tp8 fsdp2": ({"distributed.tp": 8}, 16),
    "narrow FFN, tp8 fsdp2": (NARROW | {"distributed.tp": 8}, 16),
    "no AC, gelu, narrow FFN, fsdp2": (VARIANTS["gelu no AC"] | NARROW, 2),
    "no AC, tp2 fsdp2": (VARIANTS["no AC"] | {"distributed.tp": 2}, 4),
    "no AC, tied, tp4 fsdp2": (VARIANTS["no AC"] | TIED | TP, 8),
}

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
    """Where embedding and head, one block or the optimizer's step is the peak."""
    for name, (change, gpus) in FEW_TOKENS.items():
        yield case(f"few tokens, {name}", FEW | change, gpus)
    for name, (change, gpus) in MANY_TOKENS.items():
        yield case(f"many tokens, {name}", MANY | change, gpus)
    for name, change, gpus in MUON:
        yield case(name, VARIANTS["muon"] | change, gpus)
