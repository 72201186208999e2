"""Configs of Axolotl as people write them, right and wrong, drawn at random.

A config starts from one that Axolotl accepts. Then a few things change: FP8 and
precision, FSDP, adapters, RL, data, schedules, evaluation, attention; a key's value,
type or name. A quarter of the changes are made at any key of the schema.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

from fp8tune.trainers.trainer import trainer

Config = dict[str, Any]

DATA = [{"path": "tatsu-lab/alpaca", "type": "alpaca"}]
STARTS: tuple[Config, ...] = (
    {
        "base_model": "NousResearch/Meta-Llama-3.1-8B",
        "datasets": DATA,
        "sequence_len": 4096,
        "sample_packing": True,
        "micro_batch_size": 2,
        "gradient_accumulation_steps": 4,
        "num_epochs": 1,
        "optimizer": "adamw_torch_fused",
        "lr_scheduler": "cosine",
        "learning_rate": "2e-5",
        "bf16": "auto",
        "attn_implementation": "flash_attention_2",
        "gradient_checkpointing": True,
        "output_dir": "./outputs/a",
    },
    {
        "base_model": "Qwen/Qwen3-4B",
        "datasets": DATA,
        "sequence_len": 2048,
        "micro_batch_size": 1,
        "gradient_accumulation_steps": 1,
        "num_epochs": 1,
        "learning_rate": 1e-5,
        "bf16": True,
        "fp8": True,
        "torch_compile": True,
        "fsdp_version": 2,
        "fsdp_config": {
            "offload_params": False,
            "cpu_ram_efficient_loading": False,
            "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "transformer_layer_cls_to_wrap": "Qwen3DecoderLayer",
            "state_dict_type": "FULL_STATE_DICT",
            "reshard_after_forward": True,
        },
    },
    {
        "base_model": "NousResearch/Llama-3.2-1B",
        "load_in_4bit": True,
        "adapter": "qlora",
        "lora_r": 32,
        "lora_alpha": 16,
        "lora_dropout": 0.05,
        "lora_target_linear": True,
        "datasets": DATA,
        "val_set_size": 0.1,
        "micro_batch_size": 2,
        "gradient_accumulation_steps": 2,
        "learning_rate": 0.0002,
        "evals_per_epoch": 4,
        "saves_per_epoch": 1,
        "bf16": "auto",
    },
)

CHANGES: tuple[Config, ...] = (
    *({"fp8": value} for value in (True, True, False, "true", "on", 2)),
    {"fp8": True, "fp8_config": {"recipe": "rowwise"}},
    {"fp8_config": {"recipe": "rowwise"}},
    {"fp8": True, "fp8_config": {"recipe": "blockwise"}},
    {"fp8": True, "fp8_config": {"recipe": "tensorwise", "all_gather": True}},
    {"fp8": True, "fp8_enable_fsdp_float8_all_gather": True},
    {"fp8": True, "fp8_enable_fsdp_float8_all_gather": True, "fsdp_version": 2},
    {"fp8_recipe": "rowwise"},
    {"fp8_enabled": True},
    {"float8": True},
    *({"bf16": value} for value in (True, False, "auto", "full")),
    {"bf16": False, "fp16": True},
    *(
        {"rl": kind, "sample_packing": False}
        for kind in ("dpo", "orpo", "simpo", "ipo")
    ),
    {"rl": "kto", "remove_unused_columns": False, "sample_packing": False},
    {"rl": "dpo"},
    {"rl": "ppo"},
    {"reward_model": True},
    {"fsdp_version": 1},
    {"fsdp_version": "2"},
    {"fsdp_config": {"fsdp_version": 2, "fsdp_offload_params": True}},
    {"fsdp_config": {"fsdp_activation_checkpointing": True, "offload_param": True}},
    {"fsdp": ["full_shard", "auto_wrap"]},
    {"adapter": "lora", "load_in_4bit": False},
    {"adapter": "lora", "load_in_8bit": True, "load_in_4bit": False},
    {"adapter": None},
    {"load_in_4bit": False},
    {"load_in_8bit": True},
    {"optimizer": "adamw_8bit"},
    {"optimizer": "muon"},
    {"optimizer": "adamw"},
    {"optimizer": "q_galore_adamw8bit"},
    {"lr_scheduler": "rex"},
    {"warmup_ratio": 0.1, "warmup_steps": 10},
    {"warmup_steps": 10},
    {"save_steps": 100},
    {"save_strategy": "epoch"},
    {"save_strategy": "best"},
    {"eval_steps": 100},
    {"eval_strategy": "epoch"},
    {"evals_per_epoch": 2},
    {"val_set_size": 0},
    {"test_datasets": DATA},
    {"streaming": True},
    {"streaming": True, "max_steps": 100, "val_set_size": 0},
    {"pretraining_dataset": [{"path": "allenai/c4"}], "max_steps": 100},
    {"batch_size": 8},
    {"gradient_accumulation_steps": None},
    {"flash_attention": True},
    {"attn_implementation": None, "flash_attention": True},
    {"attn_implementation": "sdpa"},
    {"attn_implementation": "flash"},
    {"attn_implementation": "flash_attention_4"},
    {"context_parallel_size": 2, "micro_batch_size": 1},
    {"gradient_checkpointing": False},
    {"gradient_checkpointing": False, "activation_offloading": True},
    {"gradient_checkpointing": "offload"},
    {"activation_offloading": True},
    {"torch_compile": "auto"},
    {"torch_compile_options": {"max_autotune_gemm": True}},
    {"torch_compile_mode": "reduce-overhead"},
    {"liger_rope": True},
    {"plugins": ["axolotl.integrations.liger.LigerPlugin"], "liger_rope": True},
    {"lora_mlp_kernel": True},
    {"trust_remote_code": True, "lora_qkv_kernel": True},
    {"neftune_noise_alpha": 5},
    {"noisy_embedding_alpha": 5},
    {"save_safetensors": False},
    {"chat_template": "jinja"},
    {"chat_template": "llama3"},
    {"deepspeed": "deepspeed_configs/zero2.json", "fsdp": ["full_shard"]},
    {"relora": True},
    {"sequence_len": "4096"},
    {"special_tokens": {"pad_token": "<|pad|>"}},
    {"datasets": [{"path": "x", "type": "sharegpt"}]},
    {"datasets": [{"path": "x", "type": "alpaca", "train_on_split": "train"}]},
    {"datasets": []},
)

ODD: tuple[Any, ...] = (0, 1, -1, 2, 0.5, "", "2", "x", "true", True, False, None)

ELSEWHERE = (
    *("deepspeed", "plugins", "datasets", "test_datasets", "pretraining_dataset"),
    *("capabilities", "env_capabilities", "use_ray", "trainer_cls", "adapter"),
    *("context_parallel_size", "sequence_parallel_degree", "tensor_parallel_size"),
    *("attn_implementation", "fsdp_final_state_dict_type", "dataset_processes"),
    *("deepcompile", "merge_lora", "is_preprocess", "world_size", "local_rank"),
    *("optim_args", "lr_groups", "unfrozen_parameters", "expert_parallel_size"),
    *("use_glm_dsa_kernels", "roles_to_train", "tokenizer_use_mistral_common"),
)
"""Keys whose values are looked up on the machine, or need other packages."""


def configs(version: str, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield drawn configs: ``id`` and ``yaml``."""
    import yaml

    keys = trainer(f"axolotl=={version}").schema.classes["AxolotlInputConfig"]
    drawn = random.Random(seed)  # noqa: S311
    plain = [name for name in keys if name not in ELSEWHERE]
    for number in range(count):
        config = copy.deepcopy(drawn.choice(STARTS))
        for _ in range(drawn.choice((0, 1, 1, 2, 2, 3, 4))):
            _change(config, drawn, plain)
        text = yaml.safe_dump(config, sort_keys=False)
        yield {"id": f"{version}-{seed}-{number}", "version": version, "yaml": text}


def _change(config: Config, drawn: random.Random, names: list[str]) -> None:
    kind = drawn.random()
    if kind < 0.62:
        config |= copy.deepcopy(drawn.choice(CHANGES))
    elif kind < 0.7:
        name = drawn.choice([*config])
        config[_misspelt(name, drawn)] = config.pop(name)
    elif kind < 0.77:
        name = drawn.choice([name for name in config if name not in ELSEWHERE])
        config[name] = drawn.choice(ODD)
    elif kind < 0.82:
        config[drawn.choice(names)] = drawn.choice(ODD)
    elif kind < 0.92:
        config.pop(drawn.choice([*config]))
    elif isinstance(config.get("fsdp_config"), dict):
        inner = config["fsdp_config"]
        name = drawn.choice(("activation_checkpointing", "offload_params", "mode"))
        inner[name] = drawn.choice((True, False, "x"))


def _misspelt(name: str, drawn: random.Random) -> str:
    place = drawn.randrange(len(name))
    return name[:place] + drawn.choice(("", "_", "e")) + name[place + 1 :]
