"""A config on its way through the loader of a trainer: values, keys and faults."""

from __future__ import annotations

from typing import Any

from fp8tune.formats.document import Path
from fp8tune.trainers.faults import Fault, dotted
from fp8tune.trainers.hints import Hints
from fp8tune.trainers.schema import Schema

MAX_FAULTS = 1000
"""Most faults that are kept."""


class Loading:
    """What a config holds so far, and what its loader refuses or ignores."""

    def __init__(self, schema: Schema, hints: Hints) -> None:
        self.schema, self.hints = schema, hints
        self.values: dict[str, Any] = {}
        self.written: set[str] = set()
        self.faults: list[Fault] = []

    def fault(self, kind: str, path: Path, **facts: Any) -> None:
        """Note a fault; of more than a thousand the rest is dropped."""
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(Fault(kind, path, {"key": dotted(path), **facts}))
