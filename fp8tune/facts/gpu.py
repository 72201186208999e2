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
    """Whether ``torch._scaled_mm`` runs on the GPU."""
    return known("gpu.fp8_matmul", _find(gpu).fp8_matmul)


def bf16_matmul(gpu: str) -> bool:
    """Whether the GPU has bf16 tensor cores: from compute capability 8.0 on.

    Other GPUs compute bf16 without them
    (https://github.com/vllm-project/vllm/issues/946,
    https://github.com/pytorch/pytorch/issues/124996).
    """
    return compute_capability(gpu) >= BF16_CAPABILITY


def memory_limit_gib(gpu: str) -> float:
    """Upper limit of the memory that torch reports: the memory as sold [GiB]."""
    return known("gpu.memory_gib", _find(gpu).memory_limit_gib)


def memory_gib(gpu: str) -> float:
    """Total memory of the GPU as torch reports it [GiB]."""
    return known("gpu.memory_gib", _find(gpu).memory_gib)
