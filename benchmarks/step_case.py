"""A small config of the trainer, and the ways in which it is varied."""

from __future__ import annotations

import json
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
