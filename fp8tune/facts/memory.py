"""Memory of one rank at the peak of a step, dense models under FSDP2 alone.

Sources: the closed form is fitted to 18 measured multi-GPU runs of KempnerForge,
within 1.5 % under full AC (benchmarks/mfu_scaling and config_validation of its
repository at commit 5666d0d). The activation bytes per token are measured by
benchmarks/activation_bytes.py.
"""

from __future__ import annotations

from fp8tune.job import Unknown

GIB = 2**30


def activations_gib(
    fp8_tokens: tuple[int, ...], layers: int, activation_bytes: float
) -> float:
    """Activations that all blocks keep for the backward pass [GiB]."""
    return fp8_tokens[0] * layers * activation_bytes / GIB


def logits_gib(fp8_tokens: tuple[int, ...], vocab_size: int, logit_bytes: int) -> float:
    """Logits and their gradient at the peak [GiB]."""
    return fp8_tokens[-1] * vocab_size * logit_bytes / GIB


def gradients_gib(params_count: int, unsharded_gradient_bytes: int) -> float:
    """Gradients that accumulation keeps unsharded on every rank [GiB]."""
    return params_count * unsharded_gradient_bytes / GIB


def state_gib(
    params_count: int, state_bytes: int, dp_shard: int | None = None
) -> float:
    """Sharded weights, gradients and optimizer state [GiB]; 0 if shards are unknown."""
    return params_count * state_bytes / dp_shard / GIB if dp_shard else 0.0


def floor_gib(
    tp: int,
    pp: int,
    ep: int,
    memory_activations_gib: float,
    memory_logits_gib: float,
    memory_gradients_gib: float,
    memory_state_gib: float,
) -> float:
    """What one rank needs at the end of a forward pass [GiB].

    Known for data parallelism alone. A lower bound: allocator slack and
    communication buffers come on top, and the sharded state where the number of
    GPUs is not known.
    """
    if tp * pp * ep != 1:
        raise Unknown("memory.floor_gib")
    held = memory_gradients_gib + memory_state_gib
    return memory_activations_gib + memory_logits_gib + held
