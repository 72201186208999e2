"""Write a config to start from: a published model, with settings that fit."""

from __future__ import annotations

import os.path
import textwrap
import tomllib
from functools import cache
from typing import Any

from fp8tune.config.reader import config_of
from fp8tune.estimate.grid import Cell, Variants
from fp8tune.estimate.predict import Prediction
from fp8tune.estimate.whole import Estimate, estimate
from fp8tune.facts.gpus import find
from fp8tune.job import Target
from fp8tune.suggest import closest
from fp8tune.trainers.about import trainers
from fp8tune.trainers.trainer import Trainer
from fp8tune.trainers.trainer import trainer as by_name

STEP_TOKENS = 1 << 20
"""Tokens of an optimizer step if no other number is asked for."""
MOST_GPUS = 4096
"""The largest number of GPUs that is tried to find one on which a model fits."""


class CannotStart(Exception):
    """No such config can be written; the message says why and what to type."""


@cache
def models() -> dict[str, dict[str, Any]]:
    """Return the published models by name; ``models.toml`` explains the fields."""
    path = os.path.join(os.path.dirname(__file__), "models.toml")
    with open(path, "rb") as file:
        return tomllib.load(file)


def starter(
    trainer: Trainer,
    model: str,
    target: Target,
    seq_len: int = 4096,
    step_tokens: int = STEP_TOKENS,
) -> str:
    """Return the text of a config for a model on the GPUs of ``target``.

    Micro-batch, accumulation, AC and precision are those that `fp8tune estimate`
    starts with. ``seq_len`` is in tokens, ``step_tokens`` over all GPUs. Raises
    ``CannotStart``.
    """
    if not trainer.starter:
        having = " or ".join(name for name in trainers() if by_name(name).starter)
        none = f"there is no config to start from for {trainer.about.title}"
        raise CannotStart(f"{none}; give --trainer {having}")
    if model not in models():
        near = closest(model, models())
        hint = f"; did you mean {near}?" if near else f"; known: {', '.join(models())}"
        raise CannotStart(f"no model named {model!r}{hint}")
    if len(members := find(target.gpu).members) > 1:
        raise CannotStart(f"--gpu {target.gpu}: name one of {', '.join(members)}")
    rows = max(1, step_tokens // (seq_len * target.world_size))
    _check_model(trainer, model, target)
    fields = {**models()[model], "name": model, "seq_len": seq_len}
    found = _estimate(trainer, fields, target, rows)
    best = found.preferred or found.start
    if best is None:
        raise CannotStart(_too_large(trainer, fields, target, rows))
    return _text(trainer, fields, target, best, why=_why(best, found.said))


def _check_model(trainer: Trainer, model: str, target: Target) -> None:
    """Raise ``CannotStart`` if the trainer does not build this model."""
    first = Cell(1, 1, "full", "fp8", None)  # type: ignore[arg-type]

    def built(name: str) -> bool:
        return bool(_fields(trainer, {**models()[name], "name": name}, target, first))

    if not built(model):
        others = ", ".join(filter(built, models()))
        none = f"there is no config to start from for {trainer.id}"
        known = f"{trainer.id} has no {model}; it has {others}"
        raise CannotStart(known if others else none)


def _estimate(
    trainer: Trainer, fields: dict[str, Any], target: Target, rows: int
) -> Estimate:
    """Predict the model with one sequence at a time, and its variants."""
    first = Cell(1, rows, "full", "fp8", None)  # type: ignore[arg-type]
    text = _text(trainer, fields, target, first).encode()
    return estimate(Variants(config_of("train.toml", text, target, only=trainer)))


def _too_large(
    trainer: Trainer, fields: dict[str, Any], target: Target, rows: int
) -> str:
    """Return why no setting fits, and on how many GPUs one would."""
    what = (
        f"{fields['name']} is not certain to fit on {target.world_size} x {target.gpu}"
    )
    size, least = target.world_size, ""
    while size < MOST_GPUS:
        size, rows = 2 * size, max(1, rows // 2)
        found = _estimate(trainer, fields, target._replace(world_size=size), rows)
        if found.start:
            return f"{what}; it fits with --world-size {size}"
        if found.said.memory:
            least = f" each needs {found.said.memory.value:.0f} GiB at the "
            least += str(found.said.peak_at)
    never = f"nor on more with FSDP alone (on {size}{least})"
    return f"{what}, {never}; choose a GPU with more memory"


def _text(
    trainer: Trainer, fields: dict[str, Any], target: Target, cell: Cell, why: str = ""
) -> str:
    size = target.world_size
    rows = cell.rank_sequences * size
    whole = {
        **(_fields(trainer, fields, target, cell) or {}),
        "gpus": f"{size} {target.gpu.upper()} GPU{'s' * (size != 1)}",
        "why": why,
        "tokens": rows * fields["seq_len"],
        "Precision": cell.precision.replace("fp", "FP"),
        "qk_norm": str(fields["qk_norm"]).lower(),
    }
    return trainer.starter.format_map(whole)


def _fields(
    trainer: Trainer, fields: dict[str, Any], target: Target, cell: Cell
) -> dict[str, Any] | None:
    """Return sizes and settings as the trainer's starter names them."""
    gpus = {"gpu": target.gpu, "world_size": target.world_size}
    return trainer.starter_fields({**fields, **gpus, **cell.values})


def _why(best: Cell, said: Prediction) -> str:
    """Return the reasons for the settings, as comment lines."""
    memory, speed = best.prediction.memory, best.prediction.speed
    assert memory is not None  # a setting that fits has a peak
    parts = [
        "`fp8tune estimate` predicts that these settings fit: "
        f"{memory.value:.0f} GiB per GPU ({memory.low:.0f} to {memory.high:.0f})."
    ]
    if speed:
        parts.append(
            f"Of those that fit they are the fastest: {speed.value:,.0f} "
            f"tokens/s ({speed.low:,.0f} to {speed.high:,.0f}), predicted."
        )
    gain = best.prediction.fp8_gain
    if best.precision == "fp8" and gain:
        parts.append(f"FP8 is predicted to run at {gain:.2f} times the speed of bf16.")
    elif best.precision == "bf16" and said.pays == "no":
        parts.append(f"FP8 does not pay here: {said.reasons[0]}.")
    parts.append("`fp8tune search` measures it.")
    return "\n# ".join(textwrap.wrap(" ".join(parts), 84))
