"""The fields of a job that follow from several keys of a recipe.

Source: nemo_automodel/components/quantization/fp8.py, _transformers/infrastructure.py
and components/distributed/config.py.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from fp8tune.facts.gaps import SETTING
from fp8tune.job import Job, Unknown, Words, known, ranks_left
from fp8tune.trainers import local_model
from fp8tune.trainers.automodel.loader import KNOWN, LENIENT
from fp8tune.trainers.described import gemms as dense_gemms

if TYPE_CHECKING:
    from fp8tune.facts.linears import Gemm, Linear


def recipe_given(fp8_recipe_name: Any) -> str:
    """The recipe that torchao is asked for; empty for settings one by one.

    ``tensorwise`` is such settings too.
    """
    return Words("" if fp8_recipe_name in (None, "tensorwise") else fp8_recipe_name)


def fp8_recipe(recipe_given: str) -> str:
    """The recipe of the FP8 linears."""
    return Words(recipe_given or "tensorwise")


def fp8_skips(fp8_filter_fqns: Any) -> tuple[str, ...]:
    """Parts of names whose linears stay in bf16; the letters of a text."""
    return tuple(map(str, fp8_filter_fqns or ()))


NAMES = "layers", "lm_head"
"""What is in the names of all linears: those of the blocks, and the head."""


def float8_linears(fp8_enabled: bool, fp8_skips: tuple[str, ...]) -> bool:
    """Whether linears are converted: unless a filter is in every name."""
    skipped = [any(part in name for part in fp8_skips) for name in NAMES]
    return fp8_enabled and not all(skipped)


def converts_nothing(
    fp8_enabled: bool, float8_linears: bool, recipe: str, fp8_filter_fqns: Any
) -> bool:
    """Whether a list of filters keeps every linear of a text model in bf16."""
    text = not recipe.endswith("VLM") and not isinstance(fp8_filter_fqns, str)
    return fp8_enabled and not float8_linears and text


def fp8_recomputes(fp8_force_recompute_fp8_weight_in_bwd: Any) -> bool:
    """Whether the file asks to compute FP8 weights again in the backward pass."""
    return bool(fp8_force_recompute_fp8_weight_in_bwd)


def emulated(fp8_emulate: bool) -> bool:
    """Whether emulation is asked for."""
    return fp8_emulate


def emulates(float8_linears: bool, fp8_emulate: bool, recipe_given: str) -> bool:
    """Whether FP8 is emulated: a recipe's own settings do not."""
    return float8_linears and fp8_emulate and not recipe_given


def all_gather_asked(fp8_enable_fsdp_float8_all_gather: bool) -> bool:
    """Whether an FP8 all-gather is asked for."""
    return fp8_enable_fsdp_float8_all_gather


def fp8_all_gather(
    float8_linears: bool, all_gather_asked: bool, recipe_given: str
) -> bool:
    """Whether weights are wrapped for an FP8 all-gather, with one shard too."""
    return float8_linears and all_gather_asked and not recipe_given


def precompute_asked(fp8_precompute_float8_dynamic_scale_for_fsdp: bool) -> bool:
    """Whether the scales of all weights are to be computed at once."""
    return fp8_precompute_float8_dynamic_scale_for_fsdp


def fp8_set_up_only(job: Job) -> bool:
    """Whether FP8 has settings, and no switch."""
    mine = [key for key in job.written if key.startswith("fp8.")]
    return bool(mine) and "fp8.enabled" not in mine


ADAPTERS = ("peft", "quantization", "freeze_config")
"""Sections that freeze or quantize weights."""


def whole_model(job: Job) -> bool:
    """True unless the model gets adapters, is quantized, or parts of it are frozen."""
    if any(section in job.written for section in ADAPTERS):
        raise Unknown("model.adapter")
    return True


def adapters(job: Job, fp8_skips: tuple[str, ...]) -> bool:
    """Whether FP8 converts all linears that get LoRA's adapters.

    False where a filter keeps linears of the blocks in bf16: they keep their adapters.
    """
    blocks = any(part not in "lm_head" for part in fp8_skips)
    return "peft" in job.written and not blocks


def seq_packing_known(dataloader_collate_fn: bool = False) -> bool:
    """True where the file says how batches are put together, else unknown."""
    return known("padding", dataloader_collate_fn or None)


def te_recipe(
    model_backend_te_fp8: Any = None, te_recipe_name: str | None = None
) -> str:
    """Transformer Engine's recipe: current scaling for any other name, else ``""``."""
    if model_backend_te_fp8 is None:
        return Words("")
    name = known("te_recipe", te_recipe_name)
    return Words(name if name in ("block", "mxfp8") else "current")


def te_recipe_name(model_backend_te_fp8_recipe: Any) -> str:
    """Transformer Engine's recipe by Automodel's name."""
    if not isinstance(model_backend_te_fp8_recipe, str):
        raise Unknown("te_recipe")
    return Words(model_backend_te_fp8_recipe)


def precision(
    float8_linears: bool,
    emulates: bool,
    weights_dtype: str,
    model_backend_te_fp8: bool = False,
    distributed_mp_policy: Any = None,
    shards: int | None = None,
) -> str:
    """Precision of the linears; FSDP2 computes in bf16 unless its policy is given.

    On one GPU nothing casts the weights. Unknown with emulation, which needs no GPU
    with FP8.
    """
    if emulates:
        raise Unknown("precision")
    if float8_linears or model_backend_te_fp8:
        return Words("fp8")
    if shards == 1 and weights_dtype in ("float32", "fp32"):
        return Words("fp32")
    if distributed_mp_policy is None:
        return Words("bf16")
    names = {"bf16": "bf16", "bfloat16": "bf16"}
    return Words(known("precision", names.get(weights_dtype)))


def weights_dtype(model_torch_dtype: Any = None) -> str:
    """Dtype of the weights by the name in the file; ``auto`` without one."""
    return Words(str(model_torch_dtype or "auto").removeprefix("torch."))


def family(recipe: str) -> bool:
    """Whether the recipe builds its model from ``fp8`` and ``compile``."""
    return recipe in KNOWN


def strategy(distributed_strategy: Any) -> str:
    """How the model is sharded."""
    return Words(str(distributed_strategy).lower())


def compile_idle(
    compile_enabled: bool, trainer_version: str, family: bool, strategy: str
) -> bool:
    """Whether ``compile.enabled`` is ignored: since 0.4.0 with FSDP2."""
    return (
        compile_enabled
        and family
        and strategy == "fsdp2"
        and trainer_version != LENIENT
    )


def compile(  # noqa: A001
    compile_enabled: bool,
    compile_idle: bool,
    family: bool,
    strategy: str,
    tp: int,
    fp8_enabled: bool,
    model_backend_te_fp8: bool = False,
    distributed_enable_compile: Any = None,
    distributed_enable_async_tensor_parallel: Any = None,
) -> bool:
    """Whether the model, or each of its layers, is compiled."""
    if not family or (model_backend_te_fp8 and not fp8_enabled):
        raise Unknown("compile")  # Transformer Engine's kernels fuse their casts
    layers = distributed_enable_compile or (
        tp > 1 and distributed_enable_async_tensor_parallel
    )
    return bool(
        (compile_enabled and not compile_idle) or (layers and strategy == "fsdp2")
    )


def fp8_compile_key(trainer_version: str, strategy: str) -> str:
    """The key that compiles the model: since 0.4.0 another one with FSDP2."""
    layers = strategy == "fsdp2" and trainer_version != LENIENT
    return Words("distributed.enable_compile" if layers else "compile.enabled")


def tp(distributed_tp_size: Any) -> int:
    """Tensor-parallel degree."""
    return distributed_tp_size or 1


def pp(distributed_pp_size: Any) -> int:
    """Pipeline stages."""
    return distributed_pp_size or 1


def cp(distributed_cp_size: Any) -> int:
    """Context-parallel degree."""
    return distributed_cp_size or 1


def expert_ranks(distributed_ep_size: Any) -> int:
    """Expert-parallel degree.

    Unlike ``ep`` it divides no parameters before FSDP does: with EP or without it, all
    ranks share weights, moments and gradients.
    """
    return distributed_ep_size or 1


def dp_replicate(distributed_dp_replicate_size: Any) -> int:
    """Replicas of the sharded group."""
    return distributed_dp_replicate_size or 1


def dp_shard(
    tp: int, pp: int, cp: int, dp_replicate: int, world_size: int | None = None
) -> int:
    """FSDP shards: all GPUs that the other degrees leave."""
    return ranks_left(world_size, tp, pp, cp, dp_replicate)


def declared_gpus(tp: int, pp: int, cp: int, distributed_dp_size: Any) -> int:
    """Number of GPUs that the degrees multiply to; unknown without ``dp_size``."""
    return math.prod((tp, pp, cp, known("world_size", distributed_dp_size)))


def seq_len(
    job: Job,
    packed_sequence_packed_sequence_size: Any = None,
    dataset_seq_len: Any = None,
    dataset_seq_length: Any = None,
) -> int:
    """Tokens of a sequence, where they are packed or made up, or at most.

    Other recipes take them, and the micro-batch, from keys of their own.
    """
    if (recipe := job["recipe"]) not in KNOWN:
        raise Unknown(f"{SETTING}recipe: {recipe}")
    size = packed_sequence_packed_sequence_size or dataset_seq_len or dataset_seq_length
    if not (size or "recipe" in job.written or job["trainer_version"] == LENIENT):
        raise Unknown("recipe")
    if size is None and packed_sequence_packed_sequence_size == 0:
        raise Unknown("any_length")
    return int(known("seq_len", size))


def lengths_vary(
    family: bool,
    packed_sequence_packed_sequence_size: Any = None,
    dataset_seq_len: Any = None,
    dataloader_collate_fn_pad_seq_len_divisible: Any = None,
) -> bool:
    """Whether batches may have any number of tokens: not packed, padded or made up."""
    if not family:
        raise Unknown("seq_len")
    fixed = packed_sequence_packed_sequence_size or dataset_seq_len
    padding = dataloader_collate_fn_pad_seq_len_divisible
    return not fixed and not (padding and padding % 16 == 0)


def grad_accum(
    step_scheduler_global_batch_size: Any,
    micro_batch: int,
    dp_shard: int,
    dp_replicate: int,
) -> int:
    """Micro-batches per optimizer step."""
    ranks = dp_shard * dp_replicate
    steps, rest = divmod(step_scheduler_global_batch_size, micro_batch * ranks)
    if rest or not steps:
        raise Unknown("grad_accum.rest")
    return int(steps)


def ac(distributed_activation_checkpointing: Any) -> str:
    """Activation checkpointing in one word."""
    value = str(distributed_activation_checkpointing).lower().replace("-", "_")
    if value in ("false", "off", "none", "disabled", "no"):
        return Words("none")
    return Words("selective" if value == "selective" else "full")


def ac_modes() -> tuple[str, ...]:
    """AC modes that wrap some module, including none."""
    return ("none", "selective", "full")


def saves_safetensors(
    checkpoint_enabled: Any, checkpoint_model_save_format: Any, family: bool
) -> bool:
    """Whether the model is saved as safetensors."""
    return bool(
        family and checkpoint_enabled and checkpoint_model_save_format == "safetensors"
    )


NEUTRAL = ("_target_", "trust_remote_code", "name_or_path", "torch_dtype")
"""What a table in ``model.config`` may hold beside the name of the model."""

NAMED = ("pretrained_model_name_or_path", "name_or_path")


def model_path(
    model_pretrained_model_name_or_path: Any = None, model_config: Any = None
) -> str:
    """The model that the recipe names: of the hub, or a folder."""
    name = model_pretrained_model_name_or_path or model_config
    if isinstance(name, dict):
        name = next((name[key] for key in NAMED if key in name), None)
    return str(known("model.hub", name))


def sizes(
    model_pretrained_model_name_or_path: Any = None, model_config: Any = None
) -> dict[str, Any]:
    """Sizes of the model that is named, or that ``model.config`` writes out."""
    config = model_config if isinstance(model_config, dict) else {}
    more = set(config) - {*NEUTRAL, *NAMED}
    target = str(config.get("_target_", ""))
    if not target.endswith("Config"):
        if more:
            raise Unknown("model.elsewhere")
        path = model_path(model_pretrained_model_name_or_path, model_config)
        return local_model.sizes(path)
    name = target.rpartition(".")[2].removesuffix("Config").lower()
    families = {family.replace("_", ""): family for family in local_model.FAMILIES}
    family = families.get(name, name)
    return local_model.config_sizes(config | {"model_type": family})


def local_config(model_path: str) -> dict[str, Any]:
    """The config of a model in a local folder, or of a known one of the hub."""
    return local_model.local_config(model_path)


def fp8_converts_head(fp8_skips: tuple[str, ...]) -> bool:
    """Whether the output head runs in FP8: unless a filter is in its name."""
    return not any(part in "lm_head" for part in fp8_skips)


def fp8_filter_key() -> str:
    """The key that keeps linears in bf16."""
    return Words("fp8.filter_fqns")


def fp8_leaves_odd_sizes() -> bool:
    """Whether linears whose sizes 16 does not divide stay in bf16: the filter's do."""
    return True


def fp8_tokens_vary(lengths_vary: bool) -> bool:
    """Whether micro-batches have other numbers of tokens each."""
    return lengths_vary


def fp8_scales_precomputed(precompute_asked: bool, fp8_recipe_name: Any = None) -> bool:
    """Whether one all-reduce gets all scales: where the recipe is named."""
    return precompute_asked and fp8_recipe_name == "tensorwise"


SHAPE = (
    "fp8_tokens", "hidden_size", "heads", "kv_heads", "head_dim", "ffn_size",
    "ffn_matrices", "layers", "vocab_size", "tp", "head_shards", "ac_applied",
    "moe_layers", "precision",
)  # fmt: skip
"""What the linears of a dense decoder follow from."""


def gemms(job: Job, fp8_skips: tuple[str, ...]) -> tuple[Gemm, ...]:
    """Every linear of the decoder, with those that FP8 converts and no filter skips."""
    found = dense_gemms.gemms(job, **{name: job[name] for name in SHAPE})
    return tuple(
        gemm._replace(
            fp8=gemm.fp8 and not any(part in _module(gemm.name) for part in fp8_skips)
        )
        for gemm in found
    )


def fp8_linears(
    sizes: dict[str, Any],
    float8_linears: bool,
    fp8_skips: tuple[str, ...],
    hidden_size: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    ffn_size: int,
    vocab_size: int,
) -> tuple[Linear, ...]:
    """Kinds of linears that torchao converts: those that no filter skips."""
    from fp8tune.facts.linears import of_block

    attention = heads * head_dim, kv_heads * head_dim
    ffn = 0 if sizes.get("experts") else ffn_size
    return tuple(
        one
        for one in of_block(hidden_size, *attention, ffn, vocab_size)
        if float8_linears and not (one.rows | one.columns) % 16
        if not any(part in _module(one.name) for part in fp8_skips)
    )


def _module(name: str) -> str:
    """The name of a linear's module, as filters see it."""
    if name == "head":
        return "lm_head"
    attention = name in ("q_proj", "k_proj", "v_proj", "o_proj")
    return f"model.layers.0.{'self_attn' if attention else 'mlp'}.{name}"


def not_modelled() -> tuple[str, ...]:
    """What the predicted gain leaves out, in words."""
    return ()


def trial_refusal() -> str:
    """Why the built-in trial would differ from this run."""
    return "the models and the loop of NeMo Automodel"
