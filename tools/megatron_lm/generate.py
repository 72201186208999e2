"""Flags of Megatron-LM to compare verdicts on: a run that starts, and mistakes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

BASE: dict[str, Any] = {
    "num-layers": 8,
    "hidden-size": 1024,
    "num-attention-heads": 16,
    "seq-length": 1024,
    "max-position-embeddings": 1024,
    "micro-batch-size": 1,
    "global-batch-size": 64,
    "train-iters": 100,
    "lr": 0.0003,
    "bf16": True,
    "mock-data": True,
    "tokenizer-type": "NullTokenizer",
    "vocab-size": 32000,
}
ON = True
OFF = None

CHOICES: dict[str, tuple[Any, ...]] = {
    "fp8-format": (OFF, "e4m3", "hybrid", "hybrid", "e5m2", "E4M3"),
    "fp8-recipe": (
        OFF,
        "delayed",
        "tensorwise",
        "blockwise",
        "mxfp8",
        "custom",
        "rowwise",
    ),
    "fp8-amax-history-len": (OFF, 1, 1024, 16.5),
    "fp8-amax-compute-algo": (OFF, "max", "most_recent", "mean"),
    "fp8-param-gather": (OFF, ON),
    "first-last-layers-bf16": (OFF, ON),
    "num-layers-at-start-in-bf16": (OFF, 0, 1, 4, 9, -1),
    "num-layers-at-end-in-bf16": (OFF, 1, 9),
    "fp8-output-proj": (OFF, ON),
    "no-fp8-wgrad": (OFF, ON),
    "fp4-format": (OFF, "e2m1"),
    "fp4-param-gather": (OFF, ON),
    "fp8-quantizer-factory": (OFF, "package.module.factory"),
    "reuse-grad-buf-for-mxfp8-param-ag": (OFF, ON),
    "transformer-impl": (OFF, "local", "transformer_engine", "te"),
    "bf16": (ON, OFF),
    "fp16": (OFF, ON),
    "use-distributed-optimizer": (OFF, ON),
    "overlap-grad-reduce": (OFF, ON),
    "overlap-param-gather": (OFF, ON),
    "use-torch-fsdp2": (OFF, ON),
    "use-megatron-fsdp": (OFF, ON),
    "megatron-fsdp-version": (OFF, 1, 2, 3),
    "ckpt-format": (
        OFF,
        "torch",
        "torch_dist",
        "torch_dcp",
        "fsdp_dtensor",
        "safetensors",
    ),
    "no-gradient-accumulation-fusion": (OFF, ON),
    "untie-embeddings-and-output-weights": (OFF, ON),
    "optimizer": (OFF, "adam", "sgd", "adamw"),
    "optimizer-cpu-offload": (OFF, ON),
    "use-precision-aware-optimizer": (OFF, ON),
    "tensor-model-parallel-size": (OFF, 1, 2, 4, 8, 3),
    "pipeline-model-parallel-size": (OFF, 1, 2, 4, 3),
    "context-parallel-size": (OFF, 1, 2),
    "expert-model-parallel-size": (OFF, 1, 2, 3),
    "num-experts": (OFF, 4, 8),
    "moe-token-dispatcher-type": (OFF, "allgather", "alltoall", "alltoall_seq"),
    "moe-shared-expert-intermediate-size": (OFF, 1024),
    "moe-shared-expert-overlap": (OFF, ON),
    "overlap-moe-expert-parallel-comm": (OFF, ON),
    "expert-tensor-parallel-size": (OFF, 1, 2),
    "moe-router-padding-for-quantization": (OFF, ON),
    "moe-router-padding-for-fp8": (OFF, ON),
    "sequence-parallel": (OFF, ON),
    "tp-comm-overlap": (OFF, ON),
    "num-layers-per-virtual-pipeline-stage": (OFF, 1, 2, 3),
    "num-virtual-stages-per-pipeline-rank": (OFF, 2),
    "decoder-first-pipeline-num-layers": (OFF, 1, 2),
    "decoder-last-pipeline-num-layers": (OFF, 2, 3),
    "num-layers": (8, 6, 12, OFF, "eight"),
    "hidden-size": (1024, 1000, OFF, 1024.5),
    "num-attention-heads": (16, 12, 6, OFF),
    "group-query-attention": (OFF, ON),
    "num-query-groups": (OFF, 2, 4, 3),
    "kv-channels": (OFF, 64),
    "swiglu": (OFF, ON),
    "micro-batch-size": (1, 2, 3, 0, OFF),
    "global-batch-size": (64, 48, 7, OFF, 0),
    "seq-length": (1024, 2048, 510, OFF),
    "encoder-seq-length": (OFF, 1024),
    "max-position-embeddings": (1024, 512, OFF),
    "train-iters": (100, OFF),
    "train-samples": (OFF, 6400),
    "lr-decay-iters": (OFF, 50),
    "lr-decay-samples": (OFF, 3200),
    "lr-warmup-iters": (OFF, 5, 50, 100),
    "lr-warmup-samples": (OFF, 320, 6400),
    "lr-warmup-fraction": (OFF, 0.1, 1.0),
    "lr-warmup-init": (OFF, 0.0003, 0.001),
    "lr-wsd-decay-iters": (OFF, 10),
    "skip-train": (OFF, ON),
    "min-lr": (OFF, 0.00003, 0.1, -0.1),
    "lr": (0.0003, "1e-4x", OFF),
    "lr-decay-style": (OFF, "cosine", "cosin", "WSD"),
    "recompute-activations": (OFF, ON),
    "recompute-granularity": (OFF, "full", "selective", "block"),
    "recompute-method": (OFF, "uniform", "block"),
    "recompute-num-layers": (OFF, 1),
    "recompute-modules": (OFF, "layernorm", "core_attn", "mlp layernorm"),
    "normalization": (OFF, "RMSNorm", "rmsnorm"),
    "disable-bias-linear": (OFF, ON),
    "fp8-reciepe": (OFF, "tensorwise"),
    "fp8_format": (OFF, "hybrid"),
    "fp8-hybrid": (OFF, ON),
    "attention-backend": (OFF, "flash"),
}
"""What each flag is set to; some values are wrong."""

SHARDING: tuple[dict[str, Any], ...] = (
    {},
    {"use-distributed-optimizer": ON},
    {
        "use-distributed-optimizer": ON,
        "overlap-grad-reduce": ON,
        "overlap-param-gather": ON,
    },
    {
        "use-torch-fsdp2": ON,
        "no-gradient-accumulation-fusion": ON,
        "untie-embeddings-and-output-weights": ON,
    },
    {"use-megatron-fsdp": ON, "ckpt-format": "fsdp_dtensor"},
)
EXPERTS = (
    "tensor-model-parallel-size",
    "expert-model-parallel-size",
    "expert-tensor-parallel-size",
    "moe-token-dispatcher-type",
    "moe-shared-expert-intermediate-size",
    "moe-shared-expert-overlap",
    "overlap-moe-expert-parallel-comm",
    "disable-bias-linear",
    "recompute-granularity",
)
"""Flags that are drawn together with experts."""

BF16_LAYERS = ("num-layers-at-start-in-bf16", "num-layers-at-end-in-bf16")
WORLD_SIZES = (8, 8, 16, 12)


def configs(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield flags with the number of GPUs, the same for the same seed."""
    draw = random.Random(seed)  # noqa: S311
    for number in range(count):
        flags = BASE | draw.choice(SHARDING)
        if draw.random() < 0.7:
            flags["fp8-format"] = "hybrid"
            flags["fp8-recipe"] = draw.choice(CHOICES["fp8-recipe"][:5])
        if draw.random() < 0.15:
            flags["transformer-impl"] = "local"
        if draw.random() < 0.15:
            flags["first-last-layers-bf16"] = ON
            for name in BF16_LAYERS:
                flags[name] = draw.choice((OFF, 0, 1, 4, 8))
        if draw.random() < 0.25:
            flags["num-experts"] = 8
            for name in EXPERTS:
                flags[name] = draw.choice(CHOICES[name])
        for name in draw.sample(list(CHOICES), draw.randint(0, 4)):
            flags[name] = draw.choice(CHOICES[name])
        yield {
            "id": f"{seed}-{number}",
            "world_size": draw.choice(WORLD_SIZES),
            "flags": words(flags),
        }


def words(flags: dict[str, Any]) -> list[str]:
    """Return flags as arguments."""
    found = []
    for name, value in flags.items():
        if value is not None:
            found.append(f"--{name}")
            found += [] if value is True else str(value).split()
    return found
