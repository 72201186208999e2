"""An Axolotl config as a job: what its keys mean beyond their values.

Every public function is a field of the job or a fact of this trainer; its parameters
name what it reads.

Source: Axolotl 0.18.0 and 0.19.0, core/builders/*.py, core/trainers/base.py,
loaders/patch_manager.py, utils/config/__init__.py. ``python -m
tools.verdicts axolotl`` compares ``fp8_on`` with the modules that the trainer
converts.
"""

from __future__ import annotations

from typing import Any

from fp8tune.job import Job, Unknown, Words, known, ranks_left

OWN_PLUGINS = "axolotl.integrations."
"""What the names of the plugins that Axolotl ships begin with."""
WITH_TRAINERS = ("diffusion", "hatchery", "kd")
"""Those of them that bring a trainer of their own."""


def is_run() -> bool:
    """Whether the file describes a run: always."""
    return True


def torch_release() -> str:
    """Release of torch; unknown if no file beside the config pins it."""
    raise Unknown("torch")


def torch_before_2_11(torch_release: str) -> bool:
    """Whether torch is older than 2.11."""
    first, second = torch_release.split(".")[:2]
    return (int(first), int(second)) < (2, 11)


def preference_trainer(
    rl: Any,
    reward_model: Any,
    process_reward_model: Any,
    trainer_cls: Any,
    plugins: Any,
) -> bool:
    """Whether one of TRL's trainers runs, not Axolotl's own.

    Those lack the method that turns FP8 on (core/trainers/base.py). Unknown where a
    plugin or the config brings a class of its own.
    """
    if rl or reward_model or process_reward_model:
        return True
    names = plugins if isinstance(plugins, list) else [plugins or OWN_PLUGINS]
    if trainer_cls or not all(map(_keeps_trainer, names)):
        raise Unknown("preference_trainer")
    return False


def _keeps_trainer(plugin: Any) -> bool:
    """Whether a plugin leaves Axolotl's own trainer in place."""
    name = str(plugin)
    mine = name.removeprefix(OWN_PLUGINS).partition(".")[0]
    return name.startswith(OWN_PLUGINS) and mine not in WITH_TRAINERS


def bf16_on(bf16: Any, bfloat16: Any, fp16: Any) -> bool:
    """Whether bf16 mixed precision is on; auto is on where the GPU has it."""
    if bf16 == "auto":
        return not fp16
    return bool(bf16 or bfloat16)


def fp8_judged_apart() -> bool:
    """Whether rules of its own say what FP8 does on a GPU without it: so here."""
    return True


def other_precision(bf16_on: bool, fp16: Any) -> str:
    """Mixed precision of what is not converted."""
    if bf16_on:
        return Words("bf16")
    return Words("fp16" if fp16 else "fp32")


def fp8_lost(fp8: Any, preference_trainer: bool, other_precision: str) -> bool:
    """Whether FP8 is asked for and never turned on.

    TRL's trainers hand the mixed precision of their arguments to Accelerate. Where that
    is none, Accelerate reads the variable that Axolotl sets, and FP8 is on.
    """
    return bool(fp8) and preference_trainer and other_precision != "fp32"


def fp8_on(fp8: Any, fp8_lost: bool) -> bool:
    """Whether linears are converted."""
    return bool(fp8) and not fp8_lost


KERNELS = {
    "lora_qkv_kernel": ("q_proj", "k_proj", "v_proj"),
    "lora_o_kernel": ("o_proj",),
    "lora_mlp_kernel": ("gate_proj", "up_proj", "down_proj"),
}
"""Linears whose products LoRA's kernels compute (monkeypatch/lora_kernels.py)."""

CHOSEN = (*KERNELS, "lora_embedding_kernel")
"""Keys of which one turns off that Axolotl chooses kernels itself."""


def lora_kernels(
    job: Job, adapter: Any, fsdp_config: Any, fsdp_version: Any, load_in_8bit: Any
) -> bool:
    """Whether LoRA's kernels compute the products of all linears of a dense block.

    They do if no key says otherwise (check_auto_enable_lora_kernels). Unknown for a
    mixture of experts.
    """
    if adapter not in ("lora", "qlora"):
        return False
    given = [job.find(key) for key in CHOSEN]
    if any(value is not None for value in given):
        on = all(job.find(key) for key in KERNELS)
    else:
        fsdp1 = fsdp_config is not None and str(fsdp_version) != "2"
        eight = adapter == "lora" and load_in_8bit
        skips = ("rl", "nvfp4_merge_aware", "trust_remote_code")
        on = not (fsdp1 or eight or any(job.find(key) for key in skips))
    listed = job.find("lora_target_modules")
    names = {str(name) for name in listed} if isinstance(listed, list) else set()
    every = set().union(*KERNELS.values()) <= names
    if not on or not (job.find("lora_target_linear") or every):
        return False
    if job.find("experts"):
        raise Unknown("lora_kernels")  # shared experts may still compute in FP8
    return True


def torchao(fp8_on: bool) -> bool:
    """Whether torchao computes in FP8: nothing else does in Axolotl."""
    return fp8_on


def fp8_bypassed(fp8_on: bool, lora_kernels: bool) -> bool:
    """Whether linears are converted, and none of them computes."""
    return fp8_on and lora_kernels


def weight_bits(load_in_4bit: Any, load_in_8bit: Any) -> int:
    """Bits per weight of what bitsandbytes quantizes; 16 if it does not."""
    return 4 if load_in_4bit else 8 if load_in_8bit else 16


def experts_in_tensors() -> bool:
    """Whether a block's experts are 3-D parameters: so since transformers 5."""
    return True


def precision(job: Job, fp8_on: bool, other_precision: str) -> str:
    """Compute precision of the linears."""
    if fp8_on and job.find("adapter") and job["fp8_bypassed"]:
        return other_precision
    return Words("fp8") if fp8_on else other_precision


def fp8_recipe(job: Job) -> str:
    """Recipe of torchao: tensorwise unless ``fp8_config`` says another."""
    if job["precision"] != "fp8":
        return ""
    return Words(job.find("fp8_config.recipe") or "tensorwise")


def fp8_all_gather(job: Job) -> bool:
    """Whether FSDP2 gathers weights in FP8."""
    fp8 = job["precision"] == "fp8"
    return bool(fp8 and job["fp8_enable_fsdp_float8_all_gather"])


def fp8_converts_head() -> bool:
    """Whether the output head runs in FP8: Accelerate leaves first and last linear."""
    return False


DDP = {
    "ddp_bucket_cap_mb": 25,
    "ddp_broadcast_buffers": True,
    "ddp_find_unused_parameters": False,
}
"""Settings that the Trainer hands to DDP, and DDP's own defaults."""


def ddp_setting(job: Job) -> str:
    """The first setting of DDP in the file that differs from DDP's default."""
    given = ((key, job.find(key)) for key in DDP if key in job.written)
    other = (key for key, value in given if value not in (None, DDP[key]))
    return Words(next(other, ""))


def fsdp_asked(fsdp: Any, fsdp_config: Any) -> bool:
    """Whether FSDP shards the model."""
    return bool(fsdp or fsdp_config)


OTHER_RANKS = ("tensor_parallel_size", "expert_parallel_size")
"""Degrees whose ranks hold other parts of the weights."""


def shards(
    job: Job,
    fsdp_asked: bool,
    deepspeed: Any = None,
    world_size: int | None = None,
    context_parallel_size: Any = None,
    dp_replicate_size: Any = None,
    dp_shard_size: Any = None,
) -> int:
    """Ranks that share one copy of the weights (utils/distributed.py).

    FSDP shards over the ranks of context parallelism too.
    """
    if deepspeed or any((job.find(name) or 1) > 1 for name in OTHER_RANKS):
        raise Unknown("memory.parallel")
    if not fsdp_asked:
        return 1
    if not dp_shard_size:
        return int(known("world_size", world_size)) // (dp_replicate_size or 1)
    return int(dp_shard_size) * (context_parallel_size or 1)


def step_ranks(
    world_size: int,
    context_parallel_size: Any = None,
    tensor_parallel_size: Any = None,
) -> int:
    """Data-parallel ranks: all GPUs that share no sequence, with DeepSpeed too."""
    degrees = context_parallel_size or 1, tensor_parallel_size or 1
    return ranks_left(world_size, *degrees)


def fsdp2(job: Job) -> bool:
    """Whether it is FSDP2."""
    version = job.find("fsdp_version") or job.find("fsdp_config.fsdp_version") or 1
    return bool(job["fsdp_asked"]) and str(version) == "2"


def fsdp_checkpointing(job: Job) -> bool:
    """Whether FSDP recomputes activations."""
    asked = job.find("fsdp_config.activation_checkpointing")
    return bool(job["fsdp_asked"] and asked)


def ac(job: Job, fsdp_checkpointing: bool) -> str:
    """Activation checkpointing, of the model or of FSDP."""
    if job.find("selective_checkpointing"):
        return Words("selective")
    mine = job.find("gradient_checkpointing")
    return Words("full" if mine or fsdp_checkpointing else "none")


def compile(torch_compile: Any) -> bool:  # noqa: A001
    """Whether the model is compiled: auto is, with each torch that Axolotl takes."""
    return torch_compile == "auto" or bool(torch_compile)


def scaled_half_weights(
    fp16: Any,
    other_precision: str,
    adapter: Any,
    fsdp_asked: bool,
    deepspeed: Any,
    load_in_8bit: Any,
    load_in_4bit: Any,
) -> bool:
    """Whether weights are loaded in fp16, and fp16 scales their gradients.

    ``fp16`` is both to Axolotl. FSDP and DeepSpeed have scalers of their own.
    """
    whole = not (adapter or load_in_8bit or load_in_4bit)
    alone = not (fsdp_asked or deepspeed)
    return bool(fp16) and other_precision == "fp16" and whole and alone


def fp8_leaves_odd_sizes() -> bool:
    """Whether linears whose sizes 16 does not divide stay in bf16: Accelerate's do."""
    return True


def fp8_tokens_vary() -> bool:
    """Whether micro-batches have fewer tokens than the longest: samples differ."""
    return True


OFF: tuple[Any, ...] = (None, False, "", [], {})
"""What a key that is off holds."""

ADAPTERS = ("adapter", "load_in_4bit", "load_in_8bit", "unfrozen_parameters")
"""Keys that train a part of the model, or quantize its weights."""

PLAIN = {
    "rl": "model.other",
    "reward_model": "model.other",
    "process_reward_model": "model.other",
    "plugins": "logit_bytes.fused",
    "chunked_cross_entropy": "logit_bytes.fused",
    "flash_attn_cross_entropy": "logit_bytes.fused",
    "eager_attention": "activation_bytes.scores",
    "xformers_attention": "activation_bytes.scores",
    "deepspeed": "memory.parallel",
    "tensor_parallel_size": "memory.parallel",
    "context_parallel_size": "memory.parallel",
    "dp_shard_size": "memory.parallel",
    "dp_replicate_size": "memory.parallel",
    "activation_offloading": "memory.switch",
    "layer_offloading": "memory.switch",
    "tiled_mlp": "memory.switch",
    "use_kernels": "memory.switch",
    "lisa_n_layers": "memory.switch",
}
"""Keys that no estimate covers if they are set, and what is missing then."""

ATTENTION = ("sdpa", "flash_attention_2", "flash_attention_3")

FSDP_OPTIONS = ("full_shard", "auto_wrap")
"""What `fsdp` may list: transformers takes both for what it does without the list."""

FSDP_PLAIN = {
    "offload_params": ((None, False), "memory.offload"),
    "cpu_offload": ((None, False), "memory.offload"),
    "reshard_after_forward": ((None, True), "memory.gathered"),
    "auto_wrap_policy": (("TRANSFORMER_BASED_WRAP",), "shards.wrap"),
    "sharding_strategy": ((None, "FULL_SHARD"), "shards.strategy"),
}
"""The values of FSDP's keys with which its memory is known."""


def whole_model(job: Job) -> bool:
    """True unless the model gets adapters, is quantized, or parts of it are frozen."""
    if any(job.find(key) not in OFF for key in ADAPTERS):
        raise Unknown("model.adapter")
    return True


def covered(job: Job, whole_model: bool) -> bool:
    """True unless something else is on that no estimate covers."""
    for key, gap in PLAIN.items():
        if job.find(key) not in OFF:
            raise Unknown(gap)
    if (kernel := job.find("attn_implementation")) and kernel not in ATTENTION:
        raise Unknown("activation_bytes.scores")
    for key, (values, gap) in FSDP_PLAIN.items() if job["fsdp_asked"] else ():
        if job.find(f"fsdp_config.{key}") not in values:
            raise Unknown(gap)
    for option in job.find("fsdp") or ():
        if option not in FSDP_OPTIONS:
            raise Unknown(
                "memory.offload" if option == "offload" else "shards.strategy"
            )
    return whole_model


def parallel(fsdp_asked: bool, fsdp2: bool) -> str:
    """What holds the weights: DDP, as ``axolotl train`` starts it, or FSDP."""
    if not fsdp_asked:
        return Words("ddp")
    return Words("fsdp2" if fsdp2 else "fsdp1")


def loaded_bytes(job: Job, bf16_on: bool, fsdp_asked: bool) -> int:
    """Bytes per parameter of the weights: bf16 with FSDP or with flash attention.

    Else embeddings and norms are fp32 (loaders/model.py).
    """
    kernel = str(job.find("attn_implementation") or "")
    flash = job.find("flash_attention") or kernel.startswith("flash")
    if not bf16_on:
        return 4
    return known("weights.norms", 2 if flash or fsdp_asked else None)


def samples_may_be_shorter(sample_packing: Any, pad_to_sequence_len: Any) -> bool:
    """Whether batches may be shorter than ``sequence_len``: not packed nor padded."""
    return not (sample_packing or pad_to_sequence_len)


def fsdp_upcasts(parallel: str) -> bool:
    """Whether FSDP casts the weights to fp32: not FSDP2, which Axolotl prepares itself.

    monkeypatch/accelerate/fsdp2.py.
    """
    return parallel != "fsdp2"


def trial_refusal() -> str:
    """Why the built-in trial would differ from this run."""
    return "transformers' model and the Trainer's loop"
