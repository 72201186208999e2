"""LLaMA-Factory's file as training arguments, where ``accelerate launch`` starts it.

It hands transformers' arguments to the Trainer, so the launcher's FP8 depends on them
as everywhere (``llamafactory_verdicts.md``). Its own keys for the model, the
data and the adapters are left to its own check.

Source: LLaMA-Factory 0.9.5, hparams/parser.py and train/fp8_utils.py.
"""

from __future__ import annotations

from typing import Any

from fp8tune.trainers.about import trainers
from fp8tune.trainers.recognise import recognise

NAME = "llamafactory"

OF_SCRIPTS = {
    *("model_name_or_path", "dtype", "torch_dtype", "load_in_4bit", "load_in_8bit"),
    *("max_length", "max_seq_length", "max_completion_length", "packing"),
    *("packing_strategy", "padding_free", "pad_to_multiple_of", "use_peft", "lora_r"),
}
"""Keys of TRL and of scripts, which LLaMA-Factory lacks or reads as something else.

Without the model's name nothing is said of sizes and memory.
"""


def is_llamafactory(raw: dict[str, Any]) -> bool:
    """Whether the keys of a file of training arguments are those of LLaMA-Factory."""
    if raw.keys().isdisjoint(trainers()[NAME].marks):
        return False
    kind = recognise(raw, explicit=True, form="yaml")
    return kind.trainer.partition("==")[0] == NAME


def trains(raw: dict[str, Any]) -> bool:
    """Whether a file trains by the Trainer; PPO has a loop of its own."""
    return bool(raw.get("do_train")) and raw.get("stage") != "ppo"


def as_arguments(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the training arguments of a file, with LLaMA-Factory's defaults.

    It refuses bf16 beside fp16 itself, and its own check says so.
    """
    given = {key: value for key, value in raw.items() if key not in OF_SCRIPTS}
    given["bf16"] = raw.get("bf16") or False
    if given["bf16"]:
        given.pop("fp16", None)
    return given
