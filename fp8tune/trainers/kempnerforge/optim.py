"""What the optimizer section of a KempnerForge config asks of bf16 state.

Every public function is a name of the job, as in ``job.py``. Weights and moments
are kept in the compute dtype; there is no fp32 copy (distributed/parallel.py casts
the model before the optimizer is built).

Source: KempnerForge at commit 5666d0d, training/optimizer.py.
"""

from __future__ import annotations

import math
from typing import Any

from fp8tune.job import Unknown, Words, known
from fp8tune.suggest import closest

OPTIMIZERS = ("adamw", "lion", "schedule_free_adamw", "muon")
"""Names in the trainer's registry of optimizers."""


def optimizer_meant(optimizer: Any) -> Words:
    """The trainer's optimizer with the most similar name."""
    near = closest(optimizer, OPTIMIZERS) if isinstance(optimizer, str) else ""
    if not near:
        raise Unknown("optimizer_meant")
    return Words(near)


def state_dtype(precision: str) -> Words:
    """Dtype of weights and moments. FP8 keeps them in bf16."""
    return Words("bf16" if precision == "fp8" else precision)


def state_bits(state_dtype: str) -> int:
    """Significant bits of weights and moments."""
    return {"bf16": 8, "fp16": 11, "fp32": 24}[state_dtype]


def state_step(state_bits: int) -> float:
    """Smallest relative change that can change some number of the state.

    Half the spacing just below a power of two: 2**-9 in bf16. Smaller changes are lost
    in rounding.
    """
    return float(2.0 ** -(state_bits + 1))


def beta1(optimizer_betas: Any) -> float:
    """Decay factor of the first moment."""
    return float(_number(optimizer_betas[0]))


def beta2(optimizer_betas: Any) -> float:
    """Decay factor of the second moment (with lion: of its only moment)."""
    return float(_number(optimizer_betas[1]))


def adam_learning_rate(
    optimizer: str, learning_rate: float, optimizer_muon_adam_lr: float | None
) -> float:
    """Peak learning rate of parameters trained by AdamW, also inside muon."""
    if optimizer not in ("adamw", "muon"):
        raise Unknown("adam_learning_rate")
    own = optimizer == "muon" and optimizer_muon_adam_lr is not None
    return known("optimizer.lr", optimizer_muon_adam_lr if own else learning_rate)


def step_share(
    train_grad_clip_norm: float, optimizer_eps: float, params_count: int
) -> float:
    """Upper limit of an Adam step, relative to the learning rate (root mean square).

    Gradients with a norm c give a step with a norm of at most c / eps. A full step has
    the square root of the number of weights.
    """
    return train_grad_clip_norm / optimizer_eps / math.sqrt(params_count)


def decay_in_state(optimizer: str, optimizer_fused: bool) -> bool:
    """Whether weight decay is a separate multiplication in the state's dtype.

    ``p.mul_(1 - lr * wd)`` in lion, muon, schedule_free_adamw and unfused AdamW. The
    fused kernel adds decay and step before it rounds.
    """
    return optimizer != "adamw" or not optimizer_fused


def unknown_backends(distributed_backend: Any) -> list[str]:
    """Parts of ``distributed.backend`` for which torch registers no backend."""
    if not isinstance(distributed_backend, str):
        return [str(distributed_backend)]
    parts = [part.rpartition(":")[2] for part in distributed_backend.split(",")]
    return [part for part in parts if part.strip().lower() not in _BACKENDS]


_BACKENDS = ("nccl", "gloo", "mpi", "ucc", "fake", "xccl", "threaded")


def _number(value: Any) -> float:
    if isinstance(value, (int, float)):
        return value
    raise Unknown("optimizer.betas")
