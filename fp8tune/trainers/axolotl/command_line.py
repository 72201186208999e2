"""The command line of the trainer: overrides behind a config are not read yet."""

from __future__ import annotations

from fp8tune.trainers.described.command_line import (
    CHECKED_FIRST,
    is_free_text,
    load,
    overridden,
)

__all__ = ["CHECKED_FIRST", "is_free_text", "load", "overridden"]
