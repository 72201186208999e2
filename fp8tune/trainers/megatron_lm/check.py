"""One check of the arguments of Megatron-LM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Values = dict[str, Any]


class Check(NamedTuple):
    """One check: it fails if ``when`` is true of the values."""

    key: str
    when: Callable[[Values], Any]
    reason: str
    hint: str = ""
