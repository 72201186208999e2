"""Configs of LLaMA-Factory as people write them, right and wrong, drawn at random.

A config starts from one that LLaMA-Factory accepts. Then a few things change: FP8 and
precision, the stage, adapters, data, schedules, evaluation, saving; a key's value, type
or name. A third of the changes are made at any key of the schema.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from fp8tune.trainers.trainer import trainer

Config = dict[str, Any]

STARTS: tuple[Config, ...] = (
    {
        "model_name_or_path": "Qwen/Qwen3-8B",
        "stage": "sft",
        "do_train": True,
        "finetuning_type": "full",
        "dataset": "alpaca_en_demo",
        "template": "qwen3",
        "cutoff_len": 4096,
        "output_dir": "saves/a",
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 4,
        "learning_rate": 1e-5,
        "num_train_epochs": 3.0,
        "lr_scheduler_type": "cosine",
        "bf16": True,
        "report_to": "none",
    },
    {
        "model_name_or_path": "meta-llama/Meta-Llama-3-8B",
        "stage": "pt",
        "do_train": True,
        "finetuning_type": "lora",
        "lora_rank": 8,
        "lora_target": "all",
        "dataset": "c4_demo",
        "output_dir": "saves/b",
        "bf16": True,
        "fp8": True,
        "report_to": "none",
    },
    {
        "model_name_or_path": "meta-llama/Meta-Llama-3-8B",
        "stage": "sft",
        "do_train": True,
        "finetuning_type": "full",
        "dataset": "identity, alpaca",
        "output_dir": "saves/c",
        "fp8": True,
        "fp8_backend": "torchao",
        "val_size": 0.1,
        "eval_strategy": "steps",
        "eval_steps": 500,
        "report_to": "none",
    },
)

CHANGES: tuple[Config, ...] = (
    *({"fp8": value} for value in (True, True, False, "false", "true", 1)),
    *({"fp8_backend": b} for b in ("auto", "torchao", "te", "te", "msamp", "ao")),
    {"fp8": True, "fp8_enable_fsdp_float8_all_gather": True},
    {"fp8_enable_fsdp_float8_all_gather": True},
    {"fp8": True, "quantization_bit": 4},
    {"quantization_bit": 4, "finetuning_type": "lora"},
    *({"bf16": value} for value in (True, False, "true")),
    {"bf16": False, "fp16": True},
    {"fp16": True},
    {"pure_bf16": True, "bf16": False},
    *({"stage": stage} for stage in ("pt", "rm", "dpo", "kto", "ppo", "sft")),
    {"stage": "ppo", "reward_model": "a/b", "finetuning_type": "lora"},
    {"stage": "dpo", "pref_loss": "simpo"},
    *({"finetuning_type": kind} for kind in ("full", "lora", "freeze", "oft", "qlora")),
    {"use_galore": True},
    {"use_rslora": True},
    {"use_dora": True},
    {"loraplus_lr_ratio": 16.0},
    {"pissa_init": True},
    {"adapter_name_or_path": "saves/x"},
    {"streaming": True},
    {"streaming": True, "max_steps": 100},
    {"max_samples": 1000},
    {"packing": True},
    {"neat_packing": True},
    {"train_on_prompt": True},
    {"val_size": 0.1},
    {"eval_dataset": "b"},
    {"eval_strategy": "steps"},
    {"eval_strategy": "epoch", "val_size": 0.1},
    {"eval_steps": 100},
    {"load_best_model_at_end": True},
    {"save_strategy": "epoch"},
    {"save_steps": 500},
    {"logging_steps": 0},
    {"logging_steps": 10},
    {"warmup_ratio": 0.1},
    {"warmup_steps": 20},
    {"optim": "adamw_8bit"},
    {"optim": "adamw"},
    {"lr_scheduler_type": "linear"},
    {"lr_scheduler_type": "wsd"},
    {"lr_scheduler_type": "reduce_lr_on_plateau"},
    {"dataset": None},
    {"interleave_probs": "0.3,0.7", "mix_strategy": "interleave_under"},
    {"interleave_probs": "0.5"},
    {"do_predict": True},
    {"predict_with_generate": True, "val_size": 0.1},
    {"dataloader_prefetch_factor": 2},
    {"dataloader_num_workers": 4},
    {"torch_compile": True},
    {"learning_rate": "5e-5"},
    {"torch_empty_cache_steps": 0},
)

ODD: tuple[Any, ...] = (0, 1, -1, 2, 0.5, 1e-4, "", "2", "x", "true", True, False, None)

ELSEWHERE = (
    *(
        "deepspeed",
        "fsdp",
        "fsdp_config",
        "accelerator_config",
        "resume_from_checkpoint",
    ),
    *("report_to", "output_dir", "debug", "ddp_backend", "local_rank", "use_cpu"),
    *("trackio_space_id", "project", "logging_dir", "log_level", "log_level_replica"),
    *(
        "half_precision_backend",
        "fp16_backend",
        "torchdynamo",
        "tf32",
        "use_kt",
        "seed",
    ),
    *("new_special_tokens_config", "mp_parameters", "tpu_num_cores", "no_cuda"),
    *("use_mps_device", "xpu_backend", "jit_mode_eval", "use_ipex", "fp8_backend"),
    *("lr_scheduler_kwargs", "optim_args", "torch_compile_backend", "use_unsloth"),
    *("torch_compile_mode", "parallelism_config", "ray_init_kwargs", "vllm_config"),
    *(
        "sglang_config",
        "framework",
        "push_to_hub_token",
        "past_index",
        "full_determinism",
    ),
    *("mixture_of_depths", "do_train", "data_seed", "fsdp_min_num_params"),
)
"""Keys whose values are looked up on the machine, or that belong to other programs."""


def configs(version: str, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield drawn configs: ``id`` and ``yaml``."""
    import yaml

    keys = trainer(f"llamafactory=={version}").schema.top_keys
    drawn = random.Random(seed)  # noqa: S311
    plain = [name for name in keys if name not in ELSEWHERE]
    for number in range(count):
        config = dict(drawn.choice(STARTS))
        for _ in range(drawn.choice((0, 1, 1, 2, 2, 3, 4))):
            _change(config, drawn, plain)
        text = yaml.safe_dump(config, sort_keys=False)
        yield {"id": f"{version}-{seed}-{number}", "version": version, "yaml": text}


def _change(config: Config, drawn: random.Random, names: list[str]) -> None:
    kind = drawn.random()
    if kind < 0.6:
        config |= drawn.choice(CHANGES)
    elif kind < 0.68:
        name = drawn.choice([*config])
        config[_misspelt(name, drawn)] = config.pop(name)
    elif kind < 0.75:
        name = drawn.choice([name for name in config if name not in ELSEWHERE])
        config[name] = drawn.choice(ODD)
    elif kind < 0.8:
        name = drawn.choice(names)
        config[name] = drawn.choice(ODD)
    elif kind < 0.9:
        config.pop(drawn.choice([*config]))
    else:
        config[drawn.choice(("max_seq_length", "fp8_recipe", "lr", "use_fp8"))] = 1


def _misspelt(name: str, drawn: random.Random) -> str:
    place = drawn.randrange(len(name))
    return name[:place] + drawn.choice(("", "_", "e")) + name[place + 1 :]
