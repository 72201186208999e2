"""Figures of the GPU that the run is for, from ``gpus.toml``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fp8tune.job import Words, known

if TYPE_CHECKING:
    from fp8tune.facts.gpus import Gpu


BF16_CAPABILITY = 8.0


def _find(name: str) -> Gpu:
    from fp8tune.facts.gpus import find

    return find(name)


def title(gpu: str) -> Words:
    """The GPU's full name."""
    return Words(_find(gpu).title)


def compute_capability(gpu: str) -> float:
    """CUDA compute capability."""
    return known("gpu.compute_capability", _find(gpu).compute_capability)


def fp8_matmul(gpu: str) -> bool:
    """Whether ``torch._scaled_mm`` runs on it."""
    return known("gpu.fp8_matmul", _find(gpu).fp8_matmul)


def bf16_matmul(gpu: str) -> bool:
    """Whether it has bf16 tensor cores: from compute capability 8.0 on.

    Others compute in bf16 without them (https://github.com/vllm-project/vllm/issues/946,
    https://github.com/pytorch/pytorch/issues/124996).
    """
    return compute_capability(gpu) >= BF16_CAPABILITY


def memory_limit_gib(gpu: str) -> float:
    """The most memory that torch can report as total: never more than is sold [GiB]."""
    return known("gpu.memory_gib", _find(gpu).memory_limit_gib)


def memory_gib(gpu: str) -> float:
    """Memory that torch reports as total [GiB]."""
    return known("gpu.memory_gib", _find(gpu).memory_gib)
