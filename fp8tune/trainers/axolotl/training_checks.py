"""What Axolotl refuses of optimizers, adapters, RL and preference training.

Source: as ``checks.py``.
"""

from __future__ import annotations

import re

from fp8tune.trainers.axolotl.values import (
    Check,
    Refused,
    Values,
    either,
    fsdp_option,
    fsdp_version,
    hoisted_version,
)

KERNELS = ("lora_mlp_kernel", "lora_qkv_kernel", "lora_o_kernel")

LORA = ("lora", "qlora")
BNB_8BIT = ("paged_adamw_8bit", "adamw_8bit", "adamw_bnb_8bit")


def _has_fsdp(f: Values) -> bool:
    return bool(f["fsdp"] or f["fsdp_config"])


def _not_fsdp2(f: Values) -> bool:
    return _has_fsdp(f) and str(fsdp_version(f)) != "2"


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


def _no_number(name: str) -> Refused:
    """Whether a text is no number: the conversion raises ``ValueError``."""
    return lambda _, v: (
        isinstance(v[name], str) and bool(v[name]) and float(v[name]) is None
    )


TRAINING = (
    Check(
        "noisy_embedding_alpha",
        "`neftune_noise_alpha` replaces it, and both are set",
        lambda f, _: f["noisy_embedding_alpha"] and f["neftune_noise_alpha"],
    ),
    either("lr_groups", "loraplus_lr_ratio"),
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
    *(
        Check(name, "it is a number", _no_number(name))
        for name in ("learning_rate", "loraplus_lr_embedding")
    ),
)
