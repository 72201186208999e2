"""``and`` and ``or`` of parts that may be unknown.

An ``and`` is false if any part is false, an ``or`` is true if any part is true;
otherwise an unknown part makes the whole unknown.

Of an unknown part only ``args`` are kept: an exception would keep its frame alive, and
with it the whole config.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fp8tune.job import Unknown

Compiled = Callable[[Any], Any]
"""Works out a part for a scope; raises ``Unknown``."""


def some(parts: list[Compiled]) -> Compiled:
    """Return an ``or`` of parts."""

    def evaluate(scope: Any) -> bool:
        unknown = None
        for part in parts:
            try:
                if part(scope):
                    return True
            except Unknown as error:
                unknown = error.args
        if unknown is not None:
            raise Unknown(*unknown)
        return False

    return evaluate


def every(parts: list[tuple[Compiled, tuple[str, ...]]]) -> Compiled:
    """Return an ``and`` of parts, given the names that each part requires.

    A part that depends on a missing GPU or world size is not evaluated: it is unknown
    too, and may be expensive.
    """

    def evaluate(scope: Any) -> bool:
        unknown = None
        for part, names in parts:
            if unknown is not None and _rests_on(scope, names, unknown[0]):
                continue
            try:
                if not part(scope):
                    return False
            except Unknown as error:
                unknown = error.args
        if unknown is not None:
            raise Unknown(*unknown)
        return True

    return evaluate


def _rests_on(scope: Any, names: tuple[str, ...], missing: str) -> bool:
    """Return whether one of the names depends on an unknown GPU or world size."""
    words = getattr(scope, "words", None)
    if words is None or missing not in ("gpu", "world_size"):
        return False
    return any(missing in words.origins(name) for name in names)
