"""Sections, classes and keys of a described trainer, checked."""

from __future__ import annotations

import re
from typing import Any

from fp8tune.config.own_trainer.file import FIELDS_OF_A_KEY, File
from fp8tune.facts import FACTS
from fp8tune.suggest import meant
from fp8tune.trainers.described.loader import Wrong, checked, in_range
from fp8tune.trainers.schema import Key, Schema, schema_of

MAX_KEYS = 5000
MAX_DEPTH = 8
"""Most keys of a file, and how deep its tables may be nested."""

PLAIN = ("int", "float", "bool", "str")


def read_schema(file: File) -> Schema:
    """Check what a file says of keys; raises ``BadTrainer``."""
    return _Classes(file).schema()


def whole(file: File, job: dict[str, str]) -> dict[str, Any]:
    """Return the values of a schema, with the fields of the job that are keys."""
    return {"source": file.path, "variants": {}, **file.values, "job": job}


class _Classes:
    """The classes of one file; every method raises ``BadTrainer``."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.classes: dict[str, dict[str, Any]] = file.values["classes"]

    def schema(self) -> Schema:
        """Check everything; return the schema."""
        classes = self.classes
        for name, keys in classes.items():
            if not re.fullmatch(r"[A-Z]\w{0,63}", name):
                raise self.file.fail(
                    f"`{name}`: a class begins with a capital letter", "classes", name
                )
            for key, spec in keys.items():
                self.key(name, key, spec)
        for section, named in self.file.values["sections"].items():
            name = named.removesuffix(" | None")
            if name not in classes:
                raise self.file.fail(
                    f"no class `{name}` in [classes]{meant(name, classes)}",
                    *("sections", section),
                    part="value",
                )
        self.size()
        schema = schema_of(whole(self.file, {}))
        for name, keys in classes.items():
            for key in keys:
                self.default(name, key, schema.classes[name][key])
        self.names(schema)
        return schema

    def key(self, owner: str, key: str, spec: Any) -> None:
        """Check what is said of one key, but for its default."""
        at = ("classes", owner, key)
        if not re.fullmatch(r"[\w-]{1,128}", key):
            raise self.file.fail(f"`{key}`: a key has letters, digits, - and _", *at)
        if not isinstance(spec, dict):
            raise self.file.fail(
                f'a key is a table: {key} = {{ type = "int", default = 1 }}', *at
            )
        self.file.check(spec, FIELDS_OF_A_KEY, "a key", *at)
        if "type" not in spec:
            raise self.file.fail(f"`{key}` has no type: {self.types}", *at)
        wrong = self.unknown_type(spec["type"].removesuffix(" | None"))
        if wrong:
            reason = f"no type `{wrong}`: {self.types}"
            raise self.file.fail(reason, *at, "type", part="value")
        keys = self.classes[owner]
        switch = spec.get("only_if", "")
        if switch and (
            not isinstance(keys.get(switch), dict)
            or keys[switch].get("type") != "int"
            or not isinstance(keys[switch].get("default"), int)
        ):
            reason = f"`{switch}` is no key of {owner} with type int and a default"
            raise self.file.fail(reason, *at, "only_if", part="value")

    @property
    def types(self) -> str:
        """The types that there are, in words."""
        names = [*PLAIN, "list[str]", "dict[str, float]", *list(self.classes)[:3]]
        return f"write one such as {', '.join(names)}"

    def unknown_type(self, base: str, depth: int = 0) -> str:
        """The part of a type that is none; ``""`` if all is known."""
        if base in PLAIN or (base in self.classes and depth < 2):
            return ""
        match = re.fullmatch(r"list\[(.+)\]|dict\[str, ?(.+)\]", base)
        if match is None or depth > 2:
            return base
        inner = match[1] or match[2]
        if match[2] and inner in self.classes:
            return base
        return self.unknown_type(inner, depth + 1)

    def size(self) -> None:
        """Check that classes do not hold themselves, and how many keys there are."""
        counts: dict[str, int] = {}

        def count(name: str, above: tuple[str, ...]) -> int:
            if name in above or len(above) > MAX_DEPTH:
                reason = (
                    f"`{name}` holds itself"
                    if name in above
                    else f"tables are nested deeper than {MAX_DEPTH}"
                )
                raise self.file.fail(reason, "classes", above[-1])
            if name not in counts:
                inner = (
                    re.sub(r"^list\[|\]$", "", spec["type"].removesuffix(" | None"))
                    for spec in self.classes[name].values()
                )
                parts = (
                    count(each, (*above, name)) if each in self.classes else 1
                    for each in inner
                )
                counts[name] = sum(parts)
            return counts[name]

        sections = self.file.values["sections"].values()
        total = sum(count(named.removesuffix(" | None"), ()) for named in sections)
        if total > MAX_KEYS:
            raise self.file.fail(
                f"{total} keys; at most {MAX_KEYS} are read", "classes"
            )
        for name in self.classes:
            if name not in counts:
                raise self.file.fail(
                    f"no section has the class `{name}`", "classes", name
                )

    def default(self, owner: str, key: str, spec: Key) -> None:
        """Check the default and the allowed values of a key, by its own type."""
        at = ("classes", owner, key)
        table = spec.base in self.classes
        if table and (spec.default is not None or spec.allowed):
            raise self.file.fail(
                f"`{key}` is a table and has no default of its own", *at
            )
        for number, value in enumerate(spec.allowed):
            try:
                checked(spec._replace(allowed=[]), value)
            except Wrong:
                reason = f"{value!r} is not of type {spec.base}"
                raise self.file.fail(
                    reason, *at, "allowed", number, part="value"
                ) from None
        for value in spec.near:
            if value not in spec.allowed:
                reason = f'"{value}" is not one of the allowed values'
                raise self.file.fail(reason, *at, "near", value)
        if spec.default is None:
            return
        try:
            checked(spec, spec.default)
            fine = spec.only_if or in_range(spec, spec.default)
        except Wrong as wrong:
            if wrong.kind == "value-not-allowed":
                reason = f"the default is not one of the allowed values of `{key}`"
            else:
                reason = f"the default of `{key}` is not of type {spec.base}"
            raise self.file.fail(reason, *at, "default", part="value") from None
        if not fine:
            reason = f"the default of `{key}` is not {spec.bound}"
            raise self.file.fail(reason, *at, "default", part="value")

    def names(self, schema: Schema) -> None:
        """Refuse keys with the names of facts, which rules could not tell apart."""
        for section in schema.sections:
            if not re.fullmatch(r"[A-Za-z_][\w-]*", section):
                reason = f"`{section}` cannot be a section's name here"
                raise self.file.fail(reason, "sections", section)
        for name, _ in schema.dotted_keys():
            if name in FACTS:
                section, _, key = name.partition(".")
                raise self.file.fail(
                    f"`{name}` is also a fact of fp8tune (fp8tune explain {name}), "
                    "and a file with such a key cannot be described",
                    *("classes", schema.section_class(section), key),
                )
