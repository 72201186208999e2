"""The command line of a trainer that is described by data alone: not known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fp8tune.formats.document import Unreadable
from fp8tune.trainers.described.loader import Loader
from fp8tune.trainers.schema import Schema

if TYPE_CHECKING:
    from fp8tune.trainers.faults import Loaded

CHECKED_FIRST: frozenset[str] = frozenset()
"""Nothing is checked before the overrides."""


def load(loader: Loader, raw: dict[str, Any], words: Iterable[str]) -> Loaded:  # noqa: ARG001
    """Refuse overrides: raises ``Unreadable``."""
    raise refusal(loader.schema)


def refusal(schema: Schema) -> Unreadable:
    """Return the error that refuses overrides."""
    reason = f"the command line of {schema.title} is not known"
    return Unreadable(f"{reason}: leave out overrides")


def is_free_text(schema: Schema, word: str) -> bool:  # noqa: ARG001
    """Return whether an override may hold anything."""
    return False


def overridden(words: Iterable[str]) -> list[str]:  # noqa: ARG001
    """Return the keys that arguments of a launch script set: they are not known."""
    return []
