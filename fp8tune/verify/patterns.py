"""What trainers print of a run: the ``log.toml`` of each, read and compiled.

Those of trainers that fp8tune lints are in their folders, the others in ``logs``.
``docs/guides/trainer.md`` explains the fields.
"""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from fp8tune import trainers

Kind = Literal[
    "step",
    "progress",
    "asks",
    "claims",
    "counts",
    "denies",
    "starts",
    "ends",
    "stops",
    "setting",
    "config",
    "event",
]
"""What a line says: ``counts`` proves FP8 if its count is above 0, and else denies it."""

HERE = os.path.join(os.path.dirname(__file__), "logs")


@dataclass(frozen=True)
class Line:
    """One kind of line. ``trainer`` prints it, and it contains one of ``triggers``.

    ``fields`` find further quantities in a line that ``pattern`` matches. ``per_gpu``
    are quantities of one GPU that the curve has of all, ``scale`` factors to the units
    of the curve.
    """

    trainer: str
    name: str
    kind: Kind
    triggers: tuple[bytes, ...]
    pattern: re.Pattern[str]
    fields: dict[str, re.Pattern[str]] = field(default_factory=dict)
    per_gpu: frozenset[str] = frozenset()
    scale: dict[str, float] = field(default_factory=dict)
    examples: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Trainer:
    """The lines of one trainer.

    ``includes`` are programs that print into its log. The product of the settings
    ``tokens`` is the number of tokens in a step over all ranks; those of ``tokens_over``
    divide it.
    """

    name: str
    title: str
    lines: tuple[Line, ...]
    includes: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    tokens_over: tuple[str, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)


@cache
def known() -> dict[str, Trainer]:
    """Return every trainer whose lines are described, by its name."""
    paths = {}
    for folder in trainers.__path__:
        for name in sorted(os.listdir(folder)):
            paths[name] = os.path.join(folder, name, "log.toml")
    for file in sorted(os.listdir(HERE)):
        paths[file.removesuffix(".toml")] = os.path.join(HERE, file)
    return {
        name: load(name, path) for name, path in paths.items() if os.path.isfile(path)
    }


def load(name: str, path: str) -> Trainer:
    """Read what one trainer prints."""
    with open(path, "rb") as file:
        data = tomllib.load(file)
    return Trainer(
        name=name,
        title=data.get("title", name),
        lines=tuple(_line(name, line) for line in data.get("line", ())),
        includes=tuple(data.get("includes", ())),
        tokens=tuple(data.get("tokens", ())),
        tokens_over=tuple(data.get("tokens_over", ())),
        settings=data.get("settings", {}),
    )


def _line(trainer: str, data: dict[str, Any]) -> Line:
    fields = data.get("fields", {})
    return Line(
        trainer=trainer,
        name=data["name"],
        kind=data["kind"],
        triggers=tuple(trigger.encode() for trigger in data["triggers"]),
        pattern=re.compile(data["pattern"]),
        fields={name: re.compile(text) for name, text in fields.items()},
        per_gpu=frozenset(data.get("per_gpu", ())),
        scale=data.get("scale", {}),
        examples=tuple(data.get("examples", ())),
    )
