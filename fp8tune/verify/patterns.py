"""What trainers print of a run: the ``log.toml`` of each, read and compiled.

Those of trainers that fp8tune lints are in their folders, the others in ``logs``.
``docs/guides/trainer.md`` explains the fields.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from fp8tune import trainers

Kind = Literal[
    "step",
    "asks",
    "declines",
    "claims",
    "proves",
    "counts",
    "denies",
    "starts",
    "ends",
    "stops",
    "setting",
    "config",
    "event",
]
"""What a line says. ``counts`` proves FP8 if its count is not 0, else it denies it."""

HERE = os.path.join(os.path.dirname(__file__), "logs")


@dataclass(frozen=True, eq=False)
class Line:
    """One kind of line. ``trainer`` prints it, and it contains one of ``triggers``.

    ``fields`` find further quantities in a line that ``pattern`` matches. ``scale`` has
    factors to the units of the curve: numbers, or settings that the log prints before.
    ``product`` names settings that are products of those that the line prints.
    ``always`` is set for a line that every run prints in which FP8 was turned on.
    ``names`` is False for a line that other programs print too: it does not tell whose
    log it is. ``after`` is the line that must stand directly above, where it counts.
    """

    trainer: str
    name: str
    kind: Kind
    triggers: tuple[bytes, ...]
    pattern: re.Pattern[str]
    examples: list[dict[str, Any]]
    fields: dict[str, re.Pattern[str]] = field(default_factory=dict)
    scale: dict[str, float | str] = field(default_factory=dict)
    product: dict[str, list[str]] = field(default_factory=dict)
    always: bool = False
    names: bool = True
    after: str = ""


@dataclass(frozen=True)
class Trainer:
    """The lines of one trainer.

    ``trainer`` is False for a library that prints into the log of any trainer, and
    ``includes`` names programs that print into this one's. The product of the settings
    ``tokens``, divided by those of ``tokens_over``, is the number of tokens in a step
    over all ranks. ``settings`` gives its own names of settings of any trainer.
    ``peak`` is ``allocated`` or ``reserved``: what its peak memory is of. ``profile``
    says which lines of the config make it write a profile.
    """

    name: str
    title: str
    lines: tuple[Line, ...]
    trainer: bool
    includes: tuple[str, ...]
    tokens: tuple[str, ...]
    tokens_over: tuple[str, ...]
    settings: dict[str, str]
    peak: str = ""
    profile: str = ""


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
        return of(name, tomllib.load(file))


def of(name: str, data: dict[str, Any]) -> Trainer:
    """Return what one trainer prints, from the data of its file."""
    return Trainer(
        name=name,
        title=data["title"],
        lines=tuple(_line(name, line) for line in data["line"]),
        trainer=data.get("trainer", True),
        includes=tuple(data.get("includes", ())),
        tokens=tuple(data.get("tokens", ())),
        tokens_over=tuple(data.get("tokens_over", ())),
        settings=data.get("settings", {}),
        peak=data.get("peak", ""),
        profile=data.get("profile", "").strip(),
    )


def _line(trainer: str, entry: dict[str, Any]) -> Line:
    """Return a line from its table in the file; raises ``TypeError``, ``re.error``."""
    values = {
        name: _COMPILED[name](value) if name in _COMPILED else value
        for name, value in entry.items()
    }
    return Line(trainer=trainer, **values)


_COMPILED: dict[str, Callable[[Any], Any]] = {
    "triggers": lambda texts: tuple(text.encode() for text in texts),
    "pattern": re.compile,
    "fields": lambda texts: {name: re.compile(text) for name, text in texts.items()},
}
"""How the values of a line's table are read that are not taken as they are."""
