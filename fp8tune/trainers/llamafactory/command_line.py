"""The command line ``llamafactory-cli train FILE key=value``.

Values are not read: a key that a launch script sets is unknown, which is written
``key=_``. Other arguments are refused.

Source: LLaMA-Factory 0.9.5, hparams/parser.py (``read_args``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fp8tune.trainers.call import UNKNOWN
from fp8tune.trainers.described.command_line import (
    CHECKED_FIRST,
    is_free_text,
    refusal,
)
from fp8tune.trainers.faults import Loaded

if TYPE_CHECKING:
    from fp8tune.trainers.llamafactory.loader import Loader

__all__ = ["CHECKED_FIRST", "is_free_text", "load", "overridden"]


def load(loader: Loader, raw: dict[str, Any], words: Iterable[str]) -> Loaded:
    """Load a file of which some keys are unknown; raises ``Unreadable`` for others."""
    words = list(words)
    keys = {word.removesuffix(f"={UNKNOWN}") for word in words}
    if not keys.isdisjoint(words):
        raise refusal(loader.schema)
    loaded = loader.load(raw)
    values = {name: v for name, v in loaded.values.items() if name not in keys}
    faults = [
        fault
        for fault in loaded.faults
        if fault.kind != "refused-settings" and fault.path[0] not in keys
    ]
    return Loaded(values, loaded.written, faults)


def overridden(words: Iterable[str]) -> list[str]:
    """Return the keys that arguments set: ``learning_rate=1e-5``."""
    return [word.partition("=")[0] for word in words if "=" in word]
