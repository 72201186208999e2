"""Python values to YAML text on one line, which PyYAML and OmegaConf read alike."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from fp8tune.formats.edits import CannotEdit
from fp8tune.formats.yaml.scalars import LOADERS, resolved

_PLAIN = re.compile(r"[\w./][\w./+-]*", re.ASCII)


def literal(value: Any, quote: str = "") -> str:
    """Return a value as YAML; raises ``CannotEdit``.

    ``quote`` are the quotes of strings; without, only those have some that need them.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, str):
        return _string(value, quote)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(literal(item, quote) for item in value)}]"
    if isinstance(value, dict):
        pairs = (f"{key_text(k)}: {literal(v, quote)}" for k, v in value.items())
        return f"{{{', '.join(pairs)}}}"
    raise CannotEdit(f"{type(value).__name__} has no one-line form")


def key_text(name: str | int) -> str:
    """Return a key as YAML, quoted if necessary; raises ``CannotEdit``."""
    if isinstance(name, int):
        raise CannotEdit("an item of a list")
    return _string(name, "")


def quote_of(text: str) -> str:
    """Return the quotes in which the text of a value begins, or ``""``."""
    return text[:1] if text[:1] in ("'", '"') else ""


def _number(value: float) -> str:
    """Return a float; PyYAML takes ``5e-05`` for a string, it wants ``5.0e-05``."""
    if math.isfinite(value):
        digits, mark, power = repr(value).partition("e")
        return f"{digits if '.' in digits else f'{digits}.0'}{mark}{power}"
    return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"


def _string(text: str, quote: str) -> str:
    if not quote and _PLAIN.fullmatch(text) and _is_string(text):
        return text
    if not text.isprintable():
        raise CannotEdit("a string with control characters")
    if quote == "'":
        return "'{}'".format(text.replace("'", "''"))
    return json.dumps(text, ensure_ascii=False)


def _is_string(text: str) -> bool:
    try:
        return all(resolved(text, loader) == text for loader in LOADERS)
    except ValueError:  # 2026-13-01 has the form of a date
        return False
