"""What a trial needs to know of a KempnerForge config in addition to its job.

Source: KempnerForge at commit 5666d0d, files named in each docstring.
"""

from __future__ import annotations

from typing import Any

from fp8tune.job import Job
from fp8tune.trainers.phase import first_rates

OPTIMIZERS = ("adamw",)
"""Optimizers that a trial can step as the trainer does."""


def loss_chunk(train_ce_chunk_size: int) -> int:
    """Tokens per chunk, 4096 by default (training/loss.py)."""
    return train_ce_chunk_size if train_ce_chunk_size > 0 else 4096


def qk_norm_eps() -> float:
    """RMSNorm's own epsilon, not ``norm_eps`` (model/attention.py, model/norm.py)."""
    return 1e-5


def fused(optimizer_fused: bool) -> bool:
    """Whether AdamW uses the fused kernel (training/optimizer.py)."""
    return optimizer_fused


def sdpa_backend(model_sdpa_backend: str) -> str:
    """The attention kernel, ``auto`` if torch chooses (model/attention.py)."""
    return model_sdpa_backend


def bf16_linears(precision: str) -> list[str]:
    """Experts and routers stay in bf16 (distributed/parallel.py, apply_float8)."""
    return ["experts", "shared_expert", "router"] if precision == "fp8" else []


def learning_rates(job: Job, max_steps: int) -> list[float]:
    """Learning rates of a trial's steps (training/scheduler.py)."""
    from fp8tune.trainers.kempnerforge import phases

    return first_rates(phases.learning_rates(job.given), max_steps)


def data_files(
    data_dataset_path: Any, data_file_pattern: Any, data_datasets: Any
) -> list[str]:
    """Shards of tokenized text; none if they are not on this machine.

    The first data set of a mixture stands for all (data/dataset.py,
    MemoryMappedDataset).
    """
    paths = _folders(data_dataset_path, data_datasets)
    return _shards(paths[0], data_file_pattern) if paths else []


def reads_ahead(data_num_workers: int) -> bool:
    """Whether other processes read the next batches (data/dataloader.py)."""
    return data_num_workers > 0


def data_seed(train_seed: int, train_data_seed: int | None) -> int:
    """Seed of the order of the data (config/training.py, effective_data_seed)."""
    return train_seed if train_data_seed is None else train_data_seed


def data_missing(
    data_dataset_path: Any, data_file_pattern: Any, data_datasets: Any
) -> str:
    """Shards that are not on this machine, so that the run ends at start; else ``""``.

    Each data set of a mixture is read (scripts/train.py).
    """
    pattern = data_file_pattern
    paths = filter(None, _folders(data_dataset_path, data_datasets))
    empty = (path for path in paths if not _shards(path, pattern))
    return next((f"no file matches `{pattern}` in `{path}`" for path in empty), "")


def _folders(path: Any, sources: Any) -> list[str]:
    """Where the shards lie, by source; ``""`` for one that is no folder."""
    found = [path]
    if sources:
        found = [s.get("path") if isinstance(s, dict) else "" for s in sources]
    return [one if isinstance(one, str) else "" for one in found]


def _shards(folder: str, pattern: Any) -> list[str]:
    """The files that the trainer finds there: none where ``glob`` itself gives up.

    On a pattern that is empty or absolute, and a path that is too long: there the
    trainer, which lists them in the same way, stops as well.
    """
    from pathlib import Path

    if not folder or not isinstance(pattern, str):
        return []
    try:
        return [str(path) for path in sorted(Path(folder).glob(pattern))]
    except (NotImplementedError, OSError, ValueError):
        return []


def trial_refusal(
    vlm: bool,
    tp: int,
    pp: int,
    cp: int,
    ep: int,
    dp_replicate: int,
    optimizer: str,
    precision: str,
    model_norm_type: str,
    model_model_type: str,
    data_pack_sequences: bool,
    train_z_loss_weight: float,
    moe_refusal: str,
    tied_embeddings: bool,
    dp_shard: int | None = None,
) -> str:
    """Why the built-in trial would differ from this run; ``""`` if it would not."""
    if vlm:
        return "a VLM: its encoder and towers are not built"
    degrees = {"pipeline": pp, "context": cp, "expert": ep}
    for name, degree in degrees.items():
        if degree > 1:
            return f"{name} parallelism of {degree}: it is not built"
    if dp_shard and dp_shard > 1 and dp_replicate > 1:
        return f"{dp_replicate} replicas of {dp_shard} shards: the trainer stops there"
    if optimizer not in OPTIMIZERS:
        return f"the optimizer {optimizer}: only {', '.join(OPTIMIZERS)} is built"
    odd = {
        "fp16": precision == "fp16",
        f"norms of type {model_norm_type}": model_norm_type != "rmsnorm",
        f"a model of type {model_model_type}": model_model_type != "transformer",
        "packed sequences: their attention needs a mask": data_pack_sequences,
        "z-loss": train_z_loss_weight > 0,
    }
    found = next((name for name, used in odd.items() if used), "")
    return found or moe_refusal or _tp_refusal(tp, precision, tied=tied_embeddings)


def _tp_refusal(tp: int, precision: str, *, tied: bool) -> str:
    """Return what a trial does not split over tensor-parallel ranks."""
    if tp > 1 and precision == "fp8":
        return f"FP8 with tensor parallelism of {tp}: the trainer refuses it"
    if tp > 1 and tied:
        return f"tied embeddings with tensor parallelism of {tp}"
    return ""


def shards_over_one(tp: int) -> bool:
    """FSDP wraps the model of a single shard if TP splits it (distributed/setup.py)."""
    return tp > 1


def builds_whole(tp: int) -> bool:
    """Each rank draws all weights, unless TP splits them (distributed/parallel.py)."""
    return tp == 1


def moe_refusal(
    experts: int,
    model_moe_router: str,
    model_moe_packed_experts: bool,
    model_moe_capacity_factor: float,
    model_moe_gradient_scale: bool,
    model_moe_router_z_loss_weight: float,
) -> str:
    """Parts of a mixture of experts that a trial does not build; ``""`` if none."""
    if not experts:
        return ""
    if model_moe_router != "softmax_topk":
        return f"the router {model_moe_router}"
    odd = {
        "packed experts": model_moe_packed_experts,
        "a capacity of experts": model_moe_capacity_factor > 0,
        "gradients scaled per expert": model_moe_gradient_scale,
        "a z-loss of the router": model_moe_router_z_loss_weight > 0,
    }
    return next((name for name, used in odd.items() if used), "")
