"""A launch file and its training arguments as a job: what their keys mean together.

Every public function is a field of the job or a fact of this trainer; its parameters
name what it reads (``fsdp_config_fsdp_version`` is the key
``fsdp_config.fsdp_version``). A parameter with a default is a key of a file that may
not be known, or that some releases do not have.

Source: accelerate 1.8.1 to 1.15.0, accelerator.py, state.py and utils/dataclasses.py;
transformers 4.57.6 to 5.23.0, training_args.py; TRL 0.24.0 and 1.16.0.
``python -m tools.verdicts accelerate --fp8`` compares what it says of FP8.
"""

from __future__ import annotations

from typing import Any

from fp8tune.job import Job, Prose, Unknown, Words, known, ranks_left

ARGUMENTS, LAUNCH, BF16 = "training_arguments", "launch_file", "training_bf16"
"""What a user can give where it is missing: ``[missing]`` of trainer.toml."""

LLAMAFACTORY_FP8_UNTIL = 5.03
"""The release of transformers from which ``fp8`` of LLaMA-Factory has no effect."""

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
    arguments_known: bool | None = None,
    training_bf16: Any = None,
    training_fp16: Any = None,
    trl_arguments: bool = False,
    llamafactory_fp8: bool = False,
    transformers: float | None = None,
) -> str:
    """Precision that the training arguments force on the launcher, ``""`` for none.

    transformers has ``bf16`` off unless it is set, TRL has it on. Without a key that is
    TRL's own, and without ``bf16``, it is not known which of them reads the file.
    LLaMA-Factory's own ``fp8`` counts with transformers before 5.3.
    """
    if arguments_known is None:
        raise Unknown(ARGUMENTS)
    if (
        llamafactory_fp8
        and known("transformers", transformers) < LLAMAFACTORY_FP8_UNTIL
    ):
        raise Unknown("llamafactory_fp8")
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


def may_be_fp8(launched_precision: str) -> bool:
    """Whether the launch file leaves FP8 possible."""
    return launched_precision in ("", "fp8")


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
    training_deepspeed: Any = None,
) -> bool:
    """Whether FSDP2 shards the model; unknown if training arguments say otherwise."""
    if distributed_type == "FSDP" and training_deepspeed:
        raise Unknown("precision.zero")
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


def fsdp_checkpointing(
    use_cpu: Any = False,
    fsdp_config_fsdp_activation_checkpointing: Any = False,
    training_fsdp_config: Any = None,
) -> bool:
    """Whether FSDP recomputes activations.

    Unknown if the training arguments say something of FSDP too, which replaces it in
    some releases of transformers.
    """
    on = _is_true(fsdp_config_fsdp_activation_checkpointing) and not _is_true(use_cpu)
    if training_fsdp_config is not None:
        raise Unknown("sharded")
    return on


def launched_precision(mixed_precision: str | None = None) -> str:
    """The launcher's precision, ``""`` if its file is not known."""
    return Words(mixed_precision or "")


def precision(
    launched_precision: str,
    trainer_version: str,
    forced_precision: str,
    fp8_backend: str = "",
    fp8_engine: str = "",
    fsdp2: bool | None = None,
    distributed_type: Any = "",
    training_deepspeed: Any = None,
) -> str:
    """Precision of the linears: what the training arguments leave of the launcher's.

    Unknown with DeepSpeed, whose precision the Trainer compares with its own.

    Transformer Engine's layers stay out of FP8 under FSDP2, whose path never enters
    ``fp8_autocast`` (_prepare_fsdp2). Elsewhere they stay in FP8 if the arguments force
    another precision: the backend comes from the environment (prepare_model).
    """
    te = launched_precision == "fp8" and fp8_backend == "TE"
    if forced_precision and te and not trainer_version.startswith("1.8"):
        if training_deepspeed or distributed_type not in ("NO", "MULTI_GPU", "FSDP"):
            raise Unknown("precision.zero")
        off = distributed_type == "FSDP" and known("sharded", fsdp2)
        return Words(forced_precision if off else "fp8")
    if forced_precision:
        return Words(forced_precision)
    if not launched_precision:
        raise Unknown(LAUNCH)
    if distributed_type == "DEEPSPEED" or training_deepspeed:
        raise Unknown("precision.zero")
    if launched_precision != "fp8":
        names = {"bf16": "bf16", "fp16": "fp16"}
        return Words(known("precision", names.get(launched_precision)))
    if fp8_backend in ("", "NO") and not fp8_engine:
        raise Unknown("fp8_backend")
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
    fp8_backend: str,
    starts_fp8: bool,
    te_options_read: bool,
    fp8_config_use_mxfp8_block_scaling: Any = None,
) -> str:
    """Transformer Engine's recipe, ``""`` without it: delayed scaling, or MXFP8."""
    if not starts_fp8 or fp8_backend != "TE":
        return Words("")
    blocks = te_options_read and _is_true(fp8_config_use_mxfp8_block_scaling)
    return Words("mxfp8" if blocks else "delayed")


def kv_apart() -> bool:
    """Whether keys and values are linears apart from the queries': in transformers."""
    return True


def te_converts(
    te_recipe: str, distributed_type: Any, fsdp2: bool | None = None
) -> bool:
    """Whether Transformer Engine's linears compute in FP8: not with FSDP2."""
    if not te_recipe:
        return False
    return distributed_type != "FSDP" or not known("sharded", fsdp2)


def te_head_apart(
    te_converts: bool,
    tied_embeddings: bool,
    fp8_converts_head: bool,
    distributed_type: Any,
) -> bool:
    """Whether the head of tied embeddings gets a weight that no optimizer has.

    The conversion makes a new layer of it, and the optimizer keeps the parameters that
    it had. Known for DDP and one GPU.
    """
    if distributed_type not in ("NO", "MULTI_GPU"):
        raise Unknown("sharded")
    return te_converts and tied_embeddings and fp8_converts_head


def transformers(transformers_release: str | None = None) -> float:
    """Release of transformers as a number, its first two parts: 5.03 is 5.3."""
    first, _, rest = known("transformers", transformers_release).partition(".")
    return int(first) + int(rest.partition(".")[0] or 0) / 100


def experts_in_tensors(transformers: float) -> bool:
    """Whether a block's experts are 3-D parameters: so since transformers 5."""
    return transformers >= 5


def other_precision() -> str:
    """Precision of what FP8 does not convert."""
    return Words("bf16")


def torch_from_2_13(torch_release: str | None = None) -> bool:
    """Whether torch is 2.13 or later, which refuses a weight in two FSDP groups."""
    first, second = known("torch", torch_release).split(".")[:2]
    return (int(first), int(second)) >= (2, 13)


LIBRARIES = {"AO": "torchao", "TE": "transformer_engine"}


def fp8_library_missing(
    job: Job, fp8_backend: str, environment_known: bool = False
) -> str:
    """The library of the backend that is named, if the environment does not have it."""
    name = LIBRARIES.get(fp8_backend, "")
    there = not name or f"{name}_release" in job.given
    return Words("" if there or not environment_known else name)


def fp8_judged_apart() -> bool:
    """Whether rules of its own say what FP8 does on a GPU without it: so here."""
    return True


def fp8_without_units(
    starts_fp8: bool,
    fp8_backend: str,
    arguments_known: bool | None = None,
    forced_precision: str | None = None,
    transformers: float | None = None,
    te_converts: bool | None = None,
) -> str:
    """What FP8 does on a GPU without it: ``ends``, ``fp16``, or ``either`` of these.

    ``open`` if the training arguments may turn it off, and empty if they do.
    Accelerate takes fp16 in its place (state.py), but converts the model all the same
    if a backend is named, or if the Trainer hands it the precision, as that of
    transformers 5 does.
    """
    if not starts_fp8 or (forced_precision and fp8_backend != "TE"):
        return Words("")
    if fp8_backend in ("AO", "TE"):
        converts = fp8_backend == "AO" or known("sharded", te_converts)
        return Words("ends" if converts else "")
    if fp8_backend not in ("", "NO"):
        return Words("")
    if not arguments_known or forced_precision is None:
        return Words("open")
    if transformers is None:
        return Words("either")
    return Words("ends" if transformers >= 5 else "fp16")


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
    training_use_peft: Any = None,
    training_lora_r: Any = None,
    llamafactory: bool = False,
) -> bool:
    """Whether the Trainer writes the weights as they are during the run.

    With PEFT it writes the adapters alone, which are FP8 where 16 divides their rank:
    TRL's default is 16.

    FSDP2 does not: it writes shards, or gathers them, which unwraps FP8 weights
    (``benchmarks/results/accelerate_verdicts.md``). Unknown with FSDP1, DeepSpeed and
    LLaMA-Factory, whose releases take Accelerate 1.11 at most.
    """
    if training_save_strategy in ("no", False):
        return False
    if llamafactory or distributed_type in ("DEEPSPEED", "MEGATRON_LM"):
        raise Unknown("training.save_strategy")
    if (training_use_peft or training_lora_r) and (training_lora_r or 16) % 16:
        return False
    if distributed_type == "FSDP":
        if not fsdp2:
            raise Unknown("training.save_strategy")
        return False
    return True


def compile(  # noqa: A001
    training_torch_compile: Any = None,
    training_torch_compile_backend: Any = None,
    dynamo_backend_used: bool = False,
    arguments_known: bool | None = None,
) -> bool:
    """Whether the model is compiled, by the Trainer or by the launcher."""
    if dynamo_backend_used:
        return True
    known(ARGUMENTS, arguments_known)
    return bool(training_torch_compile) or training_torch_compile_backend is not None


def checkpointing_key(training_activation_checkpointing: Any = None) -> str:
    """The training argument that says whether activations are checkpointed.

    ``activation_checkpointing`` since transformers 5.23, where it is set; the old name
    is read otherwise
    (https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/training_args.py#L1533).
    """
    new = training_activation_checkpointing is not None
    return Words(f"training.{'activation' if new else 'gradient'}_checkpointing")


def asked_checkpointing(
    training_activation_checkpointing: Any = None,
    training_gradient_checkpointing: Any = None,
) -> Any:
    """What the training arguments say about checkpointing, ``None`` if nothing."""
    if training_activation_checkpointing is not None:
        return training_activation_checkpointing
    return training_gradient_checkpointing


def trainer_checkpoints(asked_checkpointing: Any) -> bool:
    """Whether the training arguments turn activation checkpointing on."""
    return asked_checkpointing is True


def trl_checkpoints(trl_arguments: bool, asked_checkpointing: Any) -> bool:
    """Whether TRL's default turns activation checkpointing on."""
    return trl_arguments and asked_checkpointing is None


def dynamo_backend_used(dynamo_config_dynamo_backend: Any = None) -> bool:
    """Whether the launch file compiles the model."""
    return str(dynamo_config_dynamo_backend or "NO").upper() != "NO"


def ac(
    asked_checkpointing: Any,
    fsdp_config_fsdp_activation_checkpointing: Any = False,
    training_max_length: Any = None,
    trl_arguments: bool = False,
    llamafactory: bool = False,
) -> str:
    """AC mode: the whole of each block, or none.

    transformers has it off unless it is set, TRL has it on.
    """
    unsaid = asked_checkpointing is None and (trl_arguments or training_max_length)
    if unsaid or llamafactory:
        raise Unknown("ac.unsaid")
    on = asked_checkpointing or _is_true(fsdp_config_fsdp_activation_checkpointing)
    return Words("full" if on else "none")


def fp8_converts_head(job: Job, fp8_backend: str = "") -> bool:
    """Whether the output head runs in FP8.

    Of torchao's linears Accelerate leaves the first and the last as they are;
    Transformer Engine gets all whose sizes 16 divides (utils/transformer_engine.py).
    """
    if fp8_backend != "TE":
        return False
    return not (job["vocab_size"] % 16 or job["hidden_size"] % 16)


def seq_len(
    training_max_length: Any = None,
    training_max_seq_length: Any = None,
    training_model_max_length: Any = None,
    training_block_size: Any = None,
    training_max_completion_length: Any = None,
) -> int:
    """Tokens per sequence, if the training arguments say how long one is at most.

    By the names of TRL and of common scripts of transformers' Trainer. Raises
    ``Unknown`` for trainers that generate their samples, such as TRL's GRPO.
    """
    of_trl = training_max_length or training_max_seq_length
    length = of_trl or training_model_max_length or training_block_size
    if training_max_completion_length and not length:
        raise Unknown("seq_len.generated")
    return known("seq_len", length if isinstance(length, int) else None)


def step_ranks(
    world_size: int,
    distributed_type: Any = "",
    parallelism_config_parallelism_config_tp_size: Any = 1,
    parallelism_config_parallelism_config_cp_size: Any = 1,
    parallelism_config_parallelism_config_sp_size: Any = 1,
) -> int:
    """Ranks with different sequences: all that do not compute one together."""
    if distributed_type == "MEGATRON_LM":
        raise Unknown("step.ranks")
    together = (
        int(parallelism_config_parallelism_config_tp_size)
        * int(parallelism_config_parallelism_config_cp_size)
        * int(parallelism_config_parallelism_config_sp_size)
    )
    return ranks_left(world_size, together)


def declared_gpus(num_processes: Any, world_size: int | None = None) -> int:
    """Number of GPUs: one for each process, or as many as the user asks about.

    The number of processes says how a file is launched: other numbers start too.
    """
    whole = isinstance(num_processes, int) and num_processes > 0
    return int(known("world_size", world_size or (num_processes if whole else None)))


def trial_refusal() -> str:
    """Why the built-in trial would differ from this run."""
    return "the model, the data and the loop of a script that only Python says"


def _is_true(value: Any) -> bool:
    """Whether Accelerate takes a value for true, as text in its environment."""
    return str(value).lower() in TRUE_WORDS


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


def weight_bits(
    training_load_in_4bit: Any = None, training_load_in_8bit: Any = None
) -> int:
    """Bits per weight of what bitsandbytes quantizes; 16 if it does not."""
    return (
        4
        if training_load_in_4bit is True
        else 8
        if training_load_in_8bit is True
        else 16
    )


def any_length(
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


def float8_any_length(
    precision: str,
    torchao: bool,
    any_length: bool,
    fp8_config_pad_inner_dim: Any = False,
) -> bool:
    """Whether torchao's linears get any number of tokens, and do not pad them.

    ``pad_inner_dim`` pads the dimension over which a GEMM sums: of the weight
    gradient's, the tokens. Accelerate has it on since 1.13, and off before.
    """
    return (
        precision == "fp8"
        and torchao
        and not _is_true(fp8_config_pad_inner_dim)
        and any_length
    )


def length_help(trainer_version: str) -> str:
    """What to do against it, in words."""
    new = tuple(map(int, trainer_version.split(".")[:2])) >= (1, 13)
    padded = "leave `pad_inner_dim` on" if new else "use Accelerate 1.13 or later"
    why = "" if new else ", which pads them in each GEMM"
    return Prose(
        f"set `pad_to_multiple_of: 16` in the training arguments, or {padded}{why}"
    )


def fp8_leaves_odd_sizes() -> bool:
    """Whether linears whose sizes 16 does not divide stay in bf16: Accelerate's do."""
    return True


def fp8_tokens_vary() -> bool:
    """Whether micro-batches have fewer tokens than the longest: samples differ."""
    return True
