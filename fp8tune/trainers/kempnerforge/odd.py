"""Values that the loader takes, though they do not mean what they say.

Source: kempnerforge/config/loader.py at commit 5666d0d, ``_coerce_value``: numbers
and switches are coerced without a word, text is never looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fp8tune.trainers.schema import Key

TRUE = ("true", "1", "yes")
_WORDS = (*TRUE, "false", "0", "no", "off", "none", "disabled", "n", "f", "")

NOTES = frozenset(("value-truncated", "boolean-for-number", "not-a-number"))
"""Kinds that say nothing new where the value is refused anyway."""

_ELSEWHERE = frozenset(
    ("name", "arch", "loss_fn", "model_type", "moe_router", "backend")
)
"""Keys of text that are looked up by name: a rule of their own speaks of them."""

_LOGGED = "wandb_"
"""Keys that go to a service which takes anything, or is caught when it does not."""


def oddities(
    spec: Key, key: str, raw: Any, value: Any
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Kind and facts of what is odd about one value; ``value`` is ``raw`` coerced."""
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
    elif spec.base == "str" and not isinstance(raw, str) and _is_used(spec, key):
        yield "not-text", {"value": raw}


def _is_used(spec: Key, key: str) -> bool:
    """Whether text of this key is used without a check or a rule of its own."""
    return not spec.allowed and key not in _ELSEWHERE and not key.startswith(_LOGGED)
