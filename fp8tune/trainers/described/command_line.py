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
    title = loader.schema.title
    raise Unreadable(f"the command line of {title} is not known: leave out overrides")


def is_free_text(schema: Schema, word: str) -> bool:  # noqa: ARG001
    """Return whether an override may hold anything."""
    return False
