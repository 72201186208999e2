"""``and`` and ``or`` of parts that may be unknown.

An ``and`` is false if any part is false, an ``or`` true if any part is true; else
unknown parts win.

Of an unknown part only ``args`` are kept: an exception that a frame holds would hold
that frame in turn, and with it the whole config.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fp8tune.job import Unknown

Compiled = Callable[[Any], Any]
"""Works out a part for a scope; raises ``Unknown``."""


def some(parts: list[Compiled]) -> Compiled:
    """An ``or``."""

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
    """An ``and``, of parts and the names that each cannot do without.

    What rests on a GPU or world size that was found missing is not worked out: it is
    unknown too, and may be dear.
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
    """Whether one of the names rests on a GPU or world size that is not known."""
    words = getattr(scope, "words", None)
    if words is None or missing not in ("gpu", "world_size"):
        return False
    return any(missing in words.origins(name) for name in names)
