"""Configs of DeepSpeed, right and wrong, as texts, each with its number of ranks."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

SECTIONS: dict[str, dict[str, tuple[Any, ...]]] = {
    "zero_optimization": {
        "stage": (0, 1, 2, 3, 4, "2", "two", -1, 2.0, 2.5, True, None, "auto"),
        "overlap_comm": (True, False, "true", None, 3, "auto"),
        "reduce_bucket_size": (500000000, 5e8, "5e8", 0, -1, "auto", "200000000"),
        "allgather_bucket_size": (2e8, 0, -1, 1.5, "auto"),
        "contiguous_gradients": (True, "yes", 1, 2, "maybe", None),
        "sub_group_size": (1e9, -1, 12345678901234, 1e12),
        "stage3_max_live_parameters": (1e9, -5, "1e9"),
        "stage3_gather_16bit_weights_on_model_save": (True, "auto", "off"),
        "stage3_prefetch_bucket_size": ("auto", 0.5, 10),
        "compute_grad_norm": (True, False),
        "zero_hpz_partition_size": (1, 8, -1),
        "zero_quantized_weights": (True, False, "x"),
        "mics_shard_size": ("auto", 8),
        "offload_optimizer": (
            *(
                {"device": "cpu"},
                {"device": "gpu"},
                {"device": "none", "pin_memory": 1},
            ),
            *({"device": "cpu", "ratio": 0.5}, {"ratio": 1.5}, {"devise": "cpu"}),
            *("cpu", None, True, {"device": "nvme", "nvme_path": "/nvme"}, {}),
        ),
        "offload_param": (
            *(
                {"device": "cpu"},
                {"device": "nvme", "nvme_path": 3},
                {"device": "auto"},
            ),
            *({"device": "cpu", "buffer_count": -1}, {"device": None}, "none", []),
        ),
        "cpu_offload": (True, False, None),
    },
    "bf16": {
        "enabled": (True, False, "auto", "true", 1, 2, None, "on"),
        "enable": ("auto", True),
        "bf16_master_weights_and_grads": (False, True),
        "bf16_optimizer_states": (False, True),
        "check_grad_overflow": (True, "no"),
        "loss_scale": ("auto", 0),
    },
    "fp16": {
        "enabled": (False, True, True, "auto", 0),
        "loss_scale": (0, 128, -1, "0", "x", True, 1e400, None, "auto"),
        "loss_scale_window": (1000, 0, -1, 1.5, True, "500", None),
        "initial_scale_power": (16, "auto", 16.5),
        "hysteresis": (2, "2"),
        "min_loss_scale": (1, 0, False, "1"),
        "auto_cast": (False, True),
        "fp16_master_weights_and_grads": (False, True),
        "opt_level": ("auto", "O1"),
    },
    "torch_autocast": {
        "enabled": (True, False),
        "dtype": (
            "bf16",
            "bfloat16",
            "fp16",
            "torch.float16",
            "fp8",
            "float8_e4m3fn",
            3,
        ),
        "lower_precision_safe_modules": (["torch.nn.Linear"],),
        "unknown": (1,),
    },
    "activation_checkpointing": {
        "partition_activations": (True, False),
        "number_checkpoints": (4, None),
        "partition_activation": (True,),
    },
    "wandb": {"enabled": (True, False), "project": ("x", 3), "teams": ("auto", "a")},
    "tensorboard": {"enabled": (True, "x"), "output_path": ("out", None)},
    "comms_logger": {
        "enabled": (False,),
        "verbose": (True, "x"),
        "verbosity": ("auto", 1),
    },
    "hybrid_engine": {
        "enabled": (True,),
        "max_out_tokens": (512, 0),
        "tp": ("auto", 2),
    },
    "compile": {"deepcompile": (True, False, "x"), "backend": ("auto", "inductor")},
    "checkpoint": {
        "tag_validation": ("Warn", "fail", "never"),
        "load_universal": (True,),
    },
    "data_types": {
        "grad_accum_dtype": ("fp32", "x"),
        "keep_in_fp32_modules": ("auto", ["a"], 3),
    },
    "optimizer": {"type": ("AdamW", "Muon"), "params": ({"lr": "auto"}, {"lr": 1e-5})},
    "scheduler": {"type": ("WarmupLR",), "params": ({"warmup_num_steps": "auto"},)},
}
"""Values of the keys of each section; the first ones of a key are right."""

TOPS: dict[str, tuple[Any, ...]] = {
    "steps_per_print": (10, 2000, 1e5, "inf", "auto"),
    "gradient_clipping": (1.0, "auto", 0),
    "wall_clock_breakdown": (False, True),
    "communication_data_type": ("fp32", "bf16", "FP16", "fp8", "auto", None),
    "gradient_allreduce_op": ("mean", "sum", "max", "Mean"),
    "prescale_gradients": (True,),
    "zero_allow_untested_optimizer": (True,),
    "disable_allgather": (False, True),
    "dump_state": (True,),
    "fp8": ({"enabled": True},),
    "zero_optimisation": ({"stage": 2},),
    "nonsense": (1,),
    "_comment": ("text",),
    "gradient_accumulation_step": (2,),
    "elasticity": ({"enabled": False},),
    "nebula": ({"enabled": False},),
    "amp": ({"enabled": True},),
}

SIZES = (1, 2, 3, 4, 8, 16, 32, 64, 128)
WORLDS = (0, 0, 1, 2, 4, 8, 6)


def configs(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield configs: an id, the text, and the number of ranks (0: unknown)."""
    draw = random.Random(seed)  # noqa: S311
    for number in range(count):
        world = draw.choice(WORLDS)
        config = _batch(draw, max(world, 1))
        for section in draw.sample([*SECTIONS], draw.randrange(1, 5)):
            config[section] = _section(draw, SECTIONS[section])
        for key in draw.sample([*TOPS][:-3], draw.randrange(4)):
            config[key] = TOPS[key][0]
        if draw.random() < 0.5:
            _damage(draw, config)
        yield {"id": str(number), "world": world, "json": _text(draw, config)}


def _section(draw: random.Random, keys: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    """A section with the first value of up to three keys, which is right for most."""
    names = draw.sample([*keys], draw.randrange(1, min(3, len(keys)) + 1))
    return {name: keys[name][0] for name in names}


def _damage(draw: random.Random, config: dict[str, Any]) -> None:
    """Change one value to any of those listed, or to another type."""
    section = draw.choice([name for name in config if name in SECTIONS])
    kind = draw.random()
    if kind < 0.7:
        name = draw.choice([*SECTIONS[section]])
        config[section][name] = draw.choice(SECTIONS[section][name])
    elif kind < 0.9:
        name = draw.choice([*TOPS])
        config[name] = draw.choice(TOPS[name])
    else:
        config[draw.choice([*config])] = draw.choice((True, 3, "x", [1], None))


def _batch(draw: random.Random, world: int) -> dict[str, Any]:
    """Batch sizes that fit, or with one of them changed, left out or ``"auto"``."""
    micro, steps = draw.choice(SIZES), draw.choice(SIZES)
    sizes: dict[str, Any] = {
        "train_batch_size": micro * steps * world,
        "train_micro_batch_size_per_gpu": micro,
        "gradient_accumulation_steps": steps,
    }
    for name in draw.sample([*sizes], draw.randrange(3)):
        del sizes[name]
    if draw.random() < 0.2 and sizes:
        name = draw.choice([*sizes])
        others = (*SIZES, 9, 10, 0, -4, "8", 8.0, 2.5, True, None)
        sizes[name] = draw.choice(others)
    return sizes


def _text(draw: random.Random, config: dict[str, Any]) -> str:
    text = json.dumps(config, indent=draw.choice((None, 2, 4)))
    liberty = draw.randrange(12)
    if liberty == 0:
        text = f"# a remark\n{text} // the end"
    elif liberty == 1:
        text = text.replace("{", "{ /* section */ ", 1)
    elif liberty == 2:
        text = text.replace('": ', "': ").replace('"', "'")
    elif liberty == 3:
        text = text.replace("}", ",}")
    elif liberty == 4:
        text = text.replace(",\n", "\n")
    elif liberty == 5:
        at = draw.randrange(len(text))
        text = text[:at] + text[at + 1 :]
    elif liberty == 6:
        text = text.replace("{", '{"steps_per_print": 3, "steps_per_print": 4, ', 1)
    return text
