"""What LLaMA-Factory refuses before it trains: values that do not fit together.

A check names the keys to blame and says when the values are refused. It computes as the
trainer does: where the trainer ends with a TypeError because a number is a text, the
check raises one too, and counts as a refusal.

Sources: LLaMA-Factory 0.9.4 and 0.9.5, hparams/*.py; transformers 4.57.6 and 5.6.0,
training_args.py. What depends on the machine is left out: packages, files, GPUs,
DeepSpeed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fp8tune.job import Words

Values = dict[str, Any]


class Check(NamedTuple):
    """Keys to blame, the reason, when their values are refused; maybe what to do."""

    keys: str
    reason: str
    refused: Callable[[Values], Any]
    hint: str = ""


NOT_LORA = "{} is only for `finetuning_type: lora`"

TOO_LARGE = 1_000_000
"""By what transformers multiplies shares of the run before it divides them."""


def texts(value: Any) -> Any:
    """The entries of a text with commas; other values as they are."""
    return value.split(",") if isinstance(value, str) else value


def _stripped(name: str) -> Callable[[Values], bool]:
    """Whether the trainer cannot split a value at its commas."""
    return lambda v: v[name] is not None and not v[name].split(",")


def _neither_4_nor_8(name: str) -> Callable[[Values], bool]:
    return lambda v: v[name] not in (None, 8, 4)


def _unless(name: str, key: str, value: str) -> Callable[[Values], Any]:
    """Whether a switch is on although another key has not the value that it needs."""
    return lambda v: v[key] != value and v[name]


def _quantised(name: str) -> Callable[[Values], Any]:
    """Whether a switch is on with quantised weights."""
    return lambda v: v["quantization_bit"] is not None and v[name]


def _steps(v: Values, name: str, strategy: str) -> bool:
    """Whether a number of steps above 1 is no whole one."""
    return bool(v[strategy] == "steps" and v[name] > 1 and v[name] % 1)


def _eval_steps(v: Values) -> Any:
    """The steps between evaluations, as transformers fills them in."""
    unset = v["eval_steps"] is None or v["eval_steps"] == 0
    return v["logging_steps"] if unset else v["eval_steps"]


def _eval_without_steps(v: Values) -> bool:
    unset = v["eval_strategy"] == "steps" and not v["eval_steps"]
    return bool(unset and not v["logging_steps"] > 0)


def _evaluates(v: Values) -> bool:
    """Whether the run evaluates: also if a strategy says when."""
    asked = v["do_eval"] or v["do_predict"] or v["predict_with_generate"]
    return bool(asked or (v["do_eval"] is False and v["eval_strategy"] != "no"))


def _unequal_steps(v: Values) -> bool:
    """Whether the best model cannot be kept: it is not saved where it is evaluated."""
    if not v["load_best_model_at_end"] or v["save_strategy"] == "best":
        return False
    if v["eval_strategy"] != v["save_strategy"]:
        return True
    every, save = _eval_steps(v), v["save_steps"]
    if v["eval_strategy"] != "steps" or save % every == 0:
        return False
    if every < 1 and save < 1:
        return bool((save * TOO_LARGE) % (every * TOO_LARGE) != 0)
    return True


def _interleaved(v: Values) -> bool:
    """Whether the shares of the data sets are not one for each."""
    if v["interleave_probs"] is None:
        return False
    if v["mix_strategy"] == "concat":
        return True
    count = len([float(each) for each in texts(v["interleave_probs"])])
    sets = (texts(v[name]) for name in ("dataset", "eval_dataset"))
    return any(each is not None and len(each) != count for each in sets)


def _optimizers(v: Values) -> list[Any]:
    return [v["use_galore"], v["use_apollo"], v["use_badam"]]


CHECKS = (
    Check(
        "model_name_or_path",
        "it has to name a model",
        lambda v: v["model_name_or_path"] is None,
    ),
    *(
        Check(
            name, "it has to be one text, with commas between entries", _stripped(name)
        )
        for name in ("adapter_name_or_path", "add_tokens", "add_special_tokens")
    ),
    Check(
        "image_max_pixels image_min_pixels",
        "`image_max_pixels` is below `image_min_pixels`",
        lambda v: v["image_max_pixels"] < v["image_min_pixels"],
    ),
    Check(
        "video_max_pixels video_min_pixels",
        "`video_max_pixels` is below `video_min_pixels`",
        lambda v: v["video_max_pixels"] < v["video_min_pixels"],
    ),
    Check(
        "export_quantization_bit",
        "quantised export needs `export_quantization_dataset`",
        lambda v: (
            v["export_quantization_bit"] is not None
            and v["export_quantization_dataset"] is None
        ),
    ),
    Check(
        "val_size",
        "`val_size` splits `dataset`, which is not set",
        lambda v: v["dataset"] is None and v["val_size"] > 1e-6,
    ),
    Check(
        "val_size eval_dataset",
        "`val_size` and `eval_dataset` exclude each other",
        lambda v: v["eval_dataset"] is not None and v["val_size"] > 1e-6,
    ),
    Check(
        "interleave_probs mix_strategy",
        "it needs an interleaving `mix_strategy` and one number for each data set",
        _interleaved,
    ),
    Check(
        "val_size",
        "with `streaming` it is a number of samples",
        lambda v: v["streaming"] and v["val_size"] > 1e-6 and v["val_size"] < 1,
    ),
    Check(
        "max_samples",
        "`max_samples` and `streaming` exclude each other",
        lambda v: v["streaming"] and v["max_samples"] is not None,
    ),
    Check(
        "mask_history train_on_prompt",
        "`mask_history` and `train_on_prompt` exclude each other",
        lambda v: v["mask_history"] and v["train_on_prompt"],
    ),
    Check(
        "cutoff_len",
        "it has to be a number",
        lambda v: (v["packing"] or v["neat_packing"]) and v["cutoff_len"] - 1 is None,
    ),
    Check(
        "lora_alpha lora_rank",
        "`lora_rank` has to be a number",
        lambda v: not v["lora_alpha"] and (v["lora_rank"] * 2) is None,
    ),
    *(
        Check(name, "it is 4 or 8", _neither_4_nor_8(name))
        for name in ("ref_model_quantization_bit", "reward_model_quantization_bit")
    ),
    Check(
        "reward_model stage",
        "PPO needs `reward_model`",
        lambda v: v["stage"] == "ppo" and v["reward_model"] is None,
    ),
    Check(
        "reward_model_type finetuning_type",
        "the reward model is an adapter, so PPO has to train an adapter of that type",
        lambda v: (
            v["stage"] == "ppo"
            and v["reward_model_type"] in ("lora", "oft")
            and v["finetuning_type"] != v["reward_model_type"]
        ),
    ),
    Check(
        "dpo_label_smoothing pref_loss",
        "label smoothing is only for the sigmoid loss",
        lambda v: (
            v["stage"] == "dpo"
            and v["pref_loss"] != "sigmoid"
            and v["dpo_label_smoothing"] > 1e-6
        ),
    ),
    Check(
        "use_llama_pro finetuning_type",
        "`use_llama_pro` is for freeze and lora",
        lambda v: v["use_llama_pro"] and v["finetuning_type"] == "full",
    ),
    Check(
        "use_galore use_apollo use_badam finetuning_type",
        "GaLore, APOLLO and BAdam exclude LoRA",
        lambda v: v["finetuning_type"] == "lora" and any(_optimizers(v)),
    ),
    Check(
        "use_galore use_apollo use_badam",
        "GaLore, APOLLO and BAdam exclude each other",
        lambda v: int(v["use_galore"]) + int(v["use_apollo"]) + v["use_badam"] > 1,
    ),
    Check(
        "pissa_init stage",
        "PiSSA is not for this stage",
        lambda v: (
            v["pissa_init"]
            and (
                v["stage"] in ("ppo", "kto")
                or (v["stage"] == "dpo" and v["pref_loss"] not in ("orpo", "simpo"))
            )
        ),
    ),
    Check(
        "loraplus_lr_ratio finetuning_type",
        NOT_LORA.format("`loraplus_lr_ratio`"),
        lambda v: v["finetuning_type"] != "lora" and v["loraplus_lr_ratio"] is not None,
    ),
    *(
        Check(
            f"{name} finetuning_type",
            NOT_LORA.format(f"`{name}`"),
            _unless(name, "finetuning_type", "lora"),
        )
        for name in ("use_rslora", "use_dora", "pissa_init")
    ),
    *(
        Check(
            f"{name} stage",
            f"`{name}` is only for `stage: sft`",
            _unless(name, "stage", "sft"),
        )
        for name in (
            "predict_with_generate",
            "neat_packing",
            "train_on_prompt",
            "mask_history",
        )
    ),
    Check(
        "do_predict",
        "predictions need `predict_with_generate: true`",
        lambda v: (
            v["stage"] == "sft" and v["do_predict"] and not v["predict_with_generate"]
        ),
    ),
    Check(
        "load_best_model_at_end stage",
        "reward models and PPO cannot load the best model at the end",
        lambda v: v["stage"] in ("rm", "ppo") and v["load_best_model_at_end"],
    ),
    Check(
        "do_train stage",
        "PPO only trains",
        lambda v: v["stage"] == "ppo" and not v["do_train"],
    ),
    Check(
        "shift_attn stage",
        "PPO excludes S2 attention",
        lambda v: v["stage"] == "ppo" and v["shift_attn"],
    ),
    Check(
        "max_steps streaming",
        "streaming needs `max_steps`",
        lambda v: v["max_steps"] == -1 and v["streaming"],
    ),
    Check(
        "dataset do_train",
        "training needs `dataset`",
        lambda v: v["do_train"] and v["dataset"] is None,
    ),
    Check(
        "val_size eval_strategy do_eval do_predict predict_with_generate",
        "evaluation needs `eval_dataset` or `val_size`",
        lambda v: _evaluates(v) and v["eval_dataset"] is None and v["val_size"] < 1e-6,
    ),
    Check(
        "compute_accuracy predict_with_generate",
        "`compute_accuracy` and `predict_with_generate` exclude each other",
        lambda v: v["predict_with_generate"] and v["compute_accuracy"],
    ),
    Check(
        "quantization_device_map",
        "training excludes a device map",
        lambda v: v["do_train"] and v["quantization_device_map"] == "auto",
    ),
    Check(
        "fp8 quantization_bit",
        "FP8 training and quantised weights exclude each other",
        lambda v: v["fp8"] and v["quantization_bit"] is not None,
        "remove one of them",
    ),
    Check(
        "infer_backend",
        "training needs `infer_backend: huggingface`",
        lambda v: v["infer_backend"] not in ("huggingface", "hf"),
    ),
    Check(
        "adapter_name_or_path finetuning_type",
        NOT_LORA.format("an adapter"),
        lambda v: (
            v["adapter_name_or_path"] is not None and v["finetuning_type"] != "lora"
        ),
    ),
    Check(
        "quantization_bit finetuning_type",
        "quantised weights need `finetuning_type: lora` or `oft`",
        lambda v: (
            v["quantization_bit"] is not None
            and v["finetuning_type"] not in ("lora", "oft")
        ),
    ),
    *(
        Check(
            f"{name} quantization_bit",
            f"quantised weights exclude `{name}`",
            _quantised(name),
        )
        for name in ("pissa_init", "resize_vocab")
    ),
    Check(
        "adapter_name_or_path create_new_adapter quantization_bit",
        "quantised weights take one adapter and no new one upon it",
        lambda v: (
            v["quantization_bit"] is not None
            and v["adapter_name_or_path"] is not None
            and (v["create_new_adapter"] or "," in v["adapter_name_or_path"])
        ),
    ),
    Check(
        "metric_for_best_model",
        "it has to be a text",
        lambda v: (
            v["metric_for_best_model"] is not None
            and v["greater_is_better"] is None
            and v["metric_for_best_model"].endswith("loss") is None
        ),
    ),
    Check(
        "torch_empty_cache_steps",
        "it has to be a whole number above 0",
        lambda v: (
            v["torch_empty_cache_steps"] is not None
            and not (
                isinstance(v["torch_empty_cache_steps"], int)
                and v["torch_empty_cache_steps"] > 0
            )
        ),
    ),
    Check("eval_steps", "evaluation by steps needs their number", _eval_without_steps),
    Check(
        "logging_steps",
        "it may not be 0",
        lambda v: v["logging_strategy"] == "steps" and v["logging_steps"] == 0,
    ),
    Check(
        "logging_steps",
        "above 1 it has to be a whole number",
        lambda v: _steps(v, "logging_steps", "logging_strategy"),
    ),
    Check(
        "eval_steps",
        "above 1 it has to be a whole number",
        lambda v: _steps(
            v | {"eval_steps": _eval_steps(v)}, "eval_steps", "eval_strategy"
        ),
    ),
    Check(
        "save_steps",
        "above 1 it has to be a whole number",
        lambda v: _steps(v, "save_steps", "save_strategy"),
    ),
    Check(
        "load_best_model_at_end save_strategy save_steps",
        "the best model can be loaded only if it is saved whenever it is evaluated",
        _unequal_steps,
    ),
    Check(
        "fp16 bf16",
        "fp16 and bf16 exclude each other",
        lambda v: v["fp16"] and v["bf16"],
    ),
    Check(
        "fp16_full_eval bf16_full_eval",
        "fp16 and bf16 exclude each other",
        lambda v: v["fp16_full_eval"] and v["bf16_full_eval"],
    ),
    Check(
        "lr_scheduler_type eval_strategy",
        "this schedule needs evaluations",
        lambda v: (
            v["lr_scheduler_type"] in ("reduce_lr_on_plateau", "greedy")
            and v["eval_strategy"] == "no"
        ),
    ),
    Check(
        "warmup_steps",
        "it has to be a number that is not negative",
        lambda v: v["warmup_steps"] < 0,
    ),
    Check(
        "warmup_ratio",
        "it has to be a number that is not negative",
        lambda v: v["warmup_ratio"] is not None and v["warmup_ratio"] < 0,
    ),
    Check(
        "dataloader_prefetch_factor",
        "it needs `dataloader_num_workers` above 0",
        lambda v: (
            v["dataloader_num_workers"] == 0
            and v["dataloader_prefetch_factor"] is not None
        ),
    ),
)
"""All checks of both releases; keys that a release lacks have no value and do not
count.
"""


def refusals(values: Values) -> Iterator[tuple[str, str, str]]:
    """Yield for each check that fails the key to blame first, the reason, the hint."""
    for check in CHECKS:
        try:
            if check.refused(values):
                yield check.keys, check.reason, check.hint
        except KeyError:  # the release has no such key
            continue
        except (TypeError, AttributeError, ValueError):
            yield check.keys, Words("the trainer computes with it, and cannot"), ""
