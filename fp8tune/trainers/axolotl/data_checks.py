"""What Axolotl refuses of data, batches, evaluation and saved checkpoints.

Source: as ``checks.py``.
"""

from __future__ import annotations

from typing import Any

from fp8tune.trainers.axolotl.model_checks import PACKING, attention, base
from fp8tune.trainers.axolotl.values import Check, Values, either

METRICS = ("sacrebleu", "comet", "ter", "chrf", "perplexity")


def evaluates(f: Values) -> Any:
    """When the run evaluates, by its key or by the deprecated one."""
    deprecated = f["evaluation_strategy"]
    return deprecated if f["eval_strategy"] is None else f["eval_strategy"]


def packs_evaluation(f: Values) -> Any:
    """Whether samples are packed for evaluation: by default as for training."""
    unset = f["eval_sample_packing"] is None and not f["eval_table_size"]
    return f["sample_packing"] if unset else f["eval_sample_packing"]


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


def _mistral_common(f: Values) -> bool:
    names = (
        f[n] or "" for n in ("base_model", "base_model_config", "tokenizer_config")
    )
    asked = f["tokenizer_use_mistral_common"]
    if asked is None and any("magistral" in str(name).lower() for name in names):
        asked = True
    others = ("added_tokens_overrides", "special_tokens", "tokens", "chat_template")
    return bool(asked) and f.any(*others, "processor_kwargs")


DATA = (
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
    Check(
        "push_dataset_to_hub",
        "it needs `hf_use_auth_token: true`",
        lambda f, _: f["push_dataset_to_hub"] and f["hf_use_auth_token"] is not True,
    ),
    either("val_set_size", "test_datasets"),
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
    either("gradient_accumulation_steps", "batch_size"),
    either("warmup_steps", "warmup_ratio"),
    Check(
        "save_steps save_strategy",
        "`save_steps` is only for `save_strategy: steps`",
        lambda f, _: (
            f["save_strategy"] and f["save_steps"] and f["save_strategy"] != "steps"
        ),
    ),
    either("saves_per_epoch", "save_steps"),
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
    either("evals_per_epoch", "eval_steps"),
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
        "pretrain_multipack_buffer_size",
        "`streaming_multipack_buffer_size` replaces it, and both are set",
        lambda f, _: (
            f["pretrain_multipack_buffer_size"] and f["streaming_multipack_buffer_size"]
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
        "batch_flattening",
        "it needs attention for packed sequences, and excludes `sample_packing`",
        lambda f, v: (
            v["batch_flattening"]
            and v["batch_flattening"] != "auto"
            and (base(attention(f)) not in PACKING or v["sample_packing"])
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
        "early_stopping_patience save_steps eval_steps",
        "early stopping needs `eval_steps` that divide `save_steps`",
        lambda _, v: _best_steps(v),
    ),
    Check(
        "dataset_exact_deduplication",
        "it excludes streamed data and `skip_prepare_dataset`",
        lambda f, _: (
            f["dataset_exact_deduplication"]
            and f.any("streaming", "pretraining_dataset", "skip_prepare_dataset")
        ),
    ),
)
