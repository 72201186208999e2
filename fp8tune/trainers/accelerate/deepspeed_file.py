"""The DeepSpeed file of a job, and what may not stand beside it.

Source: accelerate 1.8.1 to 1.15.0, utils/dataclasses.py (DeepSpeedPlugin); transformers
4.57.6 to 5.23.0, integrations/deepspeed.py.
"""

from __future__ import annotations

from typing import Any

from fp8tune.formats.values import find
from fp8tune.job import Job, Unknown, Words


def deepspeed_refused(
    trainer_version: str,
    mixed_precision: str,
    distributed_type: Any,
    forced_precision: str,
    deepspeed_config_deepspeed_config_file: Any = None,
    training_bf16_full_eval: Any = None,
    deepspeed: bool = False,
    deepspeed_bf16: Any = None,
) -> bool:
    """Whether the Trainer's bf16 differs from what DeepSpeed's config then says.

    Accelerate fills in what a DeepSpeed file leaves open.
    """
    if mixed_precision == "fp8" and trainer_version.startswith("1.8"):
        return False
    if distributed_type != "DEEPSPEED" or mixed_precision == "no" or forced_precision:
        return False
    own = deepspeed_config_deepspeed_config_file is not None
    off = isinstance(deepspeed_bf16, dict) and deepspeed_bf16.get("enabled") is False
    if training_bf16_full_eval or (own and (off or not deepspeed)):
        raise Unknown("precision.zero")
    return True


BESIDE_FILE = (
    "gradient_accumulation_steps",
    "gradient_clipping",
    "zero_stage",
    "offload_optimizer_device",
    "offload_param_device",
    "offload_param_nvme_path",
    "offload_optimizer_nvme_path",
    "zero3_save_16bit_model",
)
"""Keys of ``deepspeed_config`` that may not stand beside a DeepSpeed file."""


def deepspeed_file_by(
    distributed_type: Any = "",
    deepspeed_config_deepspeed_config_file: Any = None,
    training_deepspeed: Any = None,
) -> str:
    """The key whose DeepSpeed file the run reads, ``""`` without one.

    The training arguments go before the launch file.
    """
    if training_deepspeed:
        return Words("training.deepspeed")
    named = deepspeed_config_deepspeed_config_file not in (None, "none")
    launched = distributed_type == "DEEPSPEED" and named
    return Words("deepspeed_config.deepspeed_config_file" if launched else "")


def key_beside_deepspeed_file(
    job: Job,
    distributed_type: Any,
    deepspeed_file_by: str,
    trainer_version: str,
    asks_fp8: bool = False,
    precision_in_file: bool = False,
) -> str:
    """The key of the launch file that may not stand beside a DeepSpeed file.

    The launcher exports which keys its file has, the precision among them, and
    DeepSpeedPlugin refuses these (_deepspeed_config_checks).
    """
    ends_before = asks_fp8 and trainer_version.startswith("1.8")
    if distributed_type != "DEEPSPEED" or not deepspeed_file_by or ends_before:
        return Words("")
    for name in BESIDE_FILE:
        if f"deepspeed_config.{name}" in job.written:
            return Words(f"deepspeed_config.{name}")
    return Words("mixed_precision" if precision_in_file else "")


def deepspeed_file_without_zero(
    job: Job, deepspeed_file_by: str, deepspeed: bool = False
) -> bool:
    """Whether the DeepSpeed file has no ``zero_optimization``, if it is read."""
    read = _reads_deepspeed(job, deepspeed_file_by, deepspeed)
    return read and "deepspeed.zero_optimization" not in job.written


def _reads_deepspeed(job: Job, named_by: str, read: bool) -> bool:
    """Whether the DeepSpeed file is known: no other key names another one."""
    keys = ("training.deepspeed", "deepspeed_config.deepspeed_config_file")
    names = {str(job.given.get(key)) for key in keys if job.given.get(key)}
    return bool(named_by and read and len(names) == 1)


COMPARED = {
    "train_micro_batch_size_per_gpu": "per_device_train_batch_size",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "gradient_clipping": "max_grad_norm",
    "optimizer.params.lr": "learning_rate",
    "optimizer.params.eps": "adam_epsilon",
    "optimizer.params.weight_decay": "weight_decay",
    "scheduler.params.warmup_max_lr": "learning_rate",
}
"""Keys of a DeepSpeed file that the Trainer compares, each with its argument.

It also compares the betas, the batch of a step, ``bf16.enabled`` and ``fp16.enabled``
(integrations/deepspeed.py, trainer_config_process).
"""


def deepspeed_mismatch(
    job: Job, deepspeed_file_by: str, deepspeed: bool = False
) -> str:
    """The first key of the DeepSpeed file that differs from the training arguments.

    Of what the arguments leave out nothing is compared: scripts have other defaults.
    """
    if not _reads_deepspeed(job, deepspeed_file_by, deepspeed):
        return Words("")
    for key, argument in COMPARED.items():
        value, own = _in_deepspeed(job, key), job.given.get(f"training.{argument}")
        tried = key.startswith("train_") and job.given.get(
            "training.auto_find_batch_size"
        )
        written = f"training.{argument}" in job.written
        if written and not tried and _numbers(value, own) and value != own:
            return Words(f"deepspeed.{key}")
    for name in ("bf16", "fp16"):
        value, on = _in_deepspeed(job, f"{name}.enabled"), _argument_of(job, name)
        if isinstance(value, bool) and on is not None and value != on:
            return Words(f"deepspeed.{name}.enabled")
    return Words("")


def deepspeed_mismatch_argument(deepspeed_mismatch: str) -> str:
    """The training argument that it differs from."""
    key = deepspeed_mismatch.removeprefix("deepspeed.")
    return Words(f"training.{COMPARED.get(key, key.removesuffix('.enabled'))}")


def deepspeed_mismatch_words(
    job: Job, deepspeed_mismatch: str, deepspeed_mismatch_argument: str
) -> str:
    """Both values."""
    key = deepspeed_mismatch.removeprefix("deepspeed.")
    name = deepspeed_mismatch_argument.removeprefix("training.")
    own = job.given.get(deepspeed_mismatch_argument)
    own = _argument_of(job, name) if key.endswith(".enabled") else own
    value = _in_deepspeed(job, key)
    return Words(f"`{key}` is {_json(value)}, and `{name}` is {_json(own)}")


def _in_deepspeed(job: Job, key: str) -> Any:
    """A value of the DeepSpeed file, ``None`` if it is not there."""
    first, *inner = key.split(".")
    value = find(job.given, (f"deepspeed.{first}", *inner))
    if value is None and key == "gradient_accumulation_steps":
        own = job["deepspeed_file_by"] == "training.deepspeed"
        return None if own else 1  # DeepSpeedPlugin's, before the Trainer compares
    return value


def _argument_of(job: Job, name: str) -> bool | None:
    """What the Trainer expects of ``bf16.enabled`` or fp16's; ``None`` if unknown."""
    own, full = job.given.get(f"training.{name}"), f"training.{name}_full_eval"
    other = job.given.get("training.fp16")
    if name == "bf16" and own is None and job.given.get("trl_arguments"):
        own = None if other else True  # TRL's own default
    given = f"training.{name}" in job.written or own
    whole = job.given.get(full) or False
    if not given or not isinstance(own, bool) or not isinstance(whole, bool):
        return None
    return own or whole


def _numbers(*values: Any) -> bool:
    return all(
        isinstance(each, (int, float)) and not isinstance(each, bool) for each in values
    )


def _json(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value}"
