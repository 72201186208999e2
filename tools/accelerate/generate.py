"""Draw launch files of Accelerate, valid ones and mutated ones.

Each begins as one of the files that ``accelerate config`` writes, with options of FP8.
Then some keys get other values: those that people write, of other types, misspelt keys
and keys of other releases. Most files have one or two mutations, some have none.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import yaml

BASE: dict[str, Any] = {
    "compute_environment": "LOCAL_MACHINE",
    "debug": False,
    "distributed_type": "MULTI_GPU",
    "gpu_ids": "all",
    "machine_rank": 0,
    "main_training_function": "main",
    "mixed_precision": "fp8",
    "num_machines": 1,
    "num_processes": 8,
    "rdzv_backend": "static",
    "same_network": True,
    "use_cpu": False,
}
FSDP = {
    "fsdp_version": 2,
    "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
    "fsdp_transformer_layer_cls_to_wrap": "LlamaDecoderLayer",
    "fsdp_cpu_ram_efficient_loading": True,
    "fsdp_sync_module_states": True,
    "fsdp_state_dict_type": "SHARDED_STATE_DICT",
    "fsdp_offload_params": False,
    "fsdp_reshard_after_forward": True,
    "fsdp_activation_checkpointing": False,
}
DEEPSPEED = {
    "zero_stage": 3,
    "gradient_accumulation_steps": 1,
    "offload_optimizer_device": "none",
    "offload_param_device": "none",
    "zero3_init_flag": True,
    "zero3_save_16bit_model": True,
}
KINDS: list[dict[str, Any]] = [
    {},
    {"distributed_type": "NO", "num_processes": 1},
    {"distributed_type": "FSDP", "fsdp_config": FSDP},
    {"distributed_type": "FSDP", "fsdp_config": FSDP | {"fsdp_version": 1}},
    {"distributed_type": "DEEPSPEED", "deepspeed_config": DEEPSPEED},
    {
        "distributed_type": "MEGATRON_LM",
        "megatron_lm_config": {"megatron_lm_tp_degree": 2},
    },
    {"distributed_type": "MULTI_CPU", "use_cpu": True},
]
FP8: list[dict[str, Any]] = [
    {},
    {"fp8_config": {"backend": "AO"}},
    {
        "fp8_config": {
            "backend": "AO",
            "enable_fsdp_float8_all_gather": True,
            "pad_inner_dim": True,
        }
    },
    {"fp8_config": {"backend": "AO", "enable_fsdp_float8_all_gather": False}},
    {
        "fp8_config": {
            "backend": "TE",
            "use_autocast_during_eval": False,
            "margin": 0,
            "interval": 1,
            "fp8_format": "HYBRID",
            "amax_history_length": 1024,
            "amax_compute_algorithm": "most_recent",
            "override_linear_precision": [False, False, False],
        }
    },
    {
        "fp8_config": {
            "fp8_backend": "TE",
            "fp8_format": "E4M3",
            "amax_compute_algo": "max",
        }
    },
    {"fp8_config": {"backend": "MSAMP", "optimization_level": "O2"}},
]

VALUES: dict[str, list[Any]] = {
    "mixed_precision": [
        "no",
        "fp16",
        "bf16",
        "fp8",
        "FP8",
        "BF16",
        False,
        None,
        "fp9",
        "float8",
        "",
        8,
        "fp32",
    ],
    "distributed_type": [
        "NO",
        "MULTI_GPU",
        "FSDP",
        "DEEPSPEED",
        "MEGATRON_LM",
        "MULTI_CPU",
        "XLA",
        "DDP",
        "fsdp",
        "multi_gpu",
        False,
        None,
        "TPU",
        "MULTI_NEURON",
        3,
    ],
    "compute_environment": ["LOCAL_MACHINE", "AMAZON_SAGEMAKER", "local_machine", None],
    "num_processes": [1, 2, 8, 16, -1, 0, None, "8", 2.0, True],
    "num_machines": [1, 2, 4, 0, None, "1", "2", 1.5],
    "machine_rank": [0, 1, "0", "a", None],
    "main_process_ip": ["10.0.0.1", None, 127],
    "main_process_port": [0, 29511, None, "29500", 70000, 29512.5],
    "gpu_ids": ["all", "0,1", "0", 0, None, [0, 1], "0,1,2,3"],
    "debug": [True, False, None, "no"],
    "use_cpu": [True, False, None, "maybe", "no"],
    "fp8_config.backend": ["AO", "TE", "MSAMP", "ao", "te", "torchao", None, False],
    "fp8_config.override_linear_precision": [
        "(false, false, false)",
        [True, False],
        "no",
        None,
        True,
        [0, 0, 1],
        "",
    ],
    "fp8_config": [None, "AO", [], {}],
    "fsdp_config": [None, "full", {}],
    "deepspeed_config": [
        None,
        "ds.json",
        {},
        {"deepspeed_config_file": "ds.json", "zero3_init_flag": True},
    ],
    "fsdp_config.fsdp_cpu_ram_efficient_loading": [True, False, "false", "true", None],
    "fsdp_config.fsdp_sync_module_states": [True, False, "false", None],
    "fsdp_config.fsdp_version": [1, 2, "2", 3],
    "fsdp_config.version": [2],
    "deepspeed_config.deepspeed_multinode_launcher": [
        "standard",
        "pdsh",
        "openmpi",
        None,
    ],
    "deepspeed_config.deepspeed_inclusion_filter": ["worker-0"],
    "dynamo_config": [
        {"dynamo_backend": "INDUCTOR"},
        {"dynamo_backend": "inductor", "dynamo_mode": "default"},
        {"backend": "inductor"},
        {"backend": "nope"},
        {"dynamo_backend": False},
        {"dynamo_backend": None},
        {"dynamo_backend": "inductr"},
        None,
        "INDUCTOR",
    ],
    "dynamo_backend": ["NO", "INDUCTOR", "no", "foo", False],
    "fp16": [True, False, None],
    "parallelism_config": [
        {},
        None,
        {"parallelism_config_cp_size": 2},
        {"parallelism_config_cp_size": "2"},
        {"parallelism_config_tp_size": 2, "parallelism_config_sp_size": "2"},
    ],
    "ipex_config": [{"ipex": True}],
    "mpirun_config": [{}, None],
    "downcast_bf16": ["no", False],
    "tpu_env": [[]],
}
"""Values for keys; most tables get them only if they are there."""

STRANGE = [
    "fp8_backend",
    "bf16",
    "fp8",
    "fp8_recipe",
    "deepspeed",
    "mixed_precison",
    "num_process",
    "fsdp",
    "training_script",
    "fp8_format",
    "zero_stage",
]
"""Keys that stand at the root by mistake."""

INNER = {
    "fp8_config": [
        "recipe",
        "fp8_recipe",
        "amax_history_len",
        "amax_compute_algo",
        "opt_level",
        "use_mxfp8_block_scaling",
        "fp8_margin",
    ],
    "fsdp_config": [
        "fsdp_backward_prefetch_policy",
        "cpu_ram_efficient_loading",
        "activation_checkpointing",
    ],
    "deepspeed_config": ["deepspeed_config_file", "stage", "num_processes"],
    "dynamo_config": ["dynamo_mode", "mode"],
}


def configs(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield drawn launch files: ``id`` and ``text``."""
    draw = random.Random(f"accelerate {seed}")  # noqa: S311
    for number in range(count):
        values = dict(BASE)
        for change in (draw.choice(KINDS), draw.choice(FP8)):
            values |= {
                k: dict(v) if isinstance(v, dict) else v for k, v in change.items()
            }
        for _ in range(draw.choice((0, 1, 1, 1, 2, 2, 3))):
            mutate(draw, values)
        yield {"id": f"{seed}.{number}", "text": yaml.safe_dump(values)}


def mutate(draw: random.Random, values: dict[str, Any]) -> None:
    """Change one thing of a launch file."""
    kind = draw.random()
    if kind < 0.1 and len(values) > 2:
        del values[draw.choice(sorted(values))]
    elif kind < 0.2:
        values[draw.choice(STRANGE)] = draw.choice((True, "AO", 1))
    elif kind < 0.32:
        tables = [table for table in INNER if isinstance(values.get(table), dict)]
        if tables:
            table = draw.choice(tables)
            values[table][draw.choice(INNER[table])] = draw.choice((True, 16, "max", 1))
    else:
        name = draw.choice(sorted(VALUES))
        table, _, key = name.rpartition(".")
        value = draw.choice(VALUES[name])
        if not table:
            values[key] = dict(value) if isinstance(value, dict) else value
        elif isinstance(values.get(table), dict):
            values[table][key] = value


BACKENDS = [None, "AO", "AO", "TE", "ao", "te", "torchao", "msamp"]
"""Backends of files whose set-up is run; those that are not installed end it."""

FP8_TABLE: dict[str, list[Any]] = {
    "backend": BACKENDS,
    "enable_fsdp_float8_all_gather": [None, True, False, "maybe", "false", "on"],
    "pad_inner_dim": [None, True, False, "maybe"],
    "amax_history_length": [None, 16],
}
SOUND_TABLE: dict[str, list[Any]] = {
    "backend": ["AO", "AO", "TE"],
    "enable_fsdp_float8_all_gather": [None, True, False],
    "pad_inner_dim": [None, True, False],
    "fp8_format": [None, None, "HYBRID"],
}
"""Options with which the set-up goes on, of half of the files."""

ARGUMENTS: dict[str, list[Any]] = {
    "bf16": [None, True, False, "false"],
    "fp16": [None, None, False, True],
}
SOUND_ARGUMENTS: dict[str, list[Any]] = {
    "bf16": [False, False, False, True, None],
    "fp16": [None, False],
}
OTHER_ARGUMENTS: dict[str, list[Any]] = {
    "torch_compile": [None, False],
    "gradient_checkpointing": [None, True],
    "per_device_train_batch_size": [None, 1, 2],
    "gradient_accumulation_steps": [None, None, 1, 2],
    "save_strategy": [None, "no", "epoch"],
}
DEEPSPEED_TABLES: list[dict[str, Any]] = [
    {"zero_stage": 1},
    {"zero_stage": 2},
    {"deepspeed_config_file": "ds.json"},
    {"deepspeed_config_file": "ds.json"},
    {"deepspeed_config_file": "ds.json", "zero3_init_flag": False},
    {"deepspeed_config_file": "ds.json", "zero_stage": 2},
    {"deepspeed_config_file": "ds.json", "gradient_clipping": 1.0},
]
"""What launch files say of DeepSpeed; ``ds.json`` is drawn too."""

DEEPSPEED_FILE: dict[str, list[Any]] = {
    "zero_optimization": [{"stage": 2}] * 4 + [None],
    "train_micro_batch_size_per_gpu": [1, 1, "auto", 2],
    "gradient_accumulation_steps": [1, "auto", None, 2],
    "bf16": [{"enabled": "auto"}, None, {"enabled": True}, {"enabled": False}],
    "gradient_clipping": [None, None, 1.0, 0.5],
}

COMPARED: dict[str, Any] = {
    "bf16": False,
    "per_device_train_batch_size": 1,
    "gradient_accumulation_steps": 1,
    "max_grad_norm": 1.0,
}

TRL_ARGUMENTS: dict[str, list[Any]] = {
    "max_length": [None, 16],
    "packing": [None, False],
    "dataset_num_proc": [None, 1],
}


def fp8_configs(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield launch files with training arguments: of the Trainer, of TRL, or none."""
    draw = random.Random(f"accelerate fp8 {seed}")  # noqa: S311
    for number in range(count):
        sound = draw.random() < 0.5
        values = _launch_file(draw, sound=sound)
        program = draw.choice(("trainer", "trainer", "trl", "trl", "accelerator"))
        training = None
        if program != "accelerator":
            training = _drawn(draw, SOUND_ARGUMENTS if sound else ARGUMENTS)
            training |= {"output_dir": "out"} | _drawn(draw, OTHER_ARGUMENTS)
        if training and program == "trl":
            training |= _drawn(draw, TRL_ARGUMENTS)
        text = yaml.safe_dump(values)
        if training and draw.random() < 0.06:
            training["deepspeed"] = "ds.json"
        named = "ds.json" in text or (training and "deepspeed" in training)
        if named and training:  # fp8tune compares only what both files set
            training = COMPARED | training
        yield {
            "id": f"fp8.{seed}.{number}",
            "text": text,
            "program": program,
            "training": training,
            "deepspeed": _drawn(draw, DEEPSPEED_FILE) if named else None,
        }


def _launch_file(draw: random.Random, *, sound: bool) -> dict[str, Any]:
    """Return a launch file that asks for FP8, or for another precision."""
    kinds = ["NO", "MULTI_GPU", "FSDP", "FSDP"] + ["DEEPSPEED"] * (not sound)
    values = BASE | {"distributed_type": draw.choice(kinds)}
    words = ("fp8", "fp8", "FP8") if sound else ("fp8", "fp8", "fp8", "bf16", "no")
    values["mixed_precision"] = draw.choice(words)
    table = _drawn(draw, SOUND_TABLE if sound else FP8_TABLE)
    if table:
        values["fp8_config"] = table
    if values["distributed_type"] == "FSDP":
        name = "fsdp_cpu_ram_efficient_loading"
        loading = [False] if sound else [None, True, False, "false"]
        drawn = _drawn(draw, {name: loading})
        values["fsdp_config"] = {"fsdp_version": 2} | drawn
    elif values["distributed_type"] == "DEEPSPEED":
        values["deepspeed_config"] = dict(draw.choice(DEEPSPEED_TABLES))
        if draw.random() < 0.4:
            del values["mixed_precision"]
    return values


def _drawn(draw: random.Random, values: dict[str, list[Any]]) -> dict[str, Any]:
    """Return a value for each key; None leaves it out."""
    chosen = {key: draw.choice(options) for key, options in values.items()}
    return {key: value for key, value in chosen.items() if value is not None}
