"""How pydantic converts values in its lax mode, for trainers that use it.

"false" becomes false, "2" becomes 2, true becomes 1; a number is no text. Source:
pydantic 2.12 and 2.14 (https://docs.pydantic.dev/latest/concepts/conversion_table/).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

TRUE_WORDS = ("true", "t", "yes", "y", "on", "1")
FALSE_WORDS = ("false", "f", "no", "n", "off", "0")
WHOLE = re.compile(r"\s*[+-]?[0-9]+(_[0-9]+)*(\.0+)?\s*", re.ASCII)
DIGITS = 4300
"""Longest number that is read [characters]; pydantic has the same limit."""

NOTHING = object()
"""What a value is that has no value of the wanted type."""


def _whole(raw: Any) -> Any:
    if isinstance(raw, str):
        if len(raw) > DIGITS or not WHOLE.fullmatch(raw):
            return NOTHING
        return int(raw.partition(".")[0])
    if isinstance(raw, float):
        return int(raw) if raw.is_integer() and abs(raw) < 2**63 else NOTHING
    return int(raw) if isinstance(raw, int) else NOTHING


def _number(raw: Any) -> Any:
    if isinstance(raw, (int, float)):
        try:
            return float(raw)
        except OverflowError:
            return math.inf
    try:
        return float(raw) if isinstance(raw, str) and raw.isascii() else NOTHING
    except ValueError:
        return NOTHING


def _switch(raw: Any) -> Any:
    if isinstance(raw, str):
        word = raw.lower()
        return word in TRUE_WORDS if word in TRUE_WORDS + FALSE_WORDS else NOTHING
    if isinstance(raw, (int, float)) and raw in (0, 1):
        return bool(raw)
    return NOTHING


def text_of(raw: Any) -> Any:
    """A text as it is; ``NOTHING`` for another value."""
    return raw if isinstance(raw, str) else NOTHING


CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "int": _whole,
    "float": _number,
    "bool": _switch,
    "str": text_of,
    "Any": lambda raw: raw,
    "Literal": lambda _: NOTHING,
    "None": lambda raw: None if raw is None else NOTHING,
}
"""How pydantic converts a value, by the type of its key."""
