"""A config on its way through the loader of a trainer: values, keys and faults."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from fp8tune.formats.document import Path
from fp8tune.trainers.faults import Fault, Loaded, dotted
from fp8tune.trainers.hints import Hints, key_meant, value_meant
from fp8tune.trainers.schema import Key, Schema

MAX_FAULTS, HINTS = 1000, 20
"""Most faults that are kept, and faults after which unknown keys get no hint."""


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

    @property
    def loaded(self) -> Loaded:
        """The config as the trainer holds it."""
        return Loaded(self.values, self.written, self.faults)

    def meant(self, path: Path, keys: Collection[str] = ()) -> dict[str, Any]:
        """Return the facts of an unknown key that say which one was meant."""
        hint = self.hints.for_key(path, keys) if len(self.faults) < HINTS else ""
        return {"hint": hint, **key_meant(hint, path, keys)}

    def not_allowed(
        self,
        path: Path,
        value: Any,
        allowed: Iterable[Any],
        hint: str,
        kind: str = "value-not-allowed",
    ) -> None:
        """Note a value that is none of those allowed, with the one that was meant."""
        facts = {"allowed": allowed, "hint": hint, **value_meant(hint, value)}
        self.fault(kind, path, value=value, **facts)

    def not_allowed_by(
        self, spec: Key, path: Path, value: Any, kind: str = "value-not-allowed"
    ) -> None:
        """Note a value that is none of those that its key allows."""
        hint = self.hints.for_value(spec, value)
        self.not_allowed(path, value, spec.allowed, hint, kind)
