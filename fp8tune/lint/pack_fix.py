"""Check a ``[[fix]]`` of a rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fp8tune.fields import FIELDS
from fp8tune.formats.document import Path
from fp8tune.job import Target
from fp8tune.lint.repair import VERBS
from fp8tune.lint.rules import Rule
from fp8tune.suggest import meant
from fp8tune.trainers import faults

SAFETIES = ("safe", "unsafe")


def mistakes(rule: Rule, entry: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    """Yield what is wrong with a ``[[fix]]``, expressions aside, and where."""
    if entry["safety"] not in SAFETIES:
        near = meant(entry["safety"], SAFETIES)
        yield ("safety",), f"safety is safe or unsafe{near}"
    if not entry["title"].strip():
        yield ("title",), "title is empty"
    if entry["safety"] == "unsafe" and not entry.get("changes", "").strip():
        yield (), "an unsafe fix says in `changes` what becomes of the run"
    named = [(verb, name) for verb in VERBS for name in entry.get(verb, {})]
    removed = list(enumerate(entry.get("remove", ())))
    if not named and not removed and rule.fault not in faults.FIXABLE:
        yield (), "a fix has `set`, `rename`, `move`, `header` or `remove`"
    for verb, name in named:
        if wrong := _wrong(rule, name):
            yield (verb, name), wrong
    for number, name in removed:
        if wrong := _wrong(rule, name):
            yield ("remove", number), wrong


def _wrong(rule: Rule, name: str) -> str:
    """Return why a fix cannot write the key of ``name``, else ``""``."""
    if name == "fault":
        return "" if rule.fault else "only a rule with `fault` speaks of one"
    words = [known.vocabulary for known in rule.known()]
    keys = {key for one in words for key in (*one.keys, *one.settings)}
    if name in keys or (name in FIELDS and name not in Target._fields):
        return ""
    if rule.knows(name):
        return f"no key says `{name}`; name the keys that it follows from"
    return f"unknown name `{name}`{meant(name, (*FIELDS, *keys))}"
