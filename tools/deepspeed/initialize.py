"""What ``deepspeed.initialize`` says of optimizers and schedulers of a config.

``TRAINER_PYTHON -m tools.deepspeed.initialize`` starts DeepSpeed on the CPU with
one linear, for each name and ZeRO stage, and prints its errors. TRAINER_PYTHON has
deepspeed and torch. Optimizers that need a compiled operator are left out.
"""

from __future__ import annotations

import logging
import os
from importlib import import_module
from typing import Any

OPTIMIZERS = (
    *("SGD", "RMSprop", "NAdam", "RAdam", "Adamax", "Adadelta", "Adafactor", "ASGD"),
    *("Rprop", "Adagrad", "adagrad", "AdamW", "adamw", "Adam", "Muon"),
)
SCHEDULERS = {
    "WarmupLR": {},
    "warmuplr": {},
    "WarmupDecayLR": {"total_num_steps": 10},
    "WarmupCosineLR": {"total_num_steps": 10},
    "OneCycle": {"cycle_min_lr": 1e-5, "cycle_max_lr": 1e-4},
    "LRRangeTest": {},
    "CosineAnnealingLR": {"T_max": 10},
    "LinearLR": {},
    "cosine": {},
}
SGD = {"type": "SGD", "params": {"lr": 1e-3}}
ENVIRONMENT = {
    "RANK": "0",
    "LOCAL_RANK": "0",
    "WORLD_SIZE": "1",
    "DS_ACCELERATOR": "cpu",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29511",
}


def start(config: dict[str, Any]) -> str:
    """Return the error of a config, ``starts`` if it has none."""
    torch, deepspeed = import_module("torch"), import_module("deepspeed")
    model = torch.nn.Linear(16, 16)
    config = {"train_micro_batch_size_per_gpu": 1, **config}
    try:
        deepspeed.initialize(
            model=model, model_parameters=model.parameters(), config=config
        )
    except Exception as error:  # whatever ends the run
        return f"{type(error).__name__}: {error}"[:90]
    return "starts"


def main() -> None:
    """Print what each config leads to."""
    os.environ |= ENVIRONMENT
    logging.disable(logging.CRITICAL)
    import_module("deepspeed").init_distributed("gloo")
    bf16 = {"bf16": {"enabled": True}}
    for stage in (0, 1, 2, 3):
        zero = {"zero_optimization": {"stage": stage}}
        for name in OPTIMIZERS:
            optimizer = {"type": name, "params": {"lr": 1e-3}}
            said = start({"optimizer": optimizer, **zero, **bf16})
            print(f"{name}, ZeRO {stage}, bf16: {said}")
        for name, params in SCHEDULERS.items():
            for precision in (bf16, {}):
                config = {
                    "optimizer": SGD,
                    "zero_allow_untested_optimizer": True,
                    "scheduler": {"type": name, "params": params},
                }
                said = start({**config, **zero, **precision})
                words = "bf16" if precision else "fp32"
                print(f"{name}, ZeRO {stage}, {words}: {said}")
    clip = {"type": "AdamW", "params": {"lr": 1e-3, "max_grad_norm": 1.0}}
    print(f"max_grad_norm in optimizer.params: {start({'optimizer': clip})}")


if __name__ == "__main__":
    main()
