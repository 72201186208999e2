"""A DeepSpeed config as a job: what its keys mean beyond their values.

Every public function is a field of the job or a fact of this trainer; its parameters
name what it reads. The model, its sizes and its precision beyond bf16 and fp16 are the
script's. A value that is ``"auto"`` is unknown: Accelerate or the Trainer fills it in.

Source: deepspeed 0.19.8, runtime/config.py.
"""

from __future__ import annotations

from typing import Any

from fp8tune.job import Job, Unknown, Words, known

AUTO = "auto"


def is_run() -> bool:
    """Whether the file describes a run: always."""
    return True


def _number(value: Any) -> Any:
    """A batch size; ``None`` if it is left out. Unknown where it is no number."""
    if value is None:
        return None
    if value == AUTO:
        raise Unknown("auto")
    if not isinstance(value, (int, float)) or value <= 0:
        raise Unknown("train_batch_size")
    return value


def batch_sizes(
    train_batch_size: Any,
    train_micro_batch_size_per_gpu: Any,
    gradient_accumulation_steps: Any,
) -> tuple[int | None, int | None, int | None]:
    """The batch of a step, that of a micro-batch, and micro-batches per step."""
    given = train_micro_batch_size_per_gpu, gradient_accumulation_steps
    return _number(train_batch_size), _number(given[0]), _number(given[1])


def batch_starts(
    batch_sizes: tuple[int | None, ...], world_size: int | None = None
) -> bool:
    """Whether the batch sizes fit some number of data-parallel ranks.

    That number divides the GPUs of the run, where they are known: model parallelism
    may take the rest. DeepSpeed derives what is missing by division without rest.
    """
    batch, micro, steps = batch_sizes
    if batch is None:
        return True
    most = world_size or batch
    return any(
        _fits(batch, micro, steps, ranks)
        for ranks in _divisors(most)
        if world_size or ranks <= batch
    )


def batch_starts_on_all(
    batch_sizes: tuple[int | None, ...],
    world_size: int,
    splits_model: bool,
) -> bool:
    """Whether the batch sizes fit if all GPUs have different samples.

    Unknown where the file itself splits the model or the sequence over ranks.
    """
    if splits_model:
        raise Unknown("dp_shard")
    batch, micro, steps = batch_sizes
    return batch is None or _fits(batch, micro, steps, world_size)


def splits_model(
    tensor_parallel: bool, pipeline: bool, sequence_parallel_size: Any
) -> bool:
    """Whether the file splits the model or the sequence over ranks."""
    return tensor_parallel or pipeline or sequence_parallel_size not in (None, 1)


def no_batch_size(train_batch_size: Any, train_micro_batch_size_per_gpu: Any) -> bool:
    """Whether the file has no batch size at all; ``"auto"`` is one."""
    return train_batch_size is None and train_micro_batch_size_per_gpu is None


def _divisors(number: int) -> list[int]:
    """The divisors of a number, or for a batch what its ranks may be."""
    return [n for n in range(1, int(min(number, 100_000)) + 1) if number % n == 0]


def _fits(batch: int, micro: int | None, steps: int | None, ranks: int) -> bool:
    if micro is None:
        micro = batch // ranks // (steps or 1)
    steps = steps or (batch // micro // ranks if micro else 0)
    return micro > 0 and steps > 0 and batch == micro * steps * ranks


def micro_batch(
    batch_sizes: tuple[int | None, ...], world_size: int | None = None
) -> int:
    """Samples per rank and forward pass; on all GPUs where it has to be derived."""
    batch, micro, steps = batch_sizes
    if micro is None and batch is not None:
        return batch // known("world_size", world_size) // (steps or 1)
    return known("train_micro_batch_size_per_gpu", micro)


def grad_accum(
    batch_sizes: tuple[int | None, ...], world_size: int | None = None
) -> int:
    """Micro-batches per optimizer step."""
    batch, micro, steps = batch_sizes
    if steps is not None:
        return steps
    if batch is None or micro is None:
        return 1
    return batch // micro // known("world_size", world_size)


def zero_stage(zero_optimization_stage: int) -> int:
    """What ZeRO shards: 0 nothing, 1 optimizer state, 2 gradients, 3 parameters."""
    return zero_optimization_stage


def precision(job: Job) -> str:
    """Compute precision that DeepSpeed sets; FP8 would come from the model's modules.

    Unknown where the Trainer fills it in, and with ``torch_autocast``.
    """
    if job["torch_autocast"]:
        raise Unknown("precision")
    if job["uses_auto"]:
        raise Unknown("auto")
    for name in ("bf16", "bfloat16", "fp16"):
        if job[name] and job[f"{name}.enabled"]:
            return Words(name.replace("bfloat16", "bf16"))
    return Words("fp32")


OPTIMIZERS: tuple[str, ...] = (
    "adagrad",
    "adam",
    "adamw",
    "lamb",
    "muadam",
    "muadamw",
    "musgd",
    "lion",
    "muon",
)
ONE_BIT = ("onebitadam", "onebitlamb", "zerooneadam")
"""Names of DeepSpeed's own optimizers; the second until 0.18 (runtime/config.py)."""

TORCH: tuple[str, ...] = (
    "ASGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "LBFGS",
    "Muon",
    "NAdam",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SGD",
    "SparseAdam",
)
"""Optimizers of torch 2.13, which DeepSpeed takes by name."""


def optimizer_unknown(optimizer_type: Any, trainer_version: str) -> str:
    """The name of an optimizer that neither DeepSpeed nor torch has."""
    name = str(optimizer_type or "adam")
    old = trainer_version.startswith(("0.17.", "0.18."))
    own = OPTIMIZERS + ONE_BIT * old
    return Words("" if name.lower() in own or name in TORCH else name)


UNTESTED: tuple[str, ...] = (
    "ASGD",
    "Adadelta",
    "Adafactor",
    "Adamax",
    "NAdam",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SGD",
)
"""Optimizers of torch that ZeRO refuses unless the file allows them.

Measured with DeepSpeed 0.17.6, 0.18.9 and 0.19.8 by
``benchmarks/results/deepspeed_verdicts.md``, as is what follows.
"""


def optimizer_untested(
    zero_stage: int,
    optimizer_type: Any = None,
    zero_allow_untested_optimizer: Any = None,
) -> str:
    """The name of an optimizer that ZeRO refuses, ``""`` if it takes it."""
    refused = zero_stage > 0 and not zero_allow_untested_optimizer
    return Words(optimizer_type if refused and optimizer_type in UNTESTED else "")


def clips_in_optimizer(optimizer_params: Any = None) -> bool:
    """Whether the optimizer's own settings have DeepSpeed's old clipping."""
    return isinstance(optimizer_params, dict) and "max_grad_norm" in optimizer_params


SCHEDULERS = ("WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "OneCycle", "LRRangeTest")
"""DeepSpeed's own schedulers (runtime/lr_schedules.py)."""

TORCH_SCHEDULERS: tuple[str, ...] = (
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
)
"""Schedulers of torch 2.13, which DeepSpeed takes by name."""


def scheduler_unknown(scheduler_type: Any = None) -> str:
    """The name of a scheduler that neither DeepSpeed nor torch has."""
    known_names = scheduler_type in (None, *SCHEDULERS, *TORCH_SCHEDULERS)
    return Words("" if known_names else scheduler_type)


def scheduler_meant(scheduler_unknown: str) -> str:
    """DeepSpeed's scheduler whose name differs only in the case of letters."""
    names = {name.lower(): name for name in SCHEDULERS}
    return Words(names.get(str(scheduler_unknown).lower(), ""))


def wraps_optimizer(job: Job, zero_stage: int) -> bool:
    """Whether DeepSpeed puts a class of its own around the optimizer."""
    halves = any(
        job[name] and job[f"{name}.enabled"] for name in ("bf16", "bfloat16", "fp16")
    )
    return zero_stage > 0 or halves


def torch_scheduler(wraps_optimizer: bool, scheduler_type: Any = None) -> str:
    """A scheduler of torch that does not take DeepSpeed's optimizer."""
    refused = wraps_optimizer and scheduler_type in TORCH_SCHEDULERS
    return Words(scheduler_type if refused else "")
