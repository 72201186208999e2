"""What the loader makes of single values, and which do not mean what they say.

Source: kempnerforge/config/loader.py at commit 5666d0d, ``_coerce_value``: numbers
and switches are coerced without a word, text is never looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from fp8tune.trainers.schema import Key

_TRUE = ("true", "1", "yes")
_WORDS = (*_TRUE, "false", "0", "no", "off", "none", "disabled", "n", "f", "")

NOTES = frozenset(("value-truncated", "boolean-for-number", "not-a-number"))
"""Kinds that say nothing new where the value is refused anyway."""

_PATHS = frozenset(
    (
        "checkpoint.dir",
        "checkpoint.load_path",
        "data.dataset_path",
        "data.tokenizer_path",
    )
)
"""Keys of text that the trainer makes paths of."""

LARGEST = 2**63
"""Larger numbers are unknown to the job, so that no arithmetic on them overflows.

TOML's integers end here; Python's parser takes longer ones."""


def plain(value: Any) -> bool:
    """Whether a value is a text, a switch, or a number that can be worked with."""
    kind = type(value)
    return (kind is str or kind is bool) or (
        (kind is int or kind is float) and -LARGEST <= value <= LARGEST
    )


def usable(value: Any) -> bool:
    """Whether a value is a number that can be worked with."""
    return isinstance(value, (int, float)) and not LARGEST < abs(value) < math.inf


def oddities(
    spec: Key, key: str, raw: Any, value: Any
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Kind and facts of what is odd about one value.

    ``key`` is its dotted name, ``value`` is ``raw`` coerced.
    """
    if spec.base in ("int", "float"):
        if isinstance(raw, bool):
            yield "boolean-for-number", {"value": raw, "result": int(raw)}
        elif spec.base == "int" and isinstance(raw, float) and raw != value:
            yield "value-truncated", {"value": raw, "result": value}
        elif isinstance(value, float) and value != value:
            yield "not-a-number", {"value": raw}
    elif spec.base == "bool":
        if isinstance(raw, str) and raw.lower() not in _WORDS:
            yield "read-as-false", {"value": raw}
    elif key in _PATHS and not isinstance(raw, str):
        yield "not-text", {"value": raw}


def _to_int(raw: Any) -> Any:
    return int(raw) if isinstance(raw, (str, float)) else raw


def _to_float(raw: Any) -> Any:
    return float(raw) if isinstance(raw, (str, int)) else raw


def _to_bool(raw: Any) -> bool:
    return raw.lower() in _TRUE if isinstance(raw, str) else bool(raw)


COERCIONS: dict[str, Callable[[Any], Any]] = {
    "int": _to_int,
    "float": _to_float,
    "bool": _to_bool,
}
"""How values are coerced, by type; the other types are taken as they are."""

PLAIN = {"int": int, "float": float, "bool": bool, "str": str}
"""Types whose values, written as such, are taken as they are."""
