"""The loader of a trainer that is described by data alone.

It knows what the schema says: sections and keys, types, allowed values and ranges. Two
fields of the schema say what such trainers do differently: ``unknown_keys`` and
``quoted_values``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from fp8tune.formats.document import Path
from fp8tune.trainers.faults import Loaded, Loading, dotted
from fp8tune.trainers.schema import IN_WORDS, Key, Schema

LARGEST = 2**63
"""Numbers from here on are unknown to the job, so that no arithmetic overflows."""

SWITCHES = {"true": True, "yes": True, "1": True, "on": True} | {
    "false": False,
    "no": False,
    "0": False,
    "off": False,
}
"""What a switch in quotes means, where the trainer converts text."""


class Wrong(Exception):
    """A value is refused: the kind of fault, and its facts."""

    def __init__(self, kind: str, **facts: Any) -> None:
        super().__init__(kind)
        self.kind = kind
        self.facts = facts


class Loader:
    """Loads configs of one schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def load(self, raw: dict[str, Any]) -> Loaded:
        """The config with its defaults, and what is wrong with it."""
        run = _Run(self.schema)
        run.file(raw)
        return run.loaded


def checked(spec: Key, value: Any, *, quoted: bool = False) -> Any:
    """Return the value of a key as the trainer holds it; raises ``Wrong``.

    ``quoted`` says that it converts numbers and switches that are written as text.
    """
    if quoted and isinstance(value, str):
        value = _converted(spec, value)
    if isinstance(value, float) and value != value:
        raise Wrong("not-a-number")
    if not of_type(spec.base, value):
        raise Wrong("wrong-type", type=in_words(spec.base))
    if spec.allowed and value not in spec.allowed:
        raise Wrong("value-not-allowed", allowed=spec.allowed)
    return value


PLURALS = {
    "int": "whole numbers",
    "float": "numbers",
    "bool": "true or false",
    "str": "strings",
    "list": "arrays",
}
"""How messages call the elements of an array or a table."""


def in_words(base: str) -> str:
    """Return what a value of a type is: ``an array of strings``."""
    kind, _, inner = base.partition("[")
    if kind not in ("list", "dict"):
        return IN_WORDS.get(kind, "a table")
    inner = inner.rpartition(",")[2] if kind == "dict" else inner
    element = re.split(r"[\[\]]", inner.strip())[0]
    whole = "an array" if kind == "list" else "a table"
    return f"{whole} of {PLURALS.get(element, 'tables')}"


def in_range(spec: Key, value: Any) -> bool:
    """Whether a number, or each one of an array or a table, is within the bounds."""
    if isinstance(value, (list, dict)):
        parts = value.values() if isinstance(value, dict) else value
        return all(in_range(spec, part) for part in parts)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return True
    return spec.contains(value) and not (spec.nonzero and value == 0)


def of_type(base: str, value: Any) -> bool:
    """Whether a value is of a type without classes: ``list[int]``."""
    kind, _, inner = base.partition("[")
    inner = inner.removesuffix("]")
    if kind == "list":
        return isinstance(value, list) and all(of_type(inner, v) for v in value)
    if kind == "dict":
        of = inner.partition(",")[2].strip()
        return isinstance(value, dict) and all(of_type(of, v) for v in value.values())
    kinds: dict[str, tuple[type, ...]] = {
        "int": (int,),
        "float": (int, float),
        "bool": (bool,),
        "str": (str,),
    }
    if base not in kinds:  # a class, whose keys are checked one by one
        return isinstance(value, dict)
    return isinstance(value, kinds[base]) and isinstance(value, bool) <= (
        base == "bool"
    )


def _converted(spec: Key, text: str) -> Any:
    """Return the value of a text; raises ``Wrong``."""
    kinds = {"int": int, "float": float}
    try:
        if spec.base in kinds:
            return kinds[spec.base](text)
        return SWITCHES[text.strip().lower()] if spec.base == "bool" else text
    except (KeyError, ValueError):
        raise Wrong("value-not-convertible", type=spec.kind) from None


class _Run(Loading):
    """One file on its way through the loader."""

    def file(self, raw: dict[str, Any]) -> None:
        """Load all sections, those that are not written with their defaults."""
        for section in self.schema.sections:
            table = raw.get(section, {})
            if self.schema.optional(section):
                self.values[section] = section in raw
            if section in raw:
                self.written.add(section)
            if not isinstance(table, dict):
                self.fault("section-not-a-table", (section,), value=table)
            elif section in raw or not self.schema.optional(section):
                path: Path = (section,)
                self.table(self.schema.section_class(section), table, path, path)
        for section in raw:
            if section not in self.schema.sections:
                what = f"a {self.schema.title} config"
                self.unknown((section,), what, self.schema.sections)

    def table(self, name: str, table: dict[str, Any], path: Path, at: Path) -> None:
        """Load one table; ``at`` is where it stands, or the table that lacks it."""
        keys = self.schema.classes[name]
        for key in table:
            if key not in keys:
                self.unknown((*path, key), f"[{dotted(path)}]", keys)
        for key, spec in keys.items():
            here = (*path, key)
            if key in table:
                self.written.add(dotted(here))
                self.key(spec, table[key], here)
            elif spec.base in self.schema.classes and not spec.optional:
                self.table(spec.base, {}, here, at)
            elif spec.required:
                self.fault("missing-key", at, key=dotted(here), name=key)
            else:
                self.keep(dotted(here), spec.default)
        self.bounds(keys, table, path)

    def key(self, spec: Key, raw: Any, path: Path) -> None:
        """Load one key that is written."""
        quoted = self.schema.quoted_values == "converted"
        inner = spec.base.removeprefix("list[").removesuffix("]")
        try:
            value = checked(spec, raw, quoted=quoted)
        except Wrong as wrong:
            if wrong.kind == "value-not-allowed":
                self.not_allowed_by(spec, path, raw)
            else:
                self.fault(wrong.kind, path, value=raw, **wrong.facts)
            return
        if spec.base in self.schema.classes:
            self.table(spec.base, value, path, path)
        elif inner in self.schema.classes:
            for index, entry in enumerate(value):
                self.table(inner, entry, (*path, index), (*path, index))
        else:
            self.keep(dotted(path), value)

    def bounds(
        self, keys: Mapping[str, Key], table: dict[str, Any], path: Path
    ) -> None:
        """Check the numbers of a table, some only if another key is above 0."""
        for key in table.keys() & keys.keys():
            spec, name = keys[key], dotted((*path, key))
            switch = self.values.get(dotted((*path, spec.only_if)), 0)
            off = spec.only_if and not (isinstance(switch, int) and switch > 0)
            if not off and name in self.values:
                value = self.values[name]
                if not in_range(spec, value):
                    del self.values[name]
                    facts = {"value": table[key], "bound": spec.bound}
                    at = (*path, key)
                    self.fault("value-out-of-range", at, hint="", **facts)

    def keep(self, name: str, value: Any) -> None:
        """Keep a value, unless nothing can be computed with it."""
        odd = isinstance(value, (int, float)) and not abs(value) < LARGEST
        if not (odd or (isinstance(value, float) and not math.isfinite(value))):
            self.values[name] = value

    def unknown(self, path: Path, table: str, keys: Mapping[str, Any]) -> None:
        """Note a key that the trainer does not have."""
        ignored = self.schema.unknown_keys == "ignored"
        kind = "ignored-key" if ignored else "unknown-key"
        facts = {"name": str(path[-1]), "table": table, **self.meant(path, keys)}
        self.fault(kind, path, **facts)
