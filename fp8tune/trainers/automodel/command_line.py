"""The command line ``automodel FILE --section.key value``.

Values are not read: a key that a launch script sets is unknown, which is written
``section.key=_``. Other arguments are refused.

Source: NeMo Automodel 0.5.0, components/config/_arg_parser.py (``parse_cli_argv``).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fp8tune.formats.document import Unresolved
from fp8tune.trainers.call import UNKNOWN
from fp8tune.trainers.described.command_line import (
    CHECKED_FIRST,
    is_free_text,
    refusal,
)
from fp8tune.trainers.faults import Loaded

if TYPE_CHECKING:
    from fp8tune.trainers.automodel.loader import Loader

__all__ = ["CHECKED_FIRST", "is_free_text", "load", "overridden"]

CHOOSES = "_target_"
"""The key that chooses what the other keys of its table mean."""


def load(loader: Loader, raw: dict[str, Any], words: Iterable[str]) -> Loaded:
    """Load a file of which some keys are unknown; raises ``Unreadable`` for others."""
    words = list(words)
    keys = {word.removesuffix(f"={UNKNOWN}") for word in words}
    if not keys.isdisjoint(words):
        raise refusal(loader.schema)
    whole = copy.deepcopy(raw)
    paths = [tuple(key.split(".")) for key in sorted(keys)]
    for path in paths:
        if path[0] in loader.schema.sections or path[0] in loader.schema.top_keys:
            _set(whole, path)
    loaded = loader.load(whole)
    faults = [fault for fault in loaded.faults if fault.path not in paths]
    return loaded._replace(faults=faults)


def _set(table: Any, path: tuple[str, ...]) -> None:
    """Make a key unknown, or the first value above it that has no keys."""
    *above, last = path[:-1] if path[-1] == CHOOSES and len(path) > 1 else path
    for name in above:
        inner = table.setdefault(name, {})
        if not isinstance(inner, dict):
            table[name] = Unresolved(UNKNOWN)
            return
        table = inner
    table[last] = Unresolved(UNKNOWN)


def overridden(words: Iterable[str]) -> list[str]:
    """Return the keys that arguments set: ``--model.x 1`` or ``--model.x=1``."""
    options = (word for word in words if word.startswith("--"))
    return [option.lstrip("-").partition("=")[0] for option in options]
