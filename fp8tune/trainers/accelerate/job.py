"""A launch file and its training arguments as a job: what their keys mean together.

Every public function is a field of the job or a fact of this trainer; its parameters
name what it reads (``fsdp_config_fsdp_version`` is the key
``fsdp_config.fsdp_version``). A parameter with a default is a key of a file that may
not be known, or that some releases do not have.

Source: accelerate 1.8.1 to 1.15.0, accelerator.py, state.py and utils/dataclasses.py;
transformers 4.57.6 to 5.23.0, training_args.py; TRL 0.24.0 and 1.16.0.
``python -m benchmarks.accelerate.verdicts --fp8`` compares what it says of FP8.
"""

from __future__ import annotations

from typing import Any

from fp8tune.job import Job, Unknown, Words, known

ARGUMENTS, LAUNCH, BF16 = "training_arguments", "launch_file", "training_bf16"
"""What a user can give where it is missing: ``[missing]`` of trainer.toml."""

TRUE_WORDS = ("y", "yes", "t", "true", "on", "1")
FALSE_WORDS = ("n", "no", "f", "false", "off", "0")
"""What Accelerate reads as true and as false (utils/environment.py)."""


def is_run() -> bool:
    """Whether the files describe a run: always."""
    return True


def asks_fp8(mixed_precision: str) -> bool:
    """Whether the launcher asks for FP8."""
    return mixed_precision == "fp8"


def forced_precision(
    training: bool | None = None,
    training_bf16: Any = None,
    training_fp16: Any = None,
    trl_arguments: bool = False,
) -> str:
    """Precision that the training arguments force on the launcher, ``""`` for none.

    transformers has ``bf16`` off unless it is set, TRL has it on. Without a key that is
    TRL's own, and without ``bf16``, it is not known which of them reads the file.
    """
    if training is None:
        raise Unknown(ARGUMENTS)
    if training_fp16 and not _quoted_false(training_fp16):
        return Words("fp16")
    if training_bf16 and not _quoted_false(training_bf16):
        return Words("bf16")
    if training_bf16 is None and trl_arguments:
        return Words("bf16")
    if training_bf16 is None or training_bf16 or training_fp16:
        raise Unknown(BF16)
    return Words("")


def forced_by(training_fp16: Any = None) -> str:
    """The training argument that forces a precision."""
    fp16 = training_fp16 and not _quoted_false(training_fp16)
    return Words("training.fp16" if fp16 else "training.bf16")


def _quoted_false(value: Any) -> bool:
    """Whether a value is false as a text, which only some parsers take for true."""
    return isinstance(value, str) and value.strip().lower() in FALSE_WORDS


def starts_fp8(trainer_version: str, asks_fp8: bool) -> bool:
    """Whether a run in FP8 starts: release 1.8 hands booleans to the script's process.

    subprocess refuses an environment with values that are no text (setup_fp8_env).
    """
    return asks_fp8 and not trainer_version.startswith("1.8")


def fp8_backend(fp8_config_backend: Any = None) -> str:
    """The FP8 library that the launch file names, ``""`` if it names none."""
    return Words("" if fp8_config_backend is None else str(fp8_config_backend))


def fp8_engine(fp8_backend: str, torchao_release: str = "") -> str:
    """The FP8 library that is used: without a name torchao, if it is installed."""
    if fp8_backend not in ("", "NO"):
        return Words(fp8_backend)
    return Words(known("fp8_backend", "AO" if torchao_release else None))


def torchao(fp8_engine: str) -> bool:
    """Whether torchao computes in FP8; unknown if what is installed decides."""
    return fp8_engine == "AO"


def may_be_torchao(fp8_backend: str) -> bool:
    """Whether torchao computes in FP8 if it is there: without a name it is first."""
    return fp8_backend in ("", "NO", "AO")


def torchao_set_up(fp8_backend: str, forced_precision: str | None = None) -> bool:
    """Whether Accelerate sets torchao up, and checks its options, if it is there.

    A backend that is named is looked at even where the arguments turn FP8 off. Without
    one it is unknown where they are: TRL turns FP8 off, transformers does not.
    """
    if fp8_backend in ("", "NO"):
        return not known(BF16, forced_precision)
    return fp8_backend == "AO"


def fsdp2(
    distributed_type: Any,
    fsdp_config_fsdp_version: Any = 1,
    training_fsdp: Any = None,
) -> bool:
    """Whether FSDP2 shards the model; unknown if training arguments ask for FSDP."""
    if distributed_type == "FSDP":
        return str(fsdp_config_fsdp_version) == "2"
    return known("sharded", None if training_fsdp else False)


def loads_on_one_rank(
    distributed_type: Any, fsdp_config_fsdp_cpu_ram_efficient_loading: Any = True
) -> bool:
    """Whether FSDP loads the checkpoint on one rank: so unless the file says no."""
    if distributed_type != "FSDP":
        return False
    return _is_true(fsdp_config_fsdp_cpu_ram_efficient_loading)


def precision(
    trainer_version: str,
    forced_precision: str,
    mixed_precision: str | None = None,
    fp8_backend: str = "",
    fp8_engine: str = "",
    fsdp2: bool | None = None,
    distributed_type: Any = "",
) -> str:
    """Precision of the linears: what the training arguments leave of the launcher's.

    Unknown with DeepSpeed, whose precision the Trainer compares with its own.

    Transformer Engine's layers stay out of FP8 under FSDP2, whose path never enters
    ``fp8_autocast`` (_prepare_fsdp2).
    """
    if forced_precision and mixed_precision == "fp8" and fp8_backend == "TE":
        raise Unknown("precision.backend")  # its autocast may still be entered
    if forced_precision:
        return Words(forced_precision)
    if mixed_precision is None:
        raise Unknown(LAUNCH)
    if distributed_type == "DEEPSPEED":
        raise Unknown("precision.deepspeed")
    if mixed_precision != "fp8":
        return Words(
            known("precision", {"bf16": "bf16", "fp16": "fp16"}.get(mixed_precision))
        )
    if fp8_engine not in ("AO", "TE") or trainer_version.startswith("1.8"):
        raise Unknown("precision.backend")
    if fp8_engine == "TE":
        return Words("bf16" if known("sharded", fsdp2) else "fp8")
    return Words("fp8")


def fp8_recipe(torchao: bool, fp8_backend: str = "") -> str:
    """The torchao recipe: always tensorwise."""
    missing = "speed.te" if fp8_backend == "TE" else "fp8_recipe"
    return Words(known(missing, "tensorwise" if torchao else None))


def te_recipe(
    fp8_backend: str, starts_fp8: bool, fp8_config_use_mxfp8_block_scaling: Any = None
) -> str:
    """Transformer Engine's recipe, ``""`` without it: delayed scaling, or MXFP8."""
    if not starts_fp8 or fp8_backend != "TE":
        return Words("")
    return Words("mxfp8" if _is_true(fp8_config_use_mxfp8_block_scaling) else "delayed")


def gathers_fp8(
    asks_fp8: bool,
    may_be_torchao: bool,
    fp8_config_enable_fsdp_float8_all_gather: Any = False,
) -> bool:
    """Whether torchao's weights are made for FSDP2's all-gather, with FSDP or without.

    On by default since 1.13, off and without a key before.
    """
    return (
        asks_fp8
        and may_be_torchao
        and _is_true(fp8_config_enable_fsdp_float8_all_gather)
    )


def fp8_all_gather(gathers_fp8: bool, fsdp2: bool, precision: str) -> bool:
    """Whether FSDP2 gathers weights in FP8."""
    return precision == "fp8" and gathers_fp8 and fsdp2


def saves_whole_model(
    training_save_strategy: Any,
    distributed_type: Any,
    fsdp2: bool,
    fsdp_config_fsdp_state_dict_type: Any = None,
) -> bool:
    """Whether the Trainer writes the model's weights as one file during the run.

    FSDP2 writes shards unless ``FULL_STATE_DICT`` is set. Unknown with FSDP1 and
    DeepSpeed.
    """
    if training_save_strategy in ("no", False):
        return False
    if distributed_type in ("DEEPSPEED", "MEGATRON_LM"):
        raise Unknown("training.save_strategy")
    if distributed_type == "FSDP":
        if not fsdp2:
            raise Unknown("training.save_strategy")
        return bool(fsdp_config_fsdp_state_dict_type == "FULL_STATE_DICT")
    return True


def compile(  # noqa: A001
    training_torch_compile: Any = None,
    training_torch_compile_backend: Any = None,
    dynamo_backend_used: bool = False,
    training: bool | None = None,
) -> bool:
    """Whether the model is compiled, by the Trainer or by the launcher."""
    if dynamo_backend_used:
        return True
    known(ARGUMENTS, training)
    return bool(training_torch_compile) or training_torch_compile_backend is not None


def dynamo_backend_used(dynamo_config_dynamo_backend: Any = None) -> bool:
    """Whether the launch file compiles the model."""
    return str(dynamo_config_dynamo_backend or "NO").upper() != "NO"


def ac(
    training_gradient_checkpointing: Any,
    fsdp_config_fsdp_activation_checkpointing: Any = False,
    training_max_length: Any = None,
    trl_arguments: bool = False,
) -> str:
    """AC mode: the whole of each block, or none.

    transformers has it off unless it is set, TRL has it on.
    """
    if training_gradient_checkpointing is None and (
        trl_arguments or training_max_length
    ):
        raise Unknown("ac.unsaid")
    on = training_gradient_checkpointing or _is_true(
        fsdp_config_fsdp_activation_checkpointing
    )
    return Words("full" if on else "none")


def fp8_converts_head() -> bool:
    """Whether the output head runs in FP8: Accelerate leaves first and last linear."""
    return False


def seq_len(
    training_max_length: Any = None, training_max_seq_length: Any = None
) -> int:
    """Tokens per sequence, if the training arguments say how long one is at most."""
    length = training_max_length or training_max_seq_length
    return known("seq_len", length if isinstance(length, int) else None)


def declared_gpus(num_processes: Any) -> int:
    """Number of GPUs: one for each process."""
    whole = isinstance(num_processes, int) and num_processes > 0
    return int(known("world_size", num_processes if whole else None))


def trial_refusal() -> str:
    """Why the built-in trial would differ from this run."""
    return "the model, the data and the loop of a script that only Python says"


def _is_true(value: Any) -> bool:
    """Whether Accelerate takes a value for true, as text in its environment."""
    return str(value).lower() in TRUE_WORDS


TE_OPTIONS = {
    "use_autocast_during_eval": False,
    "margin": 0,
    "interval": 1,
    "fp8_format": "HYBRID",
    "amax_history_len": 1024,
    "amax_compute_algo": "most_recent",
    "override_linear_precision": [False, False, False],
    "use_mxfp8_block_scaling": None,
}
"""Options of Transformer Engine's recipe, and Accelerate's defaults."""

AO_OPTIONS = ("enable_fsdp_float8_all_gather", "pad_inner_dim")
"""Options of torchao, since 1.13."""

OPTIONS = {"AO": AO_OPTIONS, "TE": tuple(TE_OPTIONS), "MSAMP": ("opt_level",)}
"""The options that each backend reads (utils/dataclasses.py)."""


OVERRIDE = "override_linear_precision"
GONE = {OVERRIDE: ("2.1", 2.01), "interval": ("2.3", 2.03)}
"""Options of a recipe, and the release of Transformer Engine that removed each."""

NEW = 9.0
"""Stands for the release of a new installation."""


def options_of_others(job: Job, fp8_backend: str) -> str:
    """Options of ``fp8_config`` that this backend does not read."""
    own = OPTIONS.get(fp8_backend)
    if own is None:
        raise Unknown("fp8_backend")
    every = (option for options in OPTIONS.values() for option in options)
    names = [o for o in every if o not in own and _writes(job, o)]
    return Words(", ".join(f"`{name}`" for name in names))


def te_options(job: Job) -> bool:
    """Whether the file sets an option of Transformer Engine other than its default."""
    return any(_differs(job, name) for name in TE_OPTIONS)


def history_option(job: Job, fp8_config_amax_compute_algo: Any = None) -> str:
    """The option that asks for a history of maxima as delayed scaling has it."""
    if fp8_config_amax_compute_algo == "max":
        return Words("fp8_config.amax_compute_algo")
    longer = _differs(job, "amax_history_len")
    return Words("fp8_config.amax_history_len" if longer else "")


def te_option_gone(
    job: Job, overrides_unreadable: bool, te_version: float = NEW
) -> str:
    """The option that the recipes of this release of Transformer Engine lack.

    Without a known release those of a new installation.
    """
    for name, (_, first) in GONE.items():
        readable = name != OVERRIDE or not overrides_unreadable
        if readable and _differs(job, name) and te_version >= first:
            return Words(f"fp8_config.{name}")
    return Words("")


def te_option_until(te_option_gone: str) -> str:
    """The first release of Transformer Engine without the option."""
    return Words(GONE[te_option_gone.removeprefix("fp8_config.")][0])


def overrides_unreadable(fp8_config_override_linear_precision: Any = None) -> bool:
    """Whether one of the three switches of the GEMMs is neither true nor false."""
    value = fp8_config_override_linear_precision
    three = value[:3] if isinstance(value, (str, list)) else ()
    return any(str(part).lower() not in TRUE_WORDS + FALSE_WORDS for part in three)


def unreadable_switch(job: Job) -> str:
    """The switch of torchao that is neither true nor false."""
    for key in (f"fp8_config.{name}" for name in AO_OPTIONS):
        value = job.given.get(key)
        if value is not None and str(value).lower() not in TRUE_WORDS + FALSE_WORDS:
            return Words(key)
    return Words("")


def te_format(fp8_config_fp8_format: Any = "HYBRID") -> str:
    """Format of Transformer Engine's recipe."""
    return Words(str(fp8_config_fp8_format).upper())


def te_option_refused(te_format: str, fp8_config_amax_compute_algo: Any = None) -> str:
    """The key of Transformer Engine's option whose value Accelerate refuses."""
    if te_format not in ("HYBRID", "E4M3", "E5M2", "NONE"):
        return Words("fp8_config.fp8_format")
    algorithm = str(fp8_config_amax_compute_algo).lower()
    wrong = algorithm not in ("max", "most_recent", "none")
    return Words("fp8_config.amax_compute_algo" if wrong else "")


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
        raise Unknown("precision.deepspeed")
    return True


def _writes(job: Job, option: str) -> bool:
    return f"fp8_config.{option}" in job.written


def _differs(job: Job, option: str) -> bool:
    value = job.given.get(f"fp8_config.{option}")
    return _writes(job, option) and value is not None and value != TE_OPTIONS[option]


def not_taken(
    job: Job, rdzv_backend: Any = "static", enable_cpu_affinity: Any = False
) -> str:
    """The key of the file that a default of the launcher replaces."""
    if "rdzv_backend" in job.written and rdzv_backend != "static":
        return Words("rdzv_backend")
    written = "enable_cpu_affinity" in job.written
    return Words("enable_cpu_affinity" if written and enable_cpu_affinity else "")


def scaled_half_weights(
    training_dtype: Any = None,
    training_torch_dtype: Any = None,
    training_fp16: Any = None,
    training_use_peft: Any = None,
) -> bool:
    """Whether weights are loaded in fp16, and fp16 scales their gradients."""
    names = {str(training_dtype).lower(), str(training_torch_dtype).lower()}
    half = not names.isdisjoint(("float16", "fp16", "half", "torch.float16"))
    return half and bool(training_fp16) and not training_use_peft


def lengths_vary(
    micro_batch: Any,
    trl_arguments: bool,
    training_packing: Any = None,
    training_padding_free: Any = None,
    training_pad_to_multiple_of: Any = None,
) -> bool:
    """Whether TRL's batches may have any number of tokens; unknown for other scripts.

    Its collators pad to the longest sample of a batch. What packing gives depends on
    the release and on its strategy.
    """
    if not trl_arguments or training_packing:
        raise Unknown("seq_len")
    rows = 1 if training_padding_free else int(micro_batch)
    return rows * int(training_pad_to_multiple_of or 1) % 16 != 0


def fp8_leaves_odd_sizes() -> bool:
    """Whether linears whose sizes 16 does not divide stay in bf16: Accelerate's do."""
    return True


def fp8_tokens_vary() -> bool:
    """Whether micro-batches have fewer tokens than the longest: samples differ."""
    return True
