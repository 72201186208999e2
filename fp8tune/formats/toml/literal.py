"""Write values and keys as TOML."""

from __future__ import annotations

import re
from typing import Any

from fp8tune.formats.edits import CannotEdit

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_LARGEST = 2**63


def literal(value: Any, quote: str = '"') -> str:
    """Return a value as TOML; strings in these quotes where possible.

    Raises ``CannotEdit`` for a value without a one-line form.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        raise CannotEdit("an integer beyond TOML's range")
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return _quoted(value, quote)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(literal(item, quote) for item in value)}]"
    if isinstance(value, dict) and value:
        pairs = (f"{key_text(k)} = {literal(v, quote)}" for k, v in value.items())
        return f"{{ {', '.join(pairs)} }}"
    raise CannotEdit(f"{type(value).__name__} has no one-line form")


def key_text(name: str | int) -> str:
    """Return a key as TOML, quoted if necessary; raises ``CannotEdit``."""
    if isinstance(name, int):
        raise CannotEdit("an item of an array")
    return name if _BARE.fullmatch(name) else _quoted(name)


def _quoted(text: str, quote: str = '"') -> str:
    if quote == "'" and "'" not in text and text.isprintable():
        return f"'{text}'"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    if escaped.isprintable():
        return f'"{escaped}"'
    raise CannotEdit("a string with control characters")


def quote_of(text: str) -> str:
    """Return the first quotes in the text of a value, else double quotes."""
    return next((sign for sign in text if sign in "'\""), '"')
