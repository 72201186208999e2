"""What holds the weights of a job of Accelerate, and what no estimate covers.

Every public function is a field of the job or a fact of this trainer, as in ``job.py``.

Source: accelerate 1.8.1 to 1.15.0, utils/fsdp_utils.py and utils/dataclasses.py.
"""

from __future__ import annotations

from typing import Any

from fp8tune.job import Job, Unknown, Words, known
from fp8tune.trainers import local_model

FSDP_PLAIN = {
    "fsdp_offload_params": ("false none", "memory.offload"),
    "fsdp_activation_checkpointing_offload": ("false none", "memory.offload"),
    "fsdp_sharding_strategy": ("full_shard 1 none", "shards.strategy"),
    "fsdp_reshard_after_forward": ("true full_shard none", "memory.gathered"),
    "fsdp_auto_wrap_policy": ("transformer_based_wrap", "shards.wrap"),
}
"""What FSDP's keys say where its memory is known, and what is missing elsewhere."""


def parallel(
    distributed_type: Any, fsdp2: bool | None = None, zero: dict[str, Any] | None = None
) -> str:
    """What holds the weights: FSDP, ZeRO, DDP, or one GPU alone."""
    if distributed_type == "DEEPSPEED":
        stage = str(known("memory.parallel", zero)["stage"])
        return Words(
            known("memory.parallel", f"zero{stage}" if stage in "123" else None)
        )
    if distributed_type == "FSDP":
        return Words("fsdp2" if known("sharded", fsdp2) else "fsdp1")
    names = {"NO": "", "MULTI_GPU": "ddp"}
    return Words(known("memory.parallel", names.get(str(distributed_type))))


def shards(
    parallel: str,
    world_size: int,
    parallelism_config: Any = None,
    parallelism_config_parallelism_config_dp_shard_size: Any = 1,
    parallelism_config_parallelism_config_cp_size: Any = 1,
    parallelism_config_parallelism_config_tp_size: Any = 1,
    parallelism_config_parallelism_config_sp_size: Any = 1,
) -> int:
    """Ranks that share one copy of the weights, with FSDP and ZeRO 3.

    FSDP shards over the ranks of context parallelism too (parallelism_config.py).
    """
    if not parallel.startswith("fsdp"):
        return world_size if parallel == "zero3" else 1
    if not parallelism_config:
        return world_size
    tp = parallelism_config_parallelism_config_tp_size
    if int(tp) * int(parallelism_config_parallelism_config_sp_size) > 1:
        raise Unknown("memory.parallel")
    cp = int(parallelism_config_parallelism_config_cp_size)
    return int(parallelism_config_parallelism_config_dp_shard_size) * cp


def zero(
    distributed_type: Any,
    deepspeed: bool = False,
    deepspeed_zero_optimization: Any = None,
    deepspeed_config_deepspeed_config_file: Any = None,
    deepspeed_config_zero_stage: Any = None,
    deepspeed_config_offload_optimizer_device: Any = None,
    deepspeed_config_offload_param_device: Any = None,
) -> dict[str, Any]:
    """ZeRO's settings, of a DeepSpeed file or of the launch file."""
    if distributed_type != "DEEPSPEED":
        raise Unknown("memory.parallel")
    if deepspeed or deepspeed_config_deepspeed_config_file is not None:
        settings = deepspeed_zero_optimization
        given = settings if isinstance(settings, dict) else {}
        offload = given.get("offload_optimizer"), given.get("offload_param")
        devices = [each.get("device") for each in offload if isinstance(each, dict)]
    else:
        given = {"stage": deepspeed_config_zero_stage}
        devices = [
            deepspeed_config_offload_optimizer_device,
            deepspeed_config_offload_param_device,
        ]
    if not {str(device).lower() for device in devices} <= {"none"}:
        raise Unknown("memory.offload")
    return {"stage": known("memory.parallel", given.get("stage"))} | given


def bucket_bytes(hidden_size: int, zero: dict[str, Any] | None = None) -> float:
    """Bytes of ZeRO's buffer for gradients in bf16; the Trainer fills in "auto"."""
    if zero is None:
        return 0
    size = zero.get("reduce_bucket_size", 5e8)
    size = hidden_size**2 if size == "auto" else size
    return 2 * float(size) * (1 + bool(zero.get("overlap_comm", zero["stage"] == 3)))


def fsdp_upcasts(trainer_version: str, parallel: str) -> bool:
    """Whether FSDP casts the weights to fp32: all but FSDP2 of 1.13.

    That drops the result of the cast (utils/fsdp_utils.py, fsdp2_prepare_model).
    """
    return parallel != "fsdp2" or not trainer_version.startswith("1.13.")


def tables_apart(trainer_version: str, parallel: str) -> bool:
    """Whether FSDP gathers embedding and head each by itself: FSDP2 since 1.14."""
    new = tuple(map(int, trainer_version.split(".")[:2])) >= (1, 14)
    return new and parallel == "fsdp2"


def fsdp_plain(job: Job, distributed_type: Any) -> bool:
    """True unless FSDP shards or wraps in a way that no estimate covers."""
    for key, (value, gap) in FSDP_PLAIN.items() if distributed_type == "FSDP" else ():
        if str(job.find(f"fsdp_config.{key}")).lower() not in value.split():
            raise Unknown(gap)
    return True


def sizes(model_path: Any = None, llamafactory: bool = False) -> dict[str, Any]:
    """Sizes of the model, as ``models.toml`` has them; not of LLaMA-Factory's."""
    if llamafactory:
        raise Unknown("model.beside")
    return local_model.sizes(model_path)


def whole_model(
    training_use_peft: Any = None,
    training_load_in_4bit: Any = None,
    training_load_in_8bit: Any = None,
) -> bool:
    """True unless the model gets adapters, or its weights are quantized."""
    if training_use_peft or training_load_in_4bit or training_load_in_8bit:
        raise Unknown("model.adapter")
    return True


def covered(
    whole_model: bool,
    fsdp_plain: bool,
    parallelism_config: Any = None,
    training_fsdp: Any = None,
    training_deepspeed: Any = None,
    training_use_liger_kernel: Any = None,
) -> bool:
    """True unless something else that no estimate covers is on."""
    if parallelism_config or training_fsdp or training_deepspeed:
        raise Unknown("memory.parallel")
    if training_use_liger_kernel:
        raise Unknown("logit_bytes.fused")
    return whole_model and fsdp_plain


def loaded_bytes(training_dtype: Any = None, training_torch_dtype: Any = None) -> int:
    """Bytes per parameter of the weights as the script loads them, if a key says it."""
    name = str(training_dtype or training_torch_dtype).removeprefix("torch.")
    return known("weights.dtype", {"float32": 4, "bfloat16": 2}.get(name))


def samples_may_be_shorter(training_packing: Any = None) -> bool:
    """Whether batches may be shorter than the longest sequence: not packed."""
    return not training_packing


def own_loss(training_max_length: Any = None, trl_arguments: bool = False) -> bool:
    """Whether TRL's trainer computes the loss, not transformers'.

    Its releases differ: 0.24 copies the logits for its metrics, 1.16 never builds them
    (trainer/sft_trainer.py).
    """
    return bool(trl_arguments or training_max_length)


def logit_bytes(own_loss: bool) -> int:
    """Bytes per token and vocabulary entry in the backward pass of the loss."""
    if own_loss:
        raise Unknown("logit_bytes.trl", 0)
    return 12


def new_logit_bytes(own_loss: bool) -> int:
    """Bytes per token and vocabulary entry at the end of the forward pass."""
    if own_loss:
        raise Unknown("logit_bytes.trl", 0)
    return 10
