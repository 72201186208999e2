"""What Axolotl refuses before it trains: values that do not fit together.

Each check names the keys to blame and says when values are refused. It gets the file as
it is written (``f``, absent keys are null) and the values after conversion (``v``), as
Axolotl's validators before and after pydantic's own checks do. A check that cannot
compute with the values counts as a refusal where the validator runs before (``f``).

Source: Axolotl 0.18.0 and 0.19.0, utils/schemas/*.py. What depends on the machine or on
other packages is left out: GPU, files, plugins of others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple


class Values(dict[str, Any]):
    """Keys and values; an absent key is null."""

    def __missing__(self, key: str) -> None:
        return None

    def any(self, *names: str) -> bool:
        """Whether one of the keys has a value that Python takes for true."""
        return any(self[name] for name in names)

    def table(self, name: str) -> Values:
        """The table of a key, empty if it is null."""
        return Values(self[name] or {})


class Check(NamedTuple):
    """Keys to blame, the reason, and when their values are refused; maybe what to do.

    ``only`` is the version that checks it, if not all do.
    """

    keys: str
    reason: str
    refused: Callable[[Values, Values], Any]
    hint: str = ""
    only: str = ""


LEGACY_ATTENTION = {
    "xformers_attention": "xformers",
    "sage_attention": "sage",
    "flex_attention": "flex_attention",
    "flash_attention": "flash_attention_2",
    "sdp_attention": "sdpa",
    "eager_attention": "eager",
}
"""Deprecated switches of attention, the one that counts first."""

ATTENTION = (
    *("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention"),
    *("xformers", "sage", "fp8"),
)
NEWER_ATTENTION = ("flash_attention_4", "flash_attention_torch")
PACKING = (
    *("flash_attention_2", "flash_attention_3", "flex_attention", "xformers", "sage"),
    *("kernels-community/flash-attn2", "kernels-community/flash-attn3"),
    *("kernels-community/sage-attention", *NEWER_ATTENTION),
)
"""Kinds of attention that take packed sequences of any length."""

INDUCTOR = (
    *("coordinate_descent_tuning", "coordinate_descent_check_all_directions"),
    *("shape_padding", "epilogue_fusion", "max_autotune_gemm", "fx_graph_cache"),
    *("assume_aligned_inputs", "comprehensive_padding", "decompose_mem_bound_mm"),
    "triton.cudagraphs",
)
"""Options of torch.compile that Axolotl takes."""

REMOVED = (
    *("dpo_use_logits_to_keep", "dpo_generate_during_eval", "dpo_norm_loss"),
    "rpo_alpha",
)
REMOVED_SWITCHES = (
    *("max_packed_sequence_len", "rope_scaling", "s2_attention"),
    "flash_attn_rms_norm",
)
UNSLOTH = tuple(
    f"unsloth_{name}"
    for name in (
        *("cross_entropy_loss", "lora_mlp", "lora_qkv", "lora_o", "rms_norm", "rope"),
    )
)
CROSS_ENTROPY = (
    *("cut_cross_entropy", "chunked_cross_entropy", "liger_cross_entropy"),
    "liger_fused_linear_cross_entropy",
)
KERNELS = ("lora_mlp_kernel", "lora_qkv_kernel", "lora_o_kernel")
METRICS = ("sacrebleu", "comet", "ter", "chrf", "perplexity")
LORA = ("lora", "qlora")
BNB_8BIT = ("paged_adamw_8bit", "adamw_8bit", "adamw_bnb_8bit")


def attention(f: Values) -> Any:
    """The attention that is chosen, by its key or by a deprecated switch."""
    old = (impl for flag, impl in LEGACY_ATTENTION.items() if f[flag])
    default = "flash_attention_2" if f["gemma4_hybrid_attn_impl"] else None
    return f["attn_implementation"] or next(old, default)


def _base(implementation: Any) -> str:
    """A kind of attention without its revision."""
    return str(implementation or "").split(":", 1)[0].split("@", 1)[0].strip()


def _unknown_attention(f: Values, newer: bool) -> bool:
    chosen = f["attn_implementation"]
    if chosen is None:
        return False
    known = ATTENTION + NEWER_ATTENTION if newer else ATTENTION
    return not isinstance(chosen, str) or (chosen not in known and "/" not in chosen)


def fsdp_version(f: Values) -> Any:
    """The version of FSDP that validators of optimizers see."""
    inner = (f["fsdp_config"] or {}).get("fsdp_version", 1)
    return inner if f["fsdp_version"] is None else f["fsdp_version"]


def hoisted_version(f: Values) -> Any:
    """The version of FSDP after Axolotl has taken it from ``fsdp_config``."""
    inner = f.table("fsdp_config")
    found = f["fsdp_version"] or inner["version"] or inner["fsdp_version"]
    return found or (1 if f["fsdp_config"] else None)


def fsdp_option(f: Values, name: str) -> Any:
    """An option of FSDP, with or without its deprecated prefix."""
    inner = f.table("fsdp_config")
    return inner[f"fsdp_{name}"] if f"fsdp_{name}" in inner else inner[name]


def _has_fsdp(f: Values) -> bool:
    return bool(f["fsdp"] or f["fsdp_config"])


def _not_fsdp2(f: Values) -> bool:
    return _has_fsdp(f) and str(fsdp_version(f)) != "2"


def _recipe(f: Values) -> Any:
    inner = f["fp8_config"]
    default = "tensorwise"
    return inner.get("recipe", default) if isinstance(inner, dict) else default


def evaluates(f: Values) -> Any:
    """When the run evaluates, by its key or by the deprecated one."""
    deprecated = f["evaluation_strategy"]
    return deprecated if f["eval_strategy"] is None else f["eval_strategy"]


def packs_evaluation(f: Values) -> Any:
    """Whether samples are packed for evaluation: by default as for training."""
    unset = f["eval_sample_packing"] is None and not f["eval_table_size"]
    return f["sample_packing"] if unset else f["eval_sample_packing"]


def _bad_patterns(f: Values) -> bool:
    """Whether a pattern for the modules of LoRA is no regular expression."""
    targets = f["lora_target_modules"]
    for pattern in targets if isinstance(targets, list) else ():
        if isinstance(pattern, str):
            try:
                re.compile(pattern)
            except (re.error, RecursionError, OverflowError):
                return True
    return False


def _sharegpt(f: Values) -> bool:
    kinds = [each.get("type") for each in f["datasets"] or () if isinstance(each, dict)]
    return any(isinstance(kind, str) and kind.startswith("sharegpt") for kind in kinds)


def _best_steps(v: Values) -> bool:
    """Whether early stopping lacks the steps that it counts."""
    if not v["early_stopping_patience"]:
        return False
    if not v["save_steps"] or not v["eval_steps"]:
        return True
    return bool(v["save_steps"] % v["eval_steps"] != 0)


def _qlora(v: Values) -> bool:
    if v["adapter"] != "qlora":
        return False
    if v["merge_lora"]:
        return v.any("load_in_8bit", "load_in_4bit", "gptq")
    return v.any("load_in_8bit", "gptq") or not v["load_in_4bit"]


def _grpo(f: Values) -> bool:
    """Whether a batch of GRPO does not divide into its groups."""
    groups = f.table("trl")["num_generations"]
    if f["rl"] != "grpo" or groups is None:
        return False
    if groups < 2:
        return True
    batch = f.table("trl")["generation_batch_size"]
    if batch is None:
        steps = f["gradient_accumulation_steps"] or 1
        batch = int(f["micro_batch_size"] or 1) * int(steps)
    return bool(int(batch) % groups != 0)


def _mistral_common(f: Values) -> bool:
    names = (
        f[n] or "" for n in ("base_model", "base_model_config", "tokenizer_config")
    )
    asked = f["tokenizer_use_mistral_common"]
    if asked is None and any("magistral" in str(name).lower() for name in names):
        asked = True
    others = ("added_tokens_overrides", "special_tokens", "tokens", "chat_template")
    return bool(asked) and f.any(*others, "processor_kwargs")


Refused = Callable[[Values, Values], Any]


def _set(name: str) -> Refused:
    """Whether a key has a value that Python takes for true."""
    return lambda f, _: f[name]


def _given(name: str) -> Refused:
    """Whether a key has a value."""
    return lambda f, _: f[name] is not None


def _no_number(name: str) -> Refused:
    """Whether a text is no number: the conversion raises ``ValueError``."""
    return lambda _, v: (
        isinstance(v[name], str) and bool(v[name]) and float(v[name]) is None
    )


CHECKS = (
    Check(
        "fp8_config",
        "`fp8_config` needs `fp8: true`",
        lambda f, _: f["fp8_config"] is not None and not f["fp8"],
        "set `fp8: true`",
        only="0.19.0",
    ),
    Check(
        "fp8_enable_fsdp_float8_all_gather",
        "the FP8 all-gather is only for the recipe tensorwise",
        lambda f, _: (
            f["fp8_enable_fsdp_float8_all_gather"] and _recipe(f) != "tensorwise"
        ),
        "set it to false, or use the recipe tensorwise",
        only="0.19.0",
    ),
    Check(
        "fp8_enable_fsdp_float8_all_gather fsdp_version",
        "the FP8 all-gather needs `fsdp_version: 2` at the top; inside `fsdp_config` it"
        " does not count here",
        lambda f, _: f["fp8_enable_fsdp_float8_all_gather"] and f["fsdp_version"] != 2,
        "write `fsdp_version: 2` above all tables",
    ),
    Check(
        "datasets",
        "either `datasets` or `pretraining_dataset` has to be there",
        lambda f, _: f["datasets"] is None and f["pretraining_dataset"] is None,
    ),
    Check(
        "datasets",
        "the type sharegpt is gone: use chat_template",
        lambda f, _: _sharegpt(f),
    ),
    *(
        Check(name, "it has been removed", _set(name))
        for name in (*UNSLOTH, *REMOVED_SWITCHES)
    ),
    *(Check(name, "it has been removed", _given(name)) for name in REMOVED),
    Check(
        "push_dataset_to_hub",
        "it needs `hf_use_auth_token: true`",
        lambda f, _: f["push_dataset_to_hub"] and f["hf_use_auth_token"] is not True,
    ),
    Check(
        "val_set_size test_datasets",
        "`val_set_size` and `test_datasets` exclude each other",
        lambda f, _: f["test_datasets"] and f["val_set_size"],
    ),
    Check(
        "eval_sample_packing eval_table_size sample_packing",
        "with `sample_packing` and `eval_table_size` it has to be false",
        lambda f, _: (
            f["sample_packing"]
            and f["eval_table_size"]
            and f["eval_sample_packing"] is not False
        ),
    ),
    Check(
        "scaling_softmax",
        "it needs `attn_implementation: flex_attention`",
        lambda f, v: v["scaling_softmax"] and attention(f) != "flex_attention",
    ),
    Check(
        "batch_size micro_batch_size gradient_accumulation_steps",
        "two of `micro_batch_size`, `gradient_accumulation_steps`, `batch_size` have to"
        " be set",
        lambda f, _: (
            sum(
                map(
                    bool,
                    (
                        f["micro_batch_size"],
                        f["gradient_accumulation_steps"],
                        f["batch_size"],
                    ),
                )
            )
            < 2
        ),
        only="0.18.0",
    ),
    Check(
        "batch_size",
        "`batch_size` needs `micro_batch_size` or `gradient_accumulation_steps`",
        lambda f, _: (
            f["batch_size"]
            and not f.any("micro_batch_size", "gradient_accumulation_steps")
        ),
        only="0.19.0",
    ),
    Check(
        "gradient_accumulation_steps batch_size",
        "`gradient_accumulation_steps` and `batch_size` exclude each other",
        lambda f, _: f["gradient_accumulation_steps"] and f["batch_size"],
    ),
    Check(
        "warmup_steps warmup_ratio",
        "`warmup_steps` and `warmup_ratio` exclude each other",
        lambda f, _: f["warmup_steps"] and f["warmup_ratio"],
    ),
    Check(
        "save_steps save_strategy",
        "`save_steps` is only for `save_strategy: steps`",
        lambda f, _: (
            f["save_strategy"] and f["save_steps"] and f["save_strategy"] != "steps"
        ),
    ),
    Check(
        "saves_per_epoch save_steps",
        "`saves_per_epoch` and `save_steps` exclude each other",
        lambda f, _: f["saves_per_epoch"] and f["save_steps"],
    ),
    Check(
        "save_strategy",
        "saving the best needs `metric_for_best_model`",
        lambda f, _: f["save_strategy"] == "best" and not f["metric_for_best_model"],
    ),
    Check(
        "eval_steps eval_strategy",
        "`eval_steps` is only for `eval_strategy: steps`",
        lambda f, _: evaluates(f) and f["eval_steps"] and evaluates(f) != "steps",
    ),
    Check(
        "eval_steps eval_strategy val_set_size",
        "evaluation needs `val_set_size` above 0 or `test_datasets`",
        lambda f, _: (
            f["val_set_size"] == 0
            and (f["eval_steps"] or evaluates(f))
            and not f["test_datasets"]
            and evaluates(f) != "no"
        ),
    ),
    Check(
        "evals_per_epoch eval_steps",
        "`evals_per_epoch` and `eval_steps` exclude each other",
        lambda f, _: f["evals_per_epoch"] and f["eval_steps"],
    ),
    Check(
        "evals_per_epoch eval_strategy",
        "`evals_per_epoch` needs `eval_strategy: steps`, or none",
        lambda f, _: f["evals_per_epoch"] and evaluates(f) and evaluates(f) != "steps",
    ),
    Check(
        "do_bench_eval",
        "it needs `evals_per_epoch` or `eval_steps`",
        lambda f, _: f["do_bench_eval"] and not f.any("evals_per_epoch", "eval_steps"),
    ),
    Check(
        "noisy_embedding_alpha",
        "`neftune_noise_alpha` replaces it, and both are set",
        lambda f, _: f["noisy_embedding_alpha"] and f["neftune_noise_alpha"],
    ),
    Check(
        "pretrain_multipack_buffer_size",
        "`streaming_multipack_buffer_size` replaces it, and both are set",
        lambda f, _: (
            f["pretrain_multipack_buffer_size"] and f["streaming_multipack_buffer_size"]
        ),
    ),
    Check(
        "gradient_checkpointing_kwargs unfrozen_parameters",
        "a partly frozen model needs `use_reentrant: false`",
        lambda f, _: (
            f["unfrozen_parameters"]
            and f.table("gradient_checkpointing_kwargs")["use_reentrant"] is True
        ),
    ),
    Check(
        "do_causal_lm_eval eval_sample_packing sample_packing",
        "it needs `eval_sample_packing: false`",
        lambda f, _: f["do_causal_lm_eval"] and packs_evaluation(f),
    ),
    Check(
        "eval_causal_lm_metrics",
        f"it is a list of {', '.join(METRICS)}",
        lambda f, _: (
            f["eval_causal_lm_metrics"]
            and (
                not isinstance(f["eval_causal_lm_metrics"], list)
                or set(f["eval_causal_lm_metrics"]) - set(METRICS)
            )
        ),
    ),
    Check(
        "tokenizer_use_mistral_common base_model",
        "the tokenizer of mistral-common takes no other tokens and no chat template",
        lambda f, _: _mistral_common(f),
    ),
    Check(
        "include_tokens_per_second pretraining_dataset",
        "`include_tokens_per_second` excludes `pretraining_dataset`",
        lambda f, _: f["pretraining_dataset"] and f["include_tokens_per_second"],
    ),
    Check(
        "lr_groups loraplus_lr_ratio",
        "`lr_groups` and `loraplus_lr_ratio` exclude each other",
        lambda f, _: f["lr_groups"] and f["loraplus_lr_ratio"],
    ),
    Check(
        "peft_layers_to_transform unfrozen_parameters",
        "`peft_layers_to_transform` and `unfrozen_parameters` exclude each other",
        lambda f, _: (
            f["adapter"] and f["peft_layers_to_transform"] and f["unfrozen_parameters"]
        ),
    ),
    Check(
        "peft_layers_pattern",
        "it needs `peft_layers_to_transform`",
        lambda f, _: f["peft_layers_pattern"] and not f["peft_layers_to_transform"],
    ),
    Check(
        "flash_attn_fuse_mlp adapter",
        "fused modules exclude LoRA",
        lambda _, v: v["adapter"] in LORA and v["flash_attn_fuse_mlp"],
    ),
    Check(
        "use_onebitllms adapter",
        "`use_onebitllms` excludes LoRA",
        lambda _, v: v["adapter"] in LORA and v["use_onebitllms"],
    ),
    Check(
        "lora_mlp_kernel lora_qkv_kernel lora_o_kernel load_in_8bit",
        "the kernels of LoRA exclude 8-bit weights",
        lambda f, _: f.any(*KERNELS) and f["adapter"] == "lora" and f["load_in_8bit"],
    ),
    Check(
        "lora_mlp_kernel lora_qkv_kernel lora_o_kernel trust_remote_code",
        "the kernels of LoRA exclude `trust_remote_code`",
        lambda f, _: f.any(*KERNELS) and f["trust_remote_code"],
    ),
    Check(
        "sample_packing rl",
        "RL trainers do not pack samples",
        lambda f, _: f["sample_packing"] and f["rl"],
    ),
    Check(
        "remove_unused_columns rl",
        "KTO needs `remove_unused_columns: false` and no packing",
        lambda f, _: (
            f["rl"] == "kto"
            and (
                f.any("sample_packing", "eval_sample_packing")
                or f["remove_unused_columns"] is not False
            )
        ),
    ),
    Check(
        "rl trl",
        "the objectives are summed as for GRPO, and GDPO was chosen",
        lambda f, _: (
            f["rl"] == "gdpo"
            and f["trl"]["multi_objective_aggregation"] == "sum_then_normalize"
        ),
    ),
    Check(
        "dpo_loss_weights dpo_loss_type",
        "loss types and weights of DPO are for `rl: dpo`, one weight for each type",
        lambda f, _: (
            f["dpo_loss_type"] is not None or f["dpo_loss_weights"] is not None
            if f["rl"] != "dpo"
            else f["dpo_loss_weights"] is not None
            and (
                f["dpo_loss_type"] is None
                or len(f["dpo_loss_type"]) != len(f["dpo_loss_weights"])
            )
        ),
    ),
    Check(
        "dpo_use_liger_kernel rl",
        "the Liger kernel of DPO does not compute the loss ipo",
        lambda _, v: (
            v["dpo_use_liger_kernel"]
            and (v["rl"] == "ipo" or (v["dpo_loss_type"] or [""])[0] == "ipo")
        ),
        only="0.19.0",
    ),
    Check(
        "trl micro_batch_size gradient_accumulation_steps",
        "the batch of GRPO has to divide into groups of `num_generations`, at least 2",
        lambda f, _: _grpo(f),
    ),
    Check(
        "optimizer deepspeed fsdp_version",
        "Muon excludes DeepSpeed, and needs FSDP2 if it is sharded",
        lambda f, _: f["optimizer"] == "muon" and (f["deepspeed"] or _not_fsdp2(f)),
    ),
    Check(
        "optimizer",
        "Q-GaLore excludes adapters and DeepSpeed, and needs `use_orig_params`",
        lambda f, _: (
            f["optimizer"] == "q_galore_adamw8bit"
            and (
                f["adapter"]
                or f["deepspeed"]
                or _not_fsdp2(f)
                or (
                    _has_fsdp(f)
                    and (f["fsdp_config"] or {}).get("use_orig_params") is not True
                )
            )
        ),
    ),
    Check(
        "optimizer",
        "polora needs an adapter and excludes DeepSpeed and tensor parallelism",
        lambda f, _: (
            f["optimizer"] == "polora"
            and (
                f["adapter"] not in LORA
                or f["deepspeed"]
                or (f["tensor_parallel_size"] or 1) > 1
                or _not_fsdp2(f)
                or f.any("lora_modules_to_save", "unfrozen_parameters", "peft_use_dora")
                or f.any("peft_trainable_token_indices", "lisa_step_interval")
                or f.any("reward_model", "process_reward_model", "relora_steps")
                or f.any("loraplus_lr_ratio", "lr_groups", "embedding_lr")
                or f["embedding_lr_scale"]
            )
        ),
        only="0.19.0",
    ),
    Check(
        "optimizer deepspeed fsdp_version",
        "flash optimizers exclude DeepSpeed, and need FSDP2 if they are sharded",
        lambda f, _: (
            str(f["optimizer"] or "").startswith("flash_")
            and (f["deepspeed"] or _not_fsdp2(f))
        ),
    ),
    Check(
        "batch_flattening",
        "it needs attention for packed sequences, and excludes `sample_packing`",
        lambda f, v: (
            v["batch_flattening"]
            and v["batch_flattening"] != "auto"
            and (_base(attention(f)) not in PACKING or v["sample_packing"])
        ),
    ),
    Check(
        " ".join(CROSS_ENTROPY),
        "these exclude each other",
        lambda f, _: sum(bool(f[name]) for name in CROSS_ENTROPY) > 1,
    ),
    Check(
        "fsdp_config",
        "disabling `cpu_offload_pin_memory` needs FSDP2 and `offload_params: true`",
        lambda f, _: (
            f["fsdp_config"]
            and fsdp_option(f, "cpu_offload_pin_memory") is False
            and (str(hoisted_version(f)) != "2" or not fsdp_option(f, "offload_params"))
        ),
    ),
    Check(
        "load_in_4bit load_in_8bit fsdp_version",
        "FSDP2 excludes quantised weights in preference training",
        lambda f, _: (
            hoisted_version(f) == 2
            and f["rl"] in ("dpo", "kto", "orpo", "ipo")
            and f.any("load_in_8bit", "load_in_4bit")
        ),
    ),
    Check(
        "optimizer fsdp_config",
        "FSDP1's offload excludes 8-bit optimizers",
        lambda f, v: (
            v["fsdp_config"]
            and "8bit" in str(v["optimizer"] or "")
            and fsdp_option(f, "offload_params")
            and str(hoisted_version(f)) != "2"
        ),
    ),
    Check(
        "optimizer fsdp_version",
        "FSDP2 excludes this optimizer: use `adamw_torch_8bit`",
        lambda f, v: (
            v["fsdp_config"]
            and v["optimizer"] in ("adamw_8bit", "adamw_bnb_8bit")
            and str(hoisted_version(f)) == "2"
        ),
    ),
    Check(
        "load_in_4bit fsdp_config",
        "FSDP2 with `load_in_4bit` needs `cpu_ram_efficient_loading: false`",
        lambda f, v: (
            v["fsdp_config"]
            and str(hoisted_version(f)) == "2"
            and fsdp_option(f, "cpu_ram_efficient_loading")
            and v["load_in_4bit"]
        ),
        only="0.19.0",
    ),
    Check(
        "deepcompile",
        "it needs DeepSpeed",
        lambda f, _: f["deepcompile"] and not f["deepspeed"],
    ),
    Check(
        "max_memory gpu_memory_limit",
        "`max_memory` and `gpu_memory_limit` exclude each other",
        lambda f, _: f["max_memory"] is not None and f["gpu_memory_limit"] is not None,
    ),
    Check(
        "deepspeed fsdp",
        "DeepSpeed and `fsdp` exclude each other",
        lambda f, _: f["deepspeed"] and f["fsdp"],
    ),
    Check(
        "model_quantization_config load_in_8bit load_in_4bit",
        "`model_quantization_config` excludes `load_in_8bit` and `load_in_4bit`",
        lambda f, _: (
            f["model_quantization_config"] and f.any("load_in_8bit", "load_in_4bit")
        ),
    ),
    Check(
        "chat_template",
        "`chat_template: jinja` needs `chat_template_jinja`",
        lambda f, _: f["chat_template"] == "jinja" and not f["chat_template_jinja"],
    ),
    Check(
        "max_steps pretraining_dataset streaming",
        "streamed data needs `max_steps`",
        lambda f, _: f.any("pretraining_dataset", "streaming") and not f["max_steps"],
    ),
    Check(
        "val_set_size pretraining_dataset streaming",
        "streamed data excludes `val_set_size`",
        lambda f, _: f.any("pretraining_dataset", "streaming") and f["val_set_size"],
    ),
    Check(
        "sample_packing streaming",
        "packing of several streamed data sets is not supported",
        lambda f, _: (
            f["streaming"] and f["sample_packing"] and len(f["datasets"] or ()) > 1
        ),
    ),
    Check(
        "fsdp base_model",
        "Falcon models exclude FSDP",
        lambda _, v: "falcon" in str(v["base_model"] or "").lower() and v["fsdp"],
    ),
    Check(
        "gradient_checkpointing base_model",
        "MPT models exclude gradient checkpointing",
        lambda _, v: (
            "mpt" in str(v["base_model"] or "").lower() and v["gradient_checkpointing"]
        ),
    ),
    Check(
        "gradient_checkpointing base_model",
        "Nemotron-H needs `sample_packing: true` for gradient checkpointing",
        lambda _, v: (
            "nemotron-h" in str(v["base_model"] or "").lower()
            and v["gradient_checkpointing"]
            and not v["sample_packing"]
        ),
        only="0.18.0",
    ),
    Check(
        "activation_offloading",
        "it needs `gradient_checkpointing`",
        lambda _, v: v["activation_offloading"] and not v["gradient_checkpointing"],
    ),
    Check(
        "selective_checkpointing",
        "it needs `gradient_checkpointing` with `use_reentrant: false`, and offloads"
        " nothing but hidden states",
        lambda f, v: (
            v["selective_checkpointing"]
            and (
                not v["gradient_checkpointing"]
                or f.table("gradient_checkpointing_kwargs")["use_reentrant"]
                or (v["activation_offloading"] or "hidden_states") != "hidden_states"
                or v["gradient_checkpointing"] in ("offload", "offload_disk")
            )
        ),
    ),
    Check(
        "flash_optimum",
        "BetterTransformer excludes mixed precision",
        lambda _, v: v["flash_optimum"] is True and v.any("fp16", "bf16"),
    ),
    Check(
        "revision_of_model gptq",
        "GPTQ models exclude a revision",
        lambda f, _: f["gptq"] and f["revision_of_model"],
    ),
    Check(
        "fsdp_config",
        "MXFP4 weights need `cpu_ram_efficient_loading: false`",
        lambda f, _: (
            f["model_quantization_config"] == "Mxfp4Config"
            and fsdp_option(f, "cpu_ram_efficient_loading") is True
        ),
    ),
    Check(
        "fsdp_config",
        "`SIZE_BASED_WRAP` needs `min_num_params`",
        lambda f, _: (
            fsdp_option(f, "auto_wrap_policy") == "SIZE_BASED_WRAP"
            and fsdp_option(f, "min_num_params") is None
        ),
    ),
    Check(
        "neftune_noise_alpha noisy_embedding_alpha",
        "it has to be above 0",
        lambda f, v: (
            (v["neftune_noise_alpha"] or f["noisy_embedding_alpha"]) is not None
            and (
                v["neftune_noise_alpha"] if v["neftune_noise_alpha"] is not None else 1
            )
            <= 0
        ),
    ),
    Check(
        "warmup_ratio rl",
        "SimPO needs `warmup_steps` in place of `warmup_ratio`",
        lambda _, v: v["rl"] == "simpo" and v["warmup_ratio"],
    ),
    Check(
        "relora",
        "ReLoRA needs `jagged_restart_steps` and an adapter, without FSDP or ZeRO",
        lambda _, v: (
            v["relora"]
            and (
                not v["jagged_restart_steps"]
                or v["adapter"] not in LORA
                or v.any("fsdp", "fsdp_config", "deepspeed", "flash_attn_fuse_mlp")
                or v["lr_scheduler"] == "one_cycle"
            )
        ),
    ),
    Check(
        "early_stopping_patience save_steps eval_steps",
        "early stopping needs `eval_steps` that divide `save_steps`",
        lambda _, v: _best_steps(v),
    ),
    Check(
        "context_parallel_size attn_implementation",
        "context parallelism needs FlashAttention 2, and a batch of 1 with packing",
        lambda f, v: (
            (v["context_parallel_size"] or v["sequence_parallel_degree"] or 1) > 1
            and (
                _base(attention(f)) not in ("flash_attention_2", "flash_attention_3")
                or (v["sample_packing"] and v["micro_batch_size"] > 1)
            )
        ),
    ),
    Check(
        "optimizer tensor_parallel_size",
        "tensor parallelism excludes 8-bit optimizers",
        lambda _, v: (
            (v["tensor_parallel_size"] or 1) > 1 and v["optimizer"] in BNB_8BIT
        ),
    ),
    Check(
        "rl ebft",
        "`rl: ebft` needs the table `ebft`",
        lambda f, _: f["rl"] == "ebft" and not f["ebft"],
    ),
    Check(
        "torch_compile ebft",
        "EBFT with `mode: strided` and gradient checkpointing excludes it",
        lambda f, _: (
            f["rl"] == "ebft"
            and f["torch_compile"] is True
            and f.table("ebft")["mode"] == "strided"
            and f["gradient_checkpointing"]
        ),
    ),
    Check(
        "attn_implementation",
        "deprecated switches of attention exclude it",
        lambda f, _: f["attn_implementation"] and f.any(*LEGACY_ATTENTION),
    ),
    Check(
        "attn_implementation gemma4_hybrid_attn_impl",
        "the hybrid attention of Gemma 4 needs flash_attention_2",
        lambda f, _: (
            f["gemma4_hybrid_attn_impl"]
            and f["attn_implementation"]
            and f["attn_implementation"] != "flash_attention_2"
        ),
    ),
    Check(
        "attn_implementation",
        f"it is one of {', '.join(ATTENTION)}, or a path of a kernel on the hub",
        lambda f, _: _unknown_attention(f, newer=False),
        only="0.18.0",
    ),
    Check(
        "attn_implementation",
        f"it is one of {', '.join(ATTENTION + NEWER_ATTENTION)}, or a path of a kernel"
        " on the hub",
        lambda f, _: _unknown_attention(f, newer=True),
        only="0.19.0",
    ),
    Check(
        "large_head_attention",
        "it is one of auto, sdpa, triton_flash",
        lambda f, _: (
            f["large_head_attention"] is not None
            and str(f["large_head_attention"]).lower()
            not in ("auto", "sdpa", "triton_flash")
        ),
    ),
    Check(
        "torch_compile_options",
        f"it takes {', '.join(INDUCTOR)}",
        lambda _, v: (
            v["torch_compile_options"] is not None
            and set(v["torch_compile_options"]) - set(INDUCTOR)
        ),
    ),
    Check(
        "torch_compile_options torch_compile",
        "it needs `torch_compile: true`",
        lambda _, v: v["torch_compile_options"] is not None and not v["torch_compile"],
    ),
    Check(
        "fp32_norms fsdp_version",
        "it needs FSDP2",
        lambda f, v: (
            v["fp32_norms"]
            and (v["fsdp_config"] is None or str(hoisted_version(f)) != "2")
        ),
    ),
    Check(
        "ple_cpu_offload",
        "it needs an adapter upon quantised weights, without FSDP and DeepSpeed",
        lambda f, _: (
            f["ple_cpu_offload"]
            and (
                f["fsdp_config"] is not None
                or f["fsdp"] is not None
                or f["deepspeed"]
                or not (
                    (f["adapter"] == "qlora" and f["load_in_4bit"])
                    or (f["adapter"] == "lora" and f["load_in_8bit"])
                )
            )
        ),
        only="0.19.0",
    ),
    Check(
        "lora_target_modules",
        "a pattern is no regular expression",
        lambda f, _: _bad_patterns(f),
    ),
    Check(
        "load_in_8bit load_in_4bit adapter",
        "quantised weights need an adapter",
        lambda f, _: (
            not f.any("adapter", "inference") and f.any("load_in_8bit", "load_in_4bit")
        ),
    ),
    Check(
        "adapter load_in_4bit load_in_8bit",
        "qlora needs `load_in_4bit: true`, and neither 8-bit weights nor GPTQ",
        lambda _, v: _qlora(v),
    ),
    Check(
        "lora_dropout lora_target_parameters",
        "`lora_target_parameters` needs `lora_dropout: 0`",
        lambda _, v: v["lora_target_parameters"] and v["lora_dropout"],
    ),
    Check(
        "save_safetensors",
        "transformers 5 saves nothing but safetensors",
        lambda _, v: v["save_safetensors"] is False,
    ),
    Check(
        "quantize_moe_experts",
        "it needs an adapter upon quantised weights, without `lora_target_linear`",
        lambda f, _: (
            f["quantize_moe_experts"]
            and (
                f["lora_target_linear"]
                or f["adapter"] not in LORA
                or not f.any("load_in_4bit", "load_in_8bit")
            )
        ),
    ),
    Check(
        "beta trl",
        "`beta` and `trl.beta` differ",
        lambda f, _: f["beta"] and f["trl"]["beta"] and f["beta"] != f["trl"]["beta"],
    ),
    Check(
        "qat load_in_8bit load_in_4bit",
        "QAT excludes adapters and quantised weights",
        lambda f, _: f["qat"] and f.any("peft", "load_in_8bit", "load_in_4bit"),
    ),
    Check(
        "dataset_exact_deduplication",
        "it excludes streamed data and `skip_prepare_dataset`",
        lambda f, _: (
            f["dataset_exact_deduplication"]
            and f.any("streaming", "pretraining_dataset", "skip_prepare_dataset")
        ),
    ),
    *(
        Check(name, "it is a number", _no_number(name))
        for name in ("learning_rate", "loraplus_lr_embedding")
    ),
)


def refusals(
    written: dict[str, Any], values: dict[str, Any], version: str
) -> Iterator[tuple[str, str, str]]:
    """Yield for each check that fails the keys to blame, the reason, the hint.

    ``values`` lack the keys that pydantic refuses: then later validators do not run.
    """
    f, v = Values(written), Values(values)
    for check in CHECKS:
        if check.only not in ("", version):
            continue
        try:
            if check.refused(f, v):
                yield check.keys, check.reason, check.hint
        except (TypeError, AttributeError, ValueError):
            yield check.keys, "the trainer computes with it, and cannot", ""
