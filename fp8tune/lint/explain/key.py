"""The page of a config key: its meaning, its readers, and its value in a config."""

from __future__ import annotations

from typing import Any, NamedTuple

from fp8tune.config.reader import Config
from fp8tune.fields import FIELDS
from fp8tune.lint.explain.derivation import Node, derive, unit
from fp8tune.lint.explain.myths import Myth, about
from fp8tune.lint.explain.reads import facts_reading, rules_reading
from fp8tune.trainers.schema import Key
from fp8tune.trainers.trainer import trainer
from fp8tune.words import shown


class KeyPage(NamedTuple):
    """Everything known about a key.

    ``takes`` says which values are accepted, ``field`` what rules call it, ``called``
    what other trainers call it, ``also`` those that have a key of the same name.
    """

    name: str
    trainer: str
    meaning: str
    type: str
    unit: str
    default: str
    takes: str
    field: str
    field_meaning: str
    called: list[str]
    rules: list[str]
    facts: list[str]
    myths: list[Myth]
    source: str
    value: Node | None
    also: list[str] = []


def key_page(owner: str, name: str, key: Key, config: Config | None = None) -> KeyPage:
    """Return the page of a key; a key of list entries has no single value."""
    schema = trainer(owner).schema
    field = next((f for f, said_by in schema.job.items() if said_by == name), "")
    has_value = config is not None and config.trainer.id == owner and "[]" not in name
    return KeyPage(
        name=name,
        trainer=schema.title,
        meaning=key.doc,
        type=kind(key),
        unit=unit(key.doc),
        default=default(key),
        takes=takes(key),
        field=field,
        field_meaning=FIELDS.get(field, ""),
        called=key.aka,
        rules=rules_reading(owner, name),
        facts=[fact for fact in facts_reading(owner, name) if fact != field],
        myths=about(name, *([field] if field else [])),
        source=schema.source,
        value=derive(name, config) if has_value and config else None,
    )


_KINDS = {
    "int": "whole number",
    "float": "number",
    "bool": "true or false",
    "Any": "any value",
}


def kind(key: Key) -> str:
    """Return the type of a key in words."""
    if key.base == "str" or any(isinstance(each, str) for each in key.allowed or ()):
        return "text"
    return _KINDS.get(key.base, _sequence(key.base))


def _sequence(base: str) -> str:
    if base.startswith(("list[", "tuple[")):
        return "array"
    return "table"


def default(key: Key) -> str:
    """Return the default value of a key."""
    return "none, the key is required" if key.required else shown(key.effective_default)


def takes(key: Key) -> str:
    """Return which values the trainer accepts, ``""`` if all of the type."""
    values: list[Any] = key.allowed
    text = ", ".join(map(shown, values)) if values else key.bound
    return f"{text} (checked if {key.only_if} > 0)" if key.only_if and text else text
