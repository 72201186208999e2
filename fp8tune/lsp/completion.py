"""Offer the keys that a trainer has, the values of a key, and the words of comments."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from fp8tune.config.reader import Config
from fp8tune.formats import ABOUT_SCRIPT, format_of
from fp8tune.lint.explain.key import default, kind
from fp8tune.lint.rules import Rule
from fp8tune.lsp.keys import ITEM, Keys, about, keys_of
from fp8tune.lsp.place import Place
from fp8tune.trainers.about import trainers
from fp8tune.trainers.schema import Key
from fp8tune.trainers.unknown_keys import as_typed


class Offer(NamedTuple):
    """A word that may be typed: ``text`` is written, ``note`` and ``page`` explain it.

    ``kind`` is that of the place, or ``section`` for a table that is offered as a key.
    """

    kind: str
    text: str
    note: str = ""
    page: str = ""

    @property
    def bare(self) -> Offer:
        """The word without what is between a key and its value."""
        return self._replace(text=self.text.rstrip(" =:"))


def of_comment(place: Place, rules: list[Rule]) -> Iterator[Offer]:
    """Yield what may stand in a comment: rules, GPUs or trainers."""
    from fp8tune.facts.gpus import table

    if place.name == "ignore":
        yield from (Offer("comment", rule.name, rule.summary) for rule in rules)
    elif place.name == "gpu":
        for name in sorted({gpu.name for gpu in table().values()}):
            yield Offer("comment", name)
    else:
        for each in trainers().values():
            yield from (Offer("comment", id_, each.title) for id_ in each.ids)


def of_config(place: Place, config: Config, path: str) -> Iterator[Offer]:
    """Yield the keys, values or tables that may stand at a place of a config."""
    keys, section = keys_of(config.trainer), config.parts[0].section
    name = f"{section}.{place.name}".strip(".")
    form = format_of(path)
    if place.kind == "table":
        yield from (Offer("table", table) for table in keys.tables)
    elif place.kind == "value":
        key = keys.by_name.get(name)
        yield from _values(key, form) if key else ()
    else:
        there = _there(config.alone.values, place.name)
        yield from _keys(keys, name, there, form)


def _keys(
    keys: Keys, table: str, there: Mapping[str, Any], form: str
) -> Iterator[Offer]:
    """Yield the keys of a table that are not there yet."""
    parts = keys.trainer.about.parts
    for name, key in keys.below(table):
        whole = f"{table}.{name}".strip(".")
        if name in there or (key is None and form in ("toml", "bash")):
            continue
        if (name in parts and not table) or (form == "bash" and name in ABOUT_SCRIPT):
            continue  # in a file of its own; no flag
        if key is None:
            yield Offer("section", _as_key(name, form, ":"), "table")
            continue
        typed = as_typed((name,), keys.trainer) if form == "bash" else name
        note = f"{kind(key)}, default {default(key)}"
        written = typed if form == "bash" else _as_key(name, form, "")
        yield Offer("key", written, note, about(whole, key, keys.trainer))


def _as_key(name: str, form: str, table: str) -> str:
    """Return a key with what is between it and its value."""
    if form == "json":
        return f'"{name}": '
    return f"{name} = " if form == "toml" else f"{name}:{'' if table else ' '}"


def _values(key: Key, form: str) -> Iterator[Offer]:
    """Yield the values that a key may have, the default first."""
    usual = key.effective_default
    values = [*key.allowed] or ([True, False] if key.base == "bool" else [])
    values = [v for v in (usual, *values) if isinstance(v, (bool, int, float, str))]
    written = dict.fromkeys(_literal(value, form) for value in values)
    for text in written:
        yield Offer("value", text, "default" if text == _literal(usual, form) else "")


def _literal(value: Any, form: str) -> str:
    """Return a value as a format writes it."""
    if form == "bash":
        return str(value)
    if form in ("toml", "yaml"):
        text: str = import_module(f"fp8tune.formats.{form}.literal").literal(value)
        return text
    return json.dumps(value, ensure_ascii=False, default=str)


def _there(values: Any, table: str) -> Mapping[str, Any]:
    """Return what stands in a table; of a list, in no item."""
    for name in table.split(".") if table else ():
        if ITEM in name or not isinstance(values, dict):
            return {}
        values = values.get(name)
    return values if isinstance(values, dict) else {}
