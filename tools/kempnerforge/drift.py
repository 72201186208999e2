"""How a checkout of KempnerForge differs from the schema that fp8tune lints with.

Imports the checkout's config dataclasses, so it needs a Python with the trainer's
requirements (torch). The values that a field may have are those of its ``Literal`` or
enum, or those outside of which ``__post_init__`` refuses it. Exit code 0: no drift; 1:
drift; 2: no such checkout.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import dataclasses
import enum
import inspect
import pkgutil
import sys
import textwrap
import tomllib
import typing
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from tools.schema_file import ROOT

SCHEMA = ROOT / "fp8tune" / "trainers" / "kempnerforge" / "schema.toml"
JOB = "JobConfig"
"""The class whose fields are the sections of a config."""
REQUIRED = "required"
"""The default of a field that has none."""


class Field(NamedTuple):
    """One field of a config class; ``allowed`` is ``None`` for any value."""

    type: str
    default: Any
    allowed: tuple[Any, ...] | None


class Source(NamedTuple):
    """What a trainer's classes, or the schema, say about a config."""

    sections: dict[str, str]
    classes: dict[str, dict[str, Field]]
    variants: dict[str, str]


def main(arguments: list[str] | None = None) -> int:
    """Compare a checkout with the schema and say each difference in one line."""
    parser = argparse.ArgumentParser(prog="schema_drift", description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--schema", type=Path, default=SCHEMA)
    options = parser.parse_args(arguments)
    if not (options.checkout / "kempnerforge" / "config").is_dir():
        print(f"schema_drift: no config classes in {options.checkout}", file=sys.stderr)
        return 2
    there = read_checkout(options.checkout)
    lines = list(drift(read_schema(options.schema), there))
    for line in lines:
        print(line)
    if not lines:
        fields = sum(map(len, there.classes.values()))
        print(f"no drift: {len(there.classes)} classes, {fields} fields")
    return int(bool(lines))


def read_checkout(checkout: Path) -> Source:
    """Import the config classes of a checkout and read what they say."""
    sys.path.insert(0, str(checkout))
    package = import_module("kempnerforge.config")
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    modules = [import_module(f"{package.__name__}.{name}") for name in names]
    own: dict[str, Any] = {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if dataclasses.is_dataclass(value) and value.__module__ == module.__name__
    }
    job = inspect.get_annotations(own.pop(JOB))
    registry = import_module(f"{package.__name__}.registry").registry
    variants = {
        name: registry.get_vlm_config(name).__name__
        for name in registry.list_vlm_configs()
    }
    return Source(
        job, {name: _class_fields(each) for name, each in own.items()}, variants
    )


def _class_fields(each: Any) -> dict[str, Field]:
    """Return the fields that a class adds to those of its bases."""
    checked = dict(_checked(each))
    fields = {field.name: field for field in dataclasses.fields(each)}
    return {
        name: _source_field(each, fields[name], kind, checked.get(name))
        for name, kind in inspect.get_annotations(each).items()
        if name in fields
    }


def _source_field(
    each: Any, field: Any, kind: str, checked: tuple[Any, ...] | None
) -> Field:
    annotated = eval(kind, vars(sys.modules[each.__module__]))  # noqa: S307
    if typing.get_origin(annotated) is typing.Literal:
        kind, checked = "Literal", typing.get_args(annotated)
    elif isinstance(annotated, enum.EnumType):
        checked = tuple(map(_plain, annotated))
    default: Any = REQUIRED
    if field.default is not dataclasses.MISSING:
        default = _plain(field.default)
    elif field.default_factory is not dataclasses.MISSING:
        default = _plain(field.default_factory())
    return Field(kind, default, checked)


def _plain(value: Any) -> Any:
    """Return a value as TOML would write it."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: _plain(getattr(value, name)) for name in names}
    return value


def _checked(each: Any) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the fields that ``__post_init__`` refuses outside of a known set.

    Its imports are run first: they register names for such sets.
    """
    if "__post_init__" not in vars(each):
        return
    code = ast.parse(textwrap.dedent(inspect.getsource(each.__post_init__)))
    known = dict(vars(sys.modules[each.__module__]))
    for node in ast.walk(code):
        match node:
            case ast.Assign() | ast.Import() | ast.ImportFrom():
                with contextlib.suppress(Exception):
                    exec(ast.unparse(node), known)  # noqa: S102
            case ast.Compare(
                left=ast.Attribute(value=ast.Name(id="self"), attr=name),
                ops=[ast.NotIn()],
                comparators=[options],
            ):
                with contextlib.suppress(Exception):
                    yield name, tuple(eval(ast.unparse(options), known))  # noqa: S307


def read_schema(path: Path) -> Source:
    """The schema in the shape that the source is read in."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
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
    """Yield each difference as one line, ours before theirs."""
    yield from _names("section", ours.sections, theirs.sections)
    for name in filter(theirs.sections.__contains__, ours.sections):
        yield from _changed(name, "class", ours.sections[name], theirs.sections[name])
    yield from _changed("variants", "classes", ours.variants, theirs.variants)
    yield from _names("class", ours.classes, theirs.classes)
    old, new = (
        {
            f"{name}.{key}": field
            for name, fields in source.classes.items()
            if name in ours.classes and name in theirs.classes
            for key, field in fields.items()
        }
        for source in (ours, theirs)
    )
    yield from _names("field", old, new)
    for where in filter(new.__contains__, old):
        for what in ("type", "default"):
            before, after = (getattr(fields[where], what) for fields in (old, new))
            yield from _changed(where, what, before, after)
        yield from _allowed(where, old[where].allowed, new[where].allowed)


def _names(kind: str, ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[str]:
    yield from (f"{n}: {kind} is new in the trainer" for n in theirs if n not in ours)
    yield from (
        f"{n}: {kind} is gone from the trainer" for n in ours if n not in theirs
    )


def _allowed(
    where: str, ours: tuple[Any, ...] | None, theirs: tuple[Any, ...] | None
) -> Iterator[str]:
    """Order is no difference; a set that is not checked at all is one."""
    if ours is None or theirs is None:
        yield from _changed(where, "allowed", ours, theirs)
        return
    yield from (f"{where}: {v!r} is newly allowed" for v in theirs if v not in ours)
    yield from (f"{where}: {v!r} is no longer allowed" for v in ours if v not in theirs)


def _changed(where: str, what: str, ours: Any, theirs: Any) -> Iterator[str]:
    if ours != theirs or type(ours) is not type(theirs):
        yield f"{where}: {what} {ours!r} -> {theirs!r}"


if __name__ == "__main__":
    sys.exit(main())
