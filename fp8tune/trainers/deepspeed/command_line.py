"""DeepSpeed's config has no overrides: each script has a command line of its own."""

from __future__ import annotations

from fp8tune.trainers.described.command_line import CHECKED_FIRST as CHECKED_FIRST
from fp8tune.trainers.described.command_line import is_free_text as is_free_text
from fp8tune.trainers.described.command_line import load as load
from fp8tune.trainers.described.command_line import overridden as overridden
