"""What a search offers of one key: its values, and the one where it starts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from fp8tune.trials.space import Knob

CONVERGENCE = frozenset(
    (
        *("model", "optimizer", "scheduler", "data"),
        *("adapter", "video", "vision_encoder", "vlm"),
        *("precision", "seq_len", "max_steps", "learning_rate", "warmup_steps"),
        *("clip_norm", "data_seed", "load_path", "seed", "z_loss_weight"),
    )
)
"""Sections, roles and names of keys that change what is learned: frozen by default."""


class Offer(NamedTuple):
    """A key, its role, and the value that the config gives it; ``None`` for none."""

    key: str
    role: str
    mine: Any


def offer(
    asked: Offer, recorded: Iterable[Any], allow: Sequence[str]
) -> tuple[Knob, int, str]:
    """The knob, which of its values is the given one, and what is odd about it.

    A value that was not recorded is the knob's last: no trial can have it. Where all
    records agree on another value of a frozen knob, that is where the search starts.
    """
    values = _ordered(recorded)
    section, _, name = asked.key.rpartition(".")
    names = {asked.role, asked.key, section.partition(".")[0], name}
    frozen = bool(names & CONVERGENCE) and not {asked.role, asked.key} & set(allow)
    knob = Knob(asked.key, values, asked.role, frozen)
    start = _place(values, asked.mine)
    if start is not None:
        return knob, start, ""
    note = _difference(asked, values)
    if frozen and asked.role != "precision" and len(values) == 1:
        return knob, 0, note
    return knob._replace(values=(*values, asked.mine)), len(values), note


def _ordered(recorded: Iterable[Any]) -> tuple[Any, ...]:
    """Each value once, numbers by their size.

    By type as well, because to Python 1, 1.0 and True are one value.
    """
    typed = dict.fromkeys((type(value), value) for value in recorded)
    values = [value for _, value in typed]
    return tuple(sorted(values)) if all(map(_is_number, values)) else tuple(values)


def _place(values: Sequence[Any], mine: Any) -> int | None:
    """Where a value stands: one of its type, else an equal number."""
    same = [i for i, v in enumerate(values) if type(v) is type(mine) and v == mine]
    if not same and _is_number(mine):
        same = [i for i, v in enumerate(values) if _is_number(v) and v == mine]
    return same[0] if same else None


def _difference(asked: Offer, values: Sequence[Any]) -> str:
    said = "does not say it" if asked.mine is None else f"says {_shown(asked.mine)}"
    known = ", ".join(map(_shown, values[:8])) + (", ..." if values[8:] else "")
    return f"`{asked.key}`: the config {said}, the records hold {known}"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    return json.dumps(value)
