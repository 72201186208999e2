"""What Megatron-LM checks of the steps of a run and of its learning rate.

All releases from core 0.4 to 0.19 assert the same. With ``--skip-train`` there is no
schedule.

Source: ``validate_args`` in megatron/training/arguments.py,
``get_optimizer_param_scheduler`` in megatron/training/training.py, and
megatron/core/optimizer_param_scheduler.py, at d98e8a64d.
"""

from __future__ import annotations

from typing import Any

from fp8tune.trainers.megatron_lm.check import Check, Values


def _of_run(v: Values, name: str) -> Any:
    """Return ``train_iters`` or ``train_samples``, ``None`` if nothing is trained."""
    return None if v["skip_train"] else v[name]


def _is_warmup_too_long(v: Values, unit: str) -> bool:
    """Whether warmup takes all steps of the decay, in ``iters`` or ``samples``.

    Those of the decay are those of the run by default. A share is another check.
    """
    run = _of_run(v, f"train_{unit}")
    if not run or v["lr_warmup_fraction"] is not None:
        return False
    decay = v[f"lr_decay_{unit}"]
    return bool(v[f"lr_warmup_{unit}"] >= (run if decay is None else decay))


def _lacks_wsd_decay(v: Values) -> bool:
    unit = "iters" if _of_run(v, "train_iters") else "samples"
    is_wsd = v["lr_decay_style"] == "WSD" and _of_run(v, f"train_{unit}")
    return bool(is_wsd) and v[f"lr_wsd_decay_{unit}"] is None


SCHEDULE = (
    Check(
        "train_samples",
        lambda v: _of_run(v, "train_iters") and v["train_samples"] is not None,
        "--train-iters and --train-samples exclude each other",
    ),
    Check(
        "lr_decay_samples",
        lambda v: _of_run(v, "train_iters") and v["lr_decay_samples"] is not None,
        "expected iteration-based learning rate decay",
        "with `--train-iters` use `--lr-decay-iters`",
    ),
    Check(
        "lr_warmup_samples",
        lambda v: _of_run(v, "train_iters") and v["lr_warmup_samples"],
        "expected iteration-based learning rate warmup",
        "with `--train-iters` use `--lr-warmup-iters`",
    ),
    Check(
        "lr_decay_iters",
        lambda v: _of_run(v, "train_samples") and v["lr_decay_iters"] is not None,
        "expected sample-based learning rate decay",
        "with `--train-samples` use `--lr-decay-samples`",
    ),
    Check(
        "lr_warmup_iters",
        lambda v: _of_run(v, "train_samples") and v["lr_warmup_iters"],
        "expected sample-based learning rate warmup",
        "with `--train-samples` use `--lr-warmup-samples`",
    ),
    Check(
        "lr_warmup_fraction",
        lambda v: (
            v["lr_warmup_fraction"] is not None
            and (
                (_of_run(v, "train_iters") and v["lr_warmup_iters"])
                or (_of_run(v, "train_samples") and v["lr_warmup_samples"])
            )
        ),
        "--lr-warmup-fraction and a number of warmup steps exclude each other",
    ),
    Check(
        "lr_warmup_iters",
        lambda v: _is_warmup_too_long(v, "iters"),
        "--lr-warmup-iters {lr_warmup_iters} must be below the steps of the decay, "
        "which are --lr-decay-iters, else --train-iters ({train_iters}): "
        "lr_warmup_steps < lr_decay_steps is asserted",
        "shorten the warmup",
    ),
    Check(
        "lr_warmup_samples",
        lambda v: _is_warmup_too_long(v, "samples"),
        "--lr-warmup-samples {lr_warmup_samples} must be below the samples of the "
        "decay, which are --lr-decay-samples, else --train-samples ({train_samples}): "
        "lr_warmup_steps < lr_decay_steps is asserted",
        "shorten the warmup",
    ),
    Check(
        "lr_warmup_fraction",
        lambda v: (
            v["lr_warmup_fraction"] is not None
            and v["lr_warmup_fraction"] >= 1
            and (_of_run(v, "train_iters") or _of_run(v, "train_samples"))
        ),
        "--lr-warmup-fraction {lr_warmup_fraction} must be below 1: "
        "lr_warmup_steps < lr_decay_steps is asserted",
    ),
    Check(
        "lr_decay_style",
        _lacks_wsd_decay,
        "the schedule WSD needs the length of its decay",
        "add `--lr-wsd-decay-iters`, or `--lr-wsd-decay-samples` with "
        "`--train-samples`",
    ),
    Check(
        "lr_warmup_init",
        lambda v: not v["skip_train"] and v["lr_warmup_init"] > v["lr"],
        "lr_warmup_init must be at most lr",
    ),
    Check(
        "min_lr",
        lambda v: v["lr"] is not None and v["min_lr"] > v["lr"],
        "min_lr must be at most lr",
    ),
    Check(
        "min_lr",
        lambda v: not v["skip_train"] and v["min_lr"] < 0,
        "min_lr must be 0 or more",
    ),
)
"""What concerns the schedule."""
