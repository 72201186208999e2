"""What Axolotl itself does with configs, one JSON line each.

``TRAINER_PYTHON -m tools.axolotl.judge < configs.jsonl`` needs a Python with
Axolotl, transformers, accelerate, trl and torchao as Axolotl pins them. An input line
holds ``yaml``. The output adds ``error``, the beginning of what ends the run before it
trains (``""`` if it starts), ``dropped``, the keys at the top that its classes do not
keep, and ``fp8``, the number of Float8Linear modules after the trainer's own set-up of
a tiny Llama (``null`` if it is refused).

The text goes through ``yaml.safe_load`` and ``validate_config`` with the capabilities
of one H100, as ``axolotl train FILE`` does on such a machine. Then the environment is
set, the FP8 patches are applied, and the class of the trainer for the config makes its
accelerator, which prepares the model, on the CPU and without FSDP. Models and data are
not looked up.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

CAPABILITIES = {
    "bf16": True,
    "fp8": True,
    "tf32": False,  # it would be set, which a CPU refuses
    "n_gpu": 1,
    "compute_capability": "sm_90",
}
"""What Axolotl finds on a machine with one H100."""

ENVIRONMENT = {"torch_version": "2.12.0"}

BEFORE = dict(os.environ) | {"AXOLOTL_DO_NOT_TRACK": "1"}
"""The environment that each config starts with."""

RENAMED = (
    *("model_config", "model_kwargs", "model_type", "model_revision", "dpo_beta"),
    *("noisy_embedding_alpha", "dataset_processes", "flash_attention"),
    *("sdp_attention", "eager_attention", "xformers_attention", "flex_attention"),
    *("sage_attention", "pretrain_multipack_buffer_size"),
)
"""Keys that are kept by another name."""

OF_RL = {
    "dpo": ("axolotl.core.trainers.dpo.trainer", "AxolotlDPOTrainer"),
    "ipo": ("axolotl.core.trainers.dpo.trainer", "AxolotlDPOTrainer"),
    "orpo": ("axolotl.core.trainers.trl", "AxolotlORPOTrainer"),
    "kto": ("axolotl.core.trainers.trl", "AxolotlKTOTrainer"),
    "simpo": ("axolotl.core.trainers.trl", "AxolotlCPOTrainer"),
    "grpo": ("axolotl.core.trainers.grpo.trainer", "AxolotlGRPOTrainer"),
}
"""The class of the trainer by ``rl`` (core/builders/rl.py)."""


def main() -> int:
    """Judge the configs on standard input."""
    verdicts = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the trainer prints is no verdict
    os.environ.update(BEFORE)
    release = version("axolotl")
    for module in ("axolotl.utils.config", "axolotl.utils.trainer"):
        vars(import_module(module))["is_torch_bf16_gpu_available"] = lambda: True
    for line in sys.stdin:
        config = json.loads(line)
        verdict = _judge(config["yaml"]) | {"version": release}
        print(json.dumps(config | verdict), file=verdicts)
        verdicts.flush()
    return 0


def _judge(text: str) -> dict[str, Any]:
    import yaml

    settings = import_module("axolotl.utils.dict").DictDefault
    validate = import_module("axolotl.utils.config").validate_config
    os.environ.clear()
    os.environ.update(BEFORE)
    try:
        raw = yaml.safe_load(text)
        import_module("axolotl.integrations.base").PluginManager._instance = None
        import_module("axolotl.cli.config").prepare_plugins(settings(raw))
        config = validate(settings(raw), CAPABILITIES, ENVIRONMENT)
    except (Exception, SystemExit) as error:  # whatever ends the run
        return {"error": _line(error), "dropped": [], "fp8": None}
    kept = config.keys()
    dropped = [key for key in raw if key not in kept and raw[key] is not None]
    dropped = [key for key in dropped if key not in RENAMED]
    try:
        return {"error": "", "dropped": dropped, "fp8": _fp8_modules(config)}
    except (Exception, SystemExit) as error:
        return {"error": f"set-up {_line(error)}", "dropped": dropped, "fp8": None}


def _line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def _fp8_modules(config: Any) -> int:
    """Return how many linears of a tiny model the trainer's set-up converts."""
    transformers = import_module("transformers")
    state = import_module("accelerate.state").AcceleratorState
    owner = transformers.Trainer
    original = owner.create_accelerator_and_postprocess
    state._reset_state(reset_partial_state=True)
    for name in ("fsdp", "fsdp_config", "deepspeed", "context_parallel_size"):
        config[name] = None  # one process on a CPU
    import_module("axolotl.utils.trainer").prepare_optim_env(config)
    manager = import_module("axolotl.loaders.patch_manager").PatchManager
    manager._apply_fp8_patches(SimpleNamespace(cfg=config))
    try:
        import_module("axolotl.utils.config").resolve_dtype(config)
        arguments: dict[str, Any] = {"output_dir": "x", "use_cpu": True}
        builder = import_module("axolotl.core.builders.base").TrainerBuilderBase
        builder._configure_precision_settings(SimpleNamespace(cfg=config), arguments)
        kind = _trainer_class(config)
        trainer = kind.__new__(kind)
        trainer.args = transformers.TrainingArguments(**arguments)
        sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
        shape = transformers.LlamaConfig(vocab_size=128, num_attention_heads=4, **sizes)
        trainer.model = transformers.LlamaForCausalLM(shape)
        trainer.create_accelerator_and_postprocess()
        prepared = trainer.accelerator.prepare(trainer.model)
    finally:
        owner.create_accelerator_and_postprocess = original
    return sum(type(m).__name__ == "Float8Linear" for m in prepared.modules())


def _trainer_class(config: Any) -> Any:
    """Return the class that Axolotl's builders choose, without those of plugins."""
    rl = getattr(config.rl, "value", config.rl)
    where, name = OF_RL.get(rl, ("axolotl.core.trainers.base", "AxolotlTrainer"))
    if not rl and config.reward_model:
        where, name = "axolotl.core.trainers.trl", "AxolotlRewardTrainer"
    return getattr(import_module(where), name)


if __name__ == "__main__":
    sys.exit(main())
