"""Write what a trainer's releases accept as one schema file.

A maker of schemas says what one release accepts, as the lines of a schema.
``update`` puts that into the trainer's ``schema.toml`` beside its other releases, whose
entries stay as they were. ``fp8tune/trainers/schema.py`` explains ``since``, ``until``
and ``of``.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, takewhile
from pathlib import Path
from typing import Any

from fp8tune.trainers.about import release_of
from fp8tune.trainers.schema import FIXED, of_release
from fp8tune.words import counted

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 110
"""Columns within which the variants of an entry share a line."""

Schemas = Mapping[str, dict[str, Any]]
"""What each release accepts, the oldest first."""


def update(trainer: str, made: Mapping[str, Iterable[str]], *, check: bool) -> bool:
    """Put the schemas of releases into their trainer's file; return whether it changed.

    ``made`` has the lines of each, the first of them comments on the whole file. What
    changes in each release is printed. With ``check`` nothing is written. Raises
    ``SystemExit`` if ``versions`` of ``trainer.toml`` lacks a release.
    """
    folder = ROOT / "fp8tune" / "trainers" / trainer
    about = tomllib.loads((folder / "trainer.toml").read_text(encoding="utf-8"))
    path, texts = folder / "schema.toml", {r: [*lines] for r, lines in made.items()}
    for release in texts.keys() - {*about.get("versions", [""])}:
        raise SystemExit(f"add {release} to `versions` of {folder / 'trainer.toml'}")
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    data = tomllib.loads(before)
    schemas = {}
    for release in about.get("versions", [""]):
        if release in texts:
            schemas[release] = tomllib.loads("\n".join(texts[release]))
            earlier = of_release(data, release) if data else {}
            print(f"{trainer} {release}: {changes(earlier, schemas[release])}")
        elif data:
            schemas[release] = of_release(data, release)
        plain = release_of(release)[0] or "{release}"
        for name in ("title", "source"):
            schemas[release][name] = schemas[release][name].replace(plain, "{release}")
    newest = texts.get(list(schemas)[-1])
    text = "".join(
        f"{line}\n" for line in _text(newest or before.splitlines(), schemas)
    )
    if text != before and not check:
        path.write_text(text, encoding="utf-8")
    return text != before


def lines(
    about: str,
    head: Mapping[str, str],
    *,
    sections: Mapping[str, str],
    job: Mapping[str, str],
    classes: Mapping[str, Mapping[str, Any]],
    variants: Mapping[str, Any] = {},
) -> Iterator[str]:
    """Yield the lines of the schema of one release; ``about`` is the comment above."""
    yield from (f"# {line}".rstrip() for line in about.splitlines())
    yield ""
    yield from (f"{name} = {toml(text)}" for name, text in head.items())
    tables = {"sections": sections, "job": job, "variants": variants}
    tables |= {f"classes.{_key(name)}": keys for name, keys in classes.items()}
    for name, table in tables.items():
        yield from ("", f"[{name}]")
        yield from (f"{key} = {toml(value)}" for key, value in table.items())


def sections_of(keys: Schemas, classes: Iterable[str]) -> dict[str, str]:
    """Return the keys that are tables of a class, with their types."""
    types = {name: str(spec["type"]) for name, spec in keys.items()}
    return {
        n: kind for n, kind in types.items() if kind.removesuffix(" | None") in classes
    }


def bounds(metadata: Iterable[Any]) -> dict[str, Any]:
    """Return in the words of a schema the bounds that pydantic has of a number."""
    low, high, spec = "", "", dict[str, Any]()
    for each in metadata:
        for name in ("ge", "gt", "le", "lt"):
            bound = getattr(each, name, None)
            if bound is None:
                continue
            spec |= {"ge": {"min": bound}, "gt": {"above": bound}}.get(name, {})
            low = {"ge": f"[{bound}", "gt": f"({bound}"}.get(name, low)
            high = {"le": f"{bound}]", "lt": f"{bound})"}.get(name, high)
    return {"within": f"{low}, {high}"} if low and high else spec


def changes(earlier: dict[str, Any], later: dict[str, Any]) -> str:
    """Return in one line what differs between two schemas: keys and job fields."""
    parts = []
    for what, before, after in (
        ("key", _keys(earlier), _keys(later)),
        ("job field", earlier.get("job", {}), later["job"]),
    ):
        both = before.keys() & after.keys()
        for how, names in (
            ("added", after.keys() - before.keys()),
            ("dropped", before.keys() - after.keys()),
            ("changed", {name for name in both if before[name] != after[name]}),
        ):
            if names:
                parts.append(
                    f"{counted(len(names), what)} {how} ({', '.join(sorted(names))})"
                )
    return "; ".join(parts) or "no key and no job field differs"


def _keys(schema: dict[str, Any]) -> dict[str, Any]:
    classes = schema.get("classes", {}).items()
    return {
        f"{name}.{key}": spec for name, keys in classes for key, spec in keys.items()
    }


def _text(lines: list[str], schemas: Schemas) -> Iterator[str]:
    yield from takewhile(lambda line: line.startswith("#"), lines)
    yield ""
    for name in FIXED:
        yield from _entry(name, {v: each.get(name) for v, each in schemas.items()})
    for name in ("sections", "job", "variants"):
        yield from ("", f"[{name}]")
        yield from _table({r: schema[name] for r, schema in schemas.items()})
    for name in merged([*s["classes"]] for s in schemas.values()):
        yield from ("", f"[classes.{_key(name)}]")
        yield from _table(
            {
                version: schema["classes"].get(name, {})
                for version, schema in schemas.items()
                if name in schema["classes"] or not release_of(version)[1]
            }
        )


def _table(tables: Schemas) -> Iterator[str]:
    """Yield the entries of one table in all releases that have it."""
    for name in merged([*table] for table in tables.values()):
        yield from _entry(name, {r: table.get(name) for r, table in tables.items()})


def _entry(name: str, values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of an entry whose value differs between releases, or not."""
    variants = [*_variants(values)]
    if not variants:
        return
    texts = [toml(variant) for variant in variants]
    key = _key(name)
    if len(texts) == 1:
        yield f"{key} = {texts[0]}"
    elif len(line := f"{key} = [{', '.join(texts)}]") <= WIDTH:
        yield line
    else:
        yield f"{key} = [{texts[0]},"
        yield from (f"    {text}," for text in texts[1:-1])
        yield f"    {texts[-1]}]"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name) else json.dumps(name)


def _variants(values: Mapping[str, Any]) -> Iterator[Any]:
    """Yield each value of an entry with the releases that have it, the oldest first."""
    commands = [*dict.fromkeys(release_of(version)[1] for version in values)]
    bounded: dict[str, tuple[Any, dict[str, str], list[str]]] = {}
    for command in commands:
        own = {
            release_of(version)[0]: value
            for version, value in values.items()
            if release_of(version)[1] == command
        }
        for value, limits in _runs(own):
            place = json.dumps([limits, value])
            bounded.setdefault(place, (value, limits, []))[2].append(command)
    for value, limits, of in bounded.values():
        bounds: dict[str, Any] = limits if of == commands else limits | {"of": of}
        if not bounds:
            yield value
        elif isinstance(value, dict):
            yield bounds | value
        else:
            yield bounds | {"value": value}


def _runs(values: Mapping[str, Any]) -> Iterator[tuple[Any, dict[str, str]]]:
    """Yield each value and between which releases it stayed the same."""
    releases = [*values]
    for _, run in groupby(releases, lambda release: json.dumps(values[release])):
        first, *others = run
        last = [first, *others][-1]
        if values[first] is not None:
            since = {"since": first} if first != releases[0] else {}
            until = {"until": last} if last != releases[-1] else {}
            yield values[first], since | until


def merged(orders: Iterable[list[str]]) -> list[str]:
    """Return all names of several lists in an order that keeps that of the last.

    A name that the last does not have follows the name before it.
    """
    *earlier, last = orders
    names = [*last]
    for order in reversed(earlier):
        for before, name in zip(["", *order], order, strict=False):
            if name not in names:
                names.insert(names.index(before) + 1 if before else 0, name)
    return names


def toml(value: Any) -> str:
    """Return a value as TOML writes it on one line."""
    if isinstance(value, dict):
        pairs = (f"{key} = {toml(item)}" for key, item in value.items())
        return f"{{ {', '.join(pairs)} }}" if value else "{ }"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
