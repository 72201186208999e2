"""Peak memory of two training steps of KempnerForge, phase by phase, on the CPU.

Runs the trainer's own model, FSDP2, tensor and expert parallelism, checkpointing,
loss and optimizer for rank 0 of any world size: collectives go to torch's fake
process group, which allocates what NCCL would and moves nothing. Shapes are small,
so that every term of the memory model can be told from the others. The recorded
peaks are what the facts ``memory.*`` are checked against; that they are true of a
GPU too is shown by the H200 runs of ``docs/accuracy.md``.

What a GPU does differently: compiled blocks (not run here) keep and recompute less,
and an attention kernel may return its output in another layout (2 bytes per token
and hidden unit).
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import machine
from benchmarks.activation_bytes import describe
from benchmarks.fake_mesh import build_mesh, collapse_routing
from benchmarks.options import for_checkout
from benchmarks.process import RESULTS
from benchmarks.train_steps import pipeline_steps, plain_steps

PHASES = ("init", "forward", "loss", "backward", "optimizer")


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


def main(arguments: list[str] | None = None) -> int:
    """Run all cases, print their peaks and save them."""
    parser = for_checkout("step_memory", __doc__)
    parser.add_argument(
        "--only",
        default="",
        help="cases whose name has this in it; the others stay as recorded",
    )
    parser.add_argument("--output", type=Path, default=RESULTS / "step_memory.json")
    options = parser.parse_args(arguments)
    chosen = [case for case in cases() if options.only in case.name]
    rows = [
        {**case._asdict(), "peaks": peaks}
        for case, peaks in measured(options.checkout, chosen)
    ]
    environment = describe(options.checkout, options.commit, "cpu")
    print("\n".join(f"- {key}: {value}" for key, value in environment.items()))
    print(f"\n{show(rows)}")
    if options.only and options.output.exists():
        rows = together(json.loads(options.output.read_text())["cases"], rows)
    data = {"environment": environment, "cases": rows}
    options.output.write_text(json.dumps(data, indent=1) + "\n")
    return 0


def together(
    recorded: list[dict[str, Any]], new: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The cases that are still asked for, as measured last."""
    rows = {row["name"]: row for row in recorded + new}
    return [rows[case.name] for case in cases() if case.name in rows]


def measured(checkout: Path, chosen: list[Case]) -> Iterator[tuple[Case, Any]]:
    """Run the cases; those with a mesh of several dimensions in fresh processes."""
    work = partial(run, checkout)
    meshed = [case for case in chosen if "tp" in case.name or "ep2" in case.name]
    flat = [case for case in chosen if case not in meshed]
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for group, size in ((flat, 64), (meshed, 1)):
            for case, peaks in zip(group, pool.imap(work, group, size), strict=True):
                print(case.name, peaks, file=sys.stderr, flush=True)
                yield case, peaks


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


def run(checkout: Path, case: Case) -> dict[str, int]:
    """The most bytes alive in each phase of two steps."""
    sys.path.append(str(checkout))
    logging.disable(logging.WARNING)
    torch: Any = import_module("torch")
    loader: Any = import_module("kempnerforge.config.loader")
    live: Any = import_module("benchmarks.live_bytes").LiveBytes()
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(case.config)
        file.flush()
        config = loader.load_config(file.name, cli_args=[])
    config.validate(case.world_size)
    torch.manual_seed(0)
    collapse_routing()
    mesh = build_mesh(config, case.world_size)
    with live:
        live.phase = "init"
        steps = pipeline_steps if config.distributed.pp > 1 else plain_steps
        steps(config, mesh, live)
    return {phase: live.peaks.get(phase, 0) for phase in PHASES}


def show(rows: list[dict[str, Any]]) -> str:
    """The peaks as a Markdown table [MiB]."""
    lines = [
        (row["name"], *(f"{row['peaks'][phase] / 2**20:.2f}" for phase in PHASES))
        for row in rows
    ]
    return machine.table(lines, ("peak [MiB]", *PHASES))


if __name__ == "__main__":
    sys.exit(main())
