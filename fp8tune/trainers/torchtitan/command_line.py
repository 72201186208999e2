"""torchtitan's own command line: ``torchrun -m torchtitan.train --job.config_file C``.

Overrides (``--training.local_batch_size 4``) are parsed by tyro, which converts text by
the type of the key. They are not followed yet: a config with overrides is not judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fp8tune.document import Unreadable
from fp8tune.trainers.faults import Call, Loaded
from fp8tune.trainers.schema import Schema
from fp8tune.trainers.torchtitan.loader import Loader

CHECKED_FIRST: frozenset[str] = frozenset()
"""Nothing is checked before the overrides."""

OPTIONS = ("--job.config_file", "--job.config-file")
"""Options that name the config."""

PROGRAMS = ("torchtitan.train", "torchtitan/train.py")
"""The trainer's program, as torchrun is given it."""


def load(loader: Loader, raw: dict[str, Any], words: Iterable[str]) -> Loaded:
    """Load a config with overrides; raises ``Unreadable`` if there are any."""
    first = next(iter(words), "")
    if first:
        raise Unreadable(f"fp8tune does not read torchtitan's overrides: {first}")
    return loader.load(raw)


def find_call(words: Sequence[str]) -> Call | None:
    """Where a command runs torchtitan, and which word names the config."""
    starts = (i for i, word in enumerate(words) if word.endswith(PROGRAMS))
    start = next(starts, None)
    if start is None:
        return None
    config, prefix = len(words), 0
    for index in range(start + 1, len(words)):
        option, equals, _ = words[index].partition("=")
        if option in OPTIONS:
            config = index if equals else index + 1
            prefix = len(option) + 1 if equals else 0
    mine = {config} if prefix else {config - 1, config}
    rest = (i for i in range(start + 1, len(words)) if i not in mine)
    return Call(start, config, tuple(rest), prefix)


def is_free_text(schema: Schema, word: str) -> bool:
    """Whether an override may hold anything, as a path does."""
    key = word.partition("=")[0].removeprefix("--").replace("-", "_")
    return key in (name for name, spec in schema.dotted_keys() if spec.base == "str")
