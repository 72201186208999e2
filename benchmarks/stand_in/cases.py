"""The configs that both programs run, and the data that both read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

STEPS = 12
"""Optimizer steps of a run, which are also the horizon of its schedule."""

BASE: dict[str, Any] = {
    "model.dim": 128,
    "model.n_layers": 4,
    "model.n_heads": 4,
    "model.n_kv_heads": 2,
    "model.vocab_size": 512,
    "model.max_seq_len": 128,
    "train.batch_size": 4,
    "train.seq_len": 128,
    "train.max_steps": STEPS,
    "train.compile_model": False,
    "optimizer.lr": 3e-3,
    "scheduler.warmup_steps": 3,
    "data.num_workers": 0,
    "checkpoint.interval": 1000,
    "metrics.log_interval": 1,
}
"""What all cases share: a model of 1 M parameters, whose rate rises and falls."""

ON_GPU = {
    "model.dim": 2048,
    "model.n_layers": 8,
    "model.n_heads": 16,
    "model.n_kv_heads": 8,
    "model.vocab_size": 32000,
    "model.max_seq_len": 2048,
    "train.seq_len": 2048,
}
"""What is larger on a GPU, which the small model would leave waiting for the host."""

FP8 = {"train.mixed_precision": "fp8"}
COMPILED = {"train.compile_model": True}
ACCUMULATED = {"train.batch_size": 2, "train.grad_accum_steps": 2}
MOE = {
    "model.num_experts": 4,
    "model.moe_top_k": 2,
    "model.moe_frequency": 2,
    "model.moe_shared_experts": 1,
}
CHUNKED = {"train.loss_fn": "chunked_cross_entropy", "train.ce_chunk_size": 128}


def ac(mode: str) -> dict[str, Any]:
    """The key of an AC mode."""
    return {"train.activation_checkpointing": mode}


class Case(NamedTuple):
    """A config, as keys beside those of ``BASE``, and its ranks."""

    name: str
    keys: dict[str, Any]
    ranks: int = 1

    def text(self, data: Path, place: Path, device: str) -> str:
        """The config; ``data`` has the shards, ``place`` gets the checkpoints."""
        folders = {"data.dataset_path": str(data), "checkpoint.dir": str(place)}
        gloo = {"distributed.backend": "gloo"}
        more = gloo if device == "cpu" else ON_GPU
        return toml({**BASE, **more, **folders, **self.keys})


CASES = (
    Case("dense bf16", ac("none")),
    Case("dense bf16, selective AC", ac("selective")),
    Case("dense bf16, full AC, qk_norm", {**ac("full"), "model.qk_norm": True}),
    Case(
        "dense bf16, accumulates, tied", {**ACCUMULATED, "model.tie_embeddings": True}
    ),
    Case("dense bf16, compiled", {**ac("none"), **COMPILED}),
    Case("dense FP8", {**FP8, **ac("none")}),
    Case(
        "dense FP8, full AC, accumulates, chunked loss",
        {**FP8, **ac("full"), **ACCUMULATED, **CHUNKED},
    ),
    Case("dense FP8, full AC, compiled", {**FP8, **ac("full"), **COMPILED}),
    Case("MoE bf16", {**MOE, **ac("none")}),
    Case("MoE bf16, full AC, accumulates", {**MOE, **ac("full"), **ACCUMULATED}),
    Case("MoE FP8, selective AC", {**MOE, **FP8, **ac("selective")}),
    Case("dense bf16, 2 ranks, accumulates", {**ac("none"), **ACCUMULATED}, 2),
    Case("dense FP8, full AC, 2 ranks", {**FP8, **ac("full")}, 2),
    Case("MoE bf16, full AC, 4 ranks", {**MOE, **ac("full")}, 4),
    Case("dense FP8, selective AC, 4 ranks", {**FP8, **ac("selective")}, 4),
)
"""What is compared."""


def write_data(place: Path) -> None:
    """Write two shards of tokens with words that repeat, so that losses fall."""
    numpy: Any = import_module("numpy")
    place.mkdir(parents=True)
    source = numpy.random.default_rng(7)
    words = source.integers(0, BASE["model.vocab_size"], (64, 16))
    for name, count in (("a", 1500), ("b", 1031)):
        drawn = source.zipf(1.3, count) % len(words)
        numpy.save(place / f"{name}.npy", words[drawn].reshape(-1).astype("uint16"))


def toml(keys: Mapping[str, Any]) -> str:
    """A config by dotted keys."""
    sections: dict[str, list[str]] = {}
    for key, value in keys.items():
        section, _, name = key.partition(".")
        sections.setdefault(section, []).append(f"{name} = {json.dumps(value)}")
    blocks = ("\n".join((f"[{name}]", *lines)) for name, lines in sections.items())
    return "\n".join(blocks) + "\n"
