"""How a checkout of KempnerForge differs from the schema that fp8tune lints with.

The config dataclasses are read from their source, so neither torch nor the trainer
needs to be installed. Exit code 0: no drift; 1: drift; 2: no such checkout.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.process import ROOT
from benchmarks.trainer_source import REQUIRED, Field, Source, Unreadable, read

SCHEMA = ROOT / "fp8tune" / "trainers" / "kempnerforge" / "schema.toml"


def main(arguments: list[str] | None = None) -> int:
    """Compare a checkout with the schema and say each difference in one line."""
    parser = argparse.ArgumentParser(prog="schema_drift", description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--schema", type=Path, default=SCHEMA)
    options = parser.parse_args(arguments)
    try:
        there = read(options.checkout)
    except FileNotFoundError as error:
        print(f"schema_drift: {error}", file=sys.stderr)
        return 2
    lines = list(drift(read_schema(options.schema), there))
    for line in lines:
        print(line)
    if not lines:
        fields = sum(map(len, there.classes.values()))
        print(f"no drift: {len(there.classes)} classes, {fields} fields")
    return int(bool(lines))


def read_schema(path: Path) -> Source:
    """The schema in the shape that the source is read in."""
    with path.open("rb") as file:
        data = tomllib.load(file)
    classes = {
        name: {key: _field(spec) for key, spec in keys.items()}
        for name, keys in data["classes"].items()
    }
    variants = {
        value: name
        for spec in data.get("variants", {}).values()
        for value, name in spec["classes"].items()
    }
    return Source(data["sections"], classes, variants)


def _field(spec: dict[str, Any]) -> Field:
    default = REQUIRED if spec.get("required") else spec.get("default")
    allowed = tuple(spec["allowed"]) if "allowed" in spec else None
    return Field(spec["type"], default, allowed)


def drift(ours: Source, theirs: Source) -> Iterator[str]:
    """Each difference as one line, ours before theirs."""
    yield from _names("section", ours.sections, theirs.sections)
    for name in filter(theirs.sections.__contains__, ours.sections):
        yield from _changed(name, "class", ours.sections[name], theirs.sections[name])
    yield from _changed("variants", "classes", ours.variants, theirs.variants)
    yield from _names("class", ours.classes, theirs.classes)
    for name, fields in ours.classes.items():
        if name in theirs.classes:
            yield from _fields(name, fields, theirs.classes[name])


def _names(kind: str, ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[str]:
    for name in theirs:
        if name not in ours:
            yield f"{name}: {kind} is new in the trainer"
    for name in ours:
        if name not in theirs:
            yield f"{name}: {kind} is gone from the trainer"


def _fields(
    name: str, ours: dict[str, Field], theirs: dict[str, Field]
) -> Iterator[str]:
    yield from _names(
        "field",
        {f"{name}.{key}": field for key, field in ours.items()},
        {f"{name}.{key}": field for key, field in theirs.items()},
    )
    for key in filter(theirs.__contains__, ours):
        where, old, new = f"{name}.{key}", ours[key], theirs[key]
        yield from _changed(where, "type", old.type, new.type)
        yield from _default(where, old.default, new.default)
        yield from _allowed(where, old.allowed, new.allowed)


def _default(where: str, ours: Any, theirs: Any) -> Iterator[str]:
    if isinstance(theirs, Unreadable):
        yield f"{where}: default cannot be read from {theirs.source}"
    else:
        yield from _changed(where, "default", ours, theirs)


def _allowed(
    where: str, ours: tuple[Any, ...] | None, theirs: tuple[Any, ...] | None
) -> Iterator[str]:
    """Order is no difference; a set that is not checked at all is one."""
    if ours is None or theirs is None:
        yield from _changed(where, "allowed", ours, theirs)
        return
    for value in theirs:
        if value not in ours:
            yield f"{where}: {value!r} is newly allowed"
    for value in ours:
        if value not in theirs:
            yield f"{where}: {value!r} is no longer allowed"


def _changed(where: str, what: str, ours: Any, theirs: Any) -> Iterator[str]:
    if ours != theirs or type(ours) is not type(theirs):
        yield f"{where}: {what} {ours!r} -> {theirs!r}"


if __name__ == "__main__":
    sys.exit(main())
