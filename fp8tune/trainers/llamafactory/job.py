"""A LLaMA-Factory config as a job: what its keys mean beyond their values.

Every public function is a field of the job or a fact of this trainer; its parameters
name what it reads.

Source: LLaMA-Factory 0.9.4 and 0.9.5, train/fp8_utils.py, train/sft/trainer.py,
train/pt/trainer.py, model/model_utils/checkpointing.py. ``python -m
tools.verdicts llamafactory`` compares ``fp8_on`` with the modules that the trainer
converts.
"""

from __future__ import annotations

from typing import Any

from fp8tune.job import Job, Unknown, Words, known

READERS = ("sft", "pt")
"""The stages whose trainer reads ``fp8``."""
STAGES = (*READERS, "rm", "ppo", "dpo", "kto")
"""Stages that it knows."""


def is_run(do_train: Any) -> bool:
    """Whether the file describes a run: it trains."""
    return bool(do_train)


def config_format() -> str:
    """Format of the file: ``yaml`` or ``json``; lint knows it."""
    raise Unknown("config_format")


def _as_number(release: str) -> float:
    """Return a release as a number, of its first two parts: 5.03 is 5.3."""
    first, _, rest = release.partition(".")
    return int(first) + int(rest.partition(".")[0] or 0) / 100


def launch_file() -> dict[str, Any]:
    """Values of the launch file of ``accelerate launch``; lint knows them."""
    return {}


def fp8_asked(fp8: Any, launch_file: dict[str, Any]) -> bool:
    """Whether the config asks for FP8: any text but the empty one does too.

    Unknown beside a launch file that asks for FP8 or may: what is in FP8 then depends
    on both (``llamafactory_verdicts.md``).
    """
    launched = str(launch_file.get("mixed_precision", "no"))
    if fp8 and launched not in ("no", "bf16", "fp16"):
        raise Unknown("mixed_precision")
    return bool(fp8)


def fp8_read(fp8_asked: bool, stage: Any, trainer_version: str) -> bool:
    """Whether the stage's trainer reads the switch: in 0.9.4 no trainer gets it.

    There it is one of the arguments of the model, which train/*/workflow.py does not
    hand to the trainers (https://github.com/hiyouga/LLaMA-Factory/pull/9705).
    """
    if stage not in STAGES:  # tuner.py ends with "Unknown task"
        raise Unknown("fp8_read")
    return fp8_asked and stage in READERS and trainer_version != "0.9.4"


def fp8_engine(fp8_backend: Any) -> str:
    """What computes in FP8: Transformer Engine for te, and torchao for all else."""
    return Words("te" if fp8_backend == "te" else "torchao")


def may_be_fp8(fp8_read: bool) -> bool:
    """Whether the file leaves FP8 possible."""
    return fp8_read


def fp8_until(fp8_engine: str) -> str:
    """The first release of transformers with which FP8 is off.

    LLaMA-Factory asks for FP8 by a variable, and since 5.0 the Trainer hands Accelerate
    the mixed precision of its arguments. For Transformer Engine it gives Accelerate a
    handler too, unless the Trainer gives some: since 5.3 it always does.
    """
    return Words("5.3" if fp8_engine == "te" else "5.0")


def fp8_by_launcher(other_precision: str) -> bool:
    """Whether FP8 is on, after all, if `accelerate launch` asks for it.

    transformers 5 takes the launcher's precision where the arguments name none
    (https://github.com/huggingface/transformers/blob/v5.6.0/src/transformers/training_args.py#L1580).
    """
    return other_precision == "fp32"


def without_fp8(other_precision: str, fp8_by_launcher: bool) -> str:
    """What a run is in that has no FP8 by LLaMA-Factory itself."""
    launched = " or what `accelerate launch` asks for" * fp8_by_launcher
    return Words(f"{other_precision}{launched}")


def fp8_lost(
    fp8_until: str,
    fp8_by_launcher: bool,
    transformers_release: str | None = None,
    transformers_at_most: str | None = None,
) -> bool:
    """Whether the release of transformers keeps FP8 off.

    An upper bound tells that it does not, and never that it does. Unknown where the
    launcher decides.
    """
    until = _as_number(fp8_until)
    if transformers_at_most and _as_number(transformers_at_most) < until:
        return False
    if fp8_by_launcher and _as_number(transformers_release or "9") >= until:
        raise Unknown("mixed_precision")
    return _as_number(known("transformers", transformers_release)) >= until


def fp8_on(fp8_read: bool, fp8_lost: bool | None = None) -> bool:
    """Whether linears are converted; unknown without the release of transformers."""
    if not fp8_read:
        return False
    if fp8_lost is None:
        raise Unknown("transformers")
    return not fp8_lost


def fp8_judged_apart(fp8_engine: str) -> bool:
    """Whether a rule of its own says what torchao's FP8 does on a GPU without it."""
    return fp8_engine == "torchao"


def fp8_without_units(fp8_on: bool, fp8_engine: str) -> str:
    """What torchao's FP8 is on a GPU without it: fp16.

    Accelerate takes it in place of the variable's precision, and the Trainer of
    transformers 4 hands it none (accelerate 1.11, state.py). Transformer Engine gets
    the precision from LLaMA-Factory itself, and ends.
    """
    return Words("fp16" if fp8_on and fp8_engine == "torchao" else "")


def other_precision(bf16: Any, fp16: Any, pure_bf16: Any) -> str:
    """Mixed precision of what is not converted."""
    if bf16 or pure_bf16:
        return Words("bf16")
    return Words("fp16" if fp16 else "fp32")


def precision(fp8_on: bool, other_precision: str) -> str:
    """Compute precision of the linears."""
    return Words("fp8") if fp8_on else other_precision


def fp8_recipe(precision: str, fp8_engine: str) -> str:
    """Recipe: Accelerate's default of torchao, or delayed scaling of TE."""
    if precision != "fp8":
        return ""
    return Words("tensorwise" if fp8_engine == "torchao" else "delayed")


def te_recipe(fp8_engine: str, precision: str) -> str:
    """Transformer Engine's recipe, ``""`` without it: always delayed scaling."""
    return Words("delayed" if precision == "fp8" and fp8_engine == "te" else "")


def fp8_all_gather() -> bool:
    """Whether FSDP2 gathers weights in FP8: its switch is not read by Accelerate."""
    return False


def fp8_converts_head(job: Job, fp8_engine: str) -> bool:
    """Whether the output head runs in FP8.

    Of torchao's linears Accelerate leaves the first and the last as they are;
    Transformer Engine gets all whose sizes 16 divides.
    """
    if fp8_engine != "te":
        return False
    return not (job["vocab_size"] % 16 or job["hidden_size"] % 16)


def ac(disable_gradient_checkpointing: Any, gradient_checkpointing: Any) -> str:
    """Gradient checkpointing: on unless it is disabled."""
    off = disable_gradient_checkpointing and not gradient_checkpointing
    return Words("none" if off else "full")


def compile(  # noqa: A001
    torch_compile: Any, torch_compile_backend: Any, torch_compile_mode: Any
) -> bool:
    """Whether the model is compiled; a backend or mode turns it on too."""
    chosen = (torch_compile_backend, torch_compile_mode)
    return bool(torch_compile) or any(each is not None for each in chosen)


def float8_any_length(
    fp8_on: bool,
    fp8_engine: str,
    stage: Any,
    per_device_train_batch_size: Any,
    packing: Any,
    neat_packing: Any,
) -> bool:
    """Whether torchao's linears get any number of tokens, and do not pad them.

    The collator of sft pads each sample to a multiple of 8; pt has none, and packs
    unless the file says no (train/sft/workflow.py, train/pt/workflow.py).
    """
    if not fp8_on or fp8_engine != "torchao" or packing or neat_packing:
        return False
    if stage == "pt" and packing is None:
        return False
    padded = 8 if stage == "sft" else 1
    return int(per_device_train_batch_size) * padded % 16 != 0


def length_help(stage: Any) -> str:
    """What to do against it, in words."""
    batch = "an even `per_device_train_batch_size`"
    return Words(
        f"use {batch}" if stage == "sft" else "leave `packing` out: pt packs then"
    )


def fp8_leaves_odd_sizes() -> bool:
    """Whether linears whose sizes 16 does not divide stay in bf16: Accelerate's do."""
    return True


def fp8_tokens_vary() -> bool:
    """Whether micro-batches have fewer tokens than the longest: samples differ."""
    return True


def experts_grouped(
    trainer_version: str, transformers_release: str = "", transformers_at_most: str = ""
) -> bool:
    """Whether one grouped product computes all experts: with transformers 5.

    0.9.4 needs 4.57.1 or older. For 0.9.5 it is assumed where no file pins a release.
    """
    release = transformers_release or transformers_at_most
    return trainer_version != "0.9.4" and not release.startswith("4")


PLAIN = {
    "stage": (("sft", "pt"), "model.other"),
    "flash_attn": (("auto", "sdpa", "fa2", "fa3"), "activation_bytes.scores"),
    "enable_liger_kernel": ((False,), "logit_bytes.fused"),
    "deepspeed": ((None,), "memory.parallel"),
}
"""The values of keys with which memory is known, and what is missing with others."""

OTHERS = (
    "use_unsloth", "use_galore", "use_apollo", "use_badam", "use_adam_mini", "use_muon",
    "use_kt", "use_llama_pro", "use_dft_loss", "use_eaft_loss", "use_asft_loss",
    "upcast_layernorm", "upcast_lmhead_output", "shift_attn", "mixture_of_depths",
)  # fmt: skip
"""Switches that change what is held; each is off unless it is set."""


def whole_model(finetuning_type: Any, quantization_bit: Any) -> bool:
    """True unless the model gets adapters, is quantized, or parts of it are frozen."""
    if finetuning_type != "full" or quantization_bit is not None:
        raise Unknown("model.adapter")
    return True


def covered(job: Job, whole_model: bool) -> bool:
    """True unless something else is on that no estimate covers."""
    for key, (values, gap) in PLAIN.items():
        if job[key] not in values:
            raise Unknown(gap)
    if any(job.find(key) for key in OTHERS):
        raise Unknown("memory.switch")
    return whole_model


def step_ranks(
    world_size: int,
    parallelism_config: Any = None,
    use_mca: Any = None,
    use_hyper_parallel: Any = None,
) -> int:
    """Data-parallel ranks: all GPUs, whatever they share of the weights."""
    if parallelism_config or use_mca or use_hyper_parallel:
        raise Unknown("step.ranks")
    return world_size


def parallel(world_size: int, fsdp: Any = None, fsdp_config: Any = None) -> str:
    """What holds the weights: FSDP as the file says it, or one GPU alone.

    Without it the file is started with DDP, or by ``accelerate launch`` with anything.
    """
    if not fsdp:
        return Words(known("memory.launch", "" if world_size == 1 else None))
    options = fsdp_config if isinstance(fsdp_config, dict) else {}
    words = " ".join(fsdp) if isinstance(fsdp, list) else str(fsdp)
    if sorted(words.split()) != ["auto_wrap", "full_shard"]:
        raise Unknown("shards.strategy")
    version = str(options.get("version", options.get("fsdp_version", 1)))
    return Words("fsdp2" if version == "2" else "fsdp1")


def loads_on_one_rank(fsdp: Any = None, fsdp_config: Any = None) -> bool:
    """Whether one rank loads the weights for all; not so unless it is asked for.

    The prefix ``fsdp_`` is cut from the names of options.
    """
    options = fsdp_config if isinstance(fsdp_config, dict) else {}
    name = "cpu_ram_efficient_loading"
    asked = options.get(f"fsdp_{name}", options.get(name))
    return bool(fsdp) and str(asked).lower() == "true"


def fsdp_upcasts(pure_bf16: Any) -> bool:
    """Whether FSDP casts the weights to fp32: with mixed precision."""
    return not pure_bf16


def samples_may_be_shorter(stage: Any, packing: Any, neat_packing: Any) -> bool:
    """Whether batches may be shorter than ``cutoff_len``: pretraining packs."""
    return not (packing or neat_packing or (stage == "pt" and packing is None))


def loaded_bytes(pure_bf16: Any) -> int:
    """Bytes per parameter of the weights, which are cast to fp32 to be trained.

    model/adapter.py, init_adapter.
    """
    return 2 if pure_bf16 else 4


def trial_refusal() -> str:
    """Why the built-in trial would differ from this run."""
    return "transformers' model and the Trainer's loop"
