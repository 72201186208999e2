"""What lint reads at its start as modules, for wheels: see ``build_hook.py``."""

from __future__ import annotations

import marshal
import os
import tomllib
from collections.abc import Iterator
from typing import Any

from fp8tune.conditions import KNOWN, parse
from fp8tune.facts import FACTS, gpus, versions
from fp8tune.job import Source
from fp8tune.lint.builtin import builtin_folder, rule_files
from fp8tune.lint.needs import needs_of
from fp8tune.lint.rules import Rule
from fp8tune.trainers import about, checks, recognise, schema
from fp8tune.trainers.trainer import trainer

_LEFT_OUT = (
    *("bad", "good", "experiment", "why", "summary", "confidence", "since", "seen"),
)
"""What no finding shows."""

_HEAD = (
    *("name", "code", "severity", "fp8", "trainer", "releases", "fault"),
    *("when", "same", "differs"),
)
"""What decides whether a rule may fire on a config."""

_EVERY_PYTHON = 4
"""The version of marshal that all releases of Python read."""


def sources() -> Iterator[tuple[str, str]]:
    """The modules of a wheel and their texts: ``fp8tune._index``, and one per schema.

    A schema is read only where a config may be of its trainer. Of a rule lint reads
    what decides whether it may fire; the rest is unpacked where it may.
    """
    rules = [_rule(path, category) for category, path in rule_files(builtin_folder())]
    parts = {
        "RULES": [_entry(rule) for rule in rules],
        "FACTS": _located(FACTS),
        "TRAINERS": list(about.parsed()),
        "FOREIGN": recognise.foreign_parsed(),
        "GPUS": gpus.parsed(),
        "VERSIONS": versions.parsed(),
    }
    yield "fp8tune._index", _text(parts)
    for name in (each for known in about.trainers().values() for each in known.ids):
        known = trainer(name)
        computed = known.vocabulary.computed.items()
        data = schema.parsed(name)
        parts = {
            "SCHEMA": data,
            "NEEDS": needs_of(rules, known),
            "COMPUTED": _located({n: s for n, s in computed if s != FACTS.get(n)}),
            "TREES": {source: parse(source) for source in checks.conditions(data)},
        }
        yield about.module_of(name), _text(parts)


def _rule(path: str, category: str) -> Rule:
    with open(path, "rb") as file:
        whole = tomllib.load(file)
    front = {key: value for key, value in whole.items() if key not in _LEFT_OUT}
    rule = Rule(path, category, front)
    rule.front = front
    return rule


def _entry(rule: Rule) -> tuple[str, str, dict[str, Any], tuple[bytes, ...]]:
    """Return what a wheel holds of a rule."""
    head = {name: rule.front[name] for name in _HEAD if name in rule.front}
    trees = _trees(rule)
    parts = rule.source, rule.same, rule.differs
    conditions = {part: trees.pop(part) for part in parts if part}
    stored = (conditions, (rule.front, trees))
    packed = tuple(marshal.dumps(each, _EVERY_PYTHON) for each in stored)
    return rule.category, os.path.basename(rule.path), head, packed


def _located(computed: dict[str, Source]) -> dict[str, tuple[Any, ...]]:
    """Return names of a job with the place of each function and what it reads."""
    return {
        name: ((source.call.__module__, source.call.__name__), *source[1:])
        for name, source in computed.items()
    }


def _text(parts: dict[str, Any]) -> str:
    return "".join(f"{name} = {value!r}\n" for name, value in parts.items())


def _trees(rule: Rule) -> dict[str, Any]:
    """Return the trees of all expressions of a rule."""
    KNOWN.clear()
    if rule.source:
        _ = rule.when
        _ = rule.same and rule.compared
    _ = rule.message, rule.help, rule.fixes, [*map(rule.label, range(len(rule.at)))]
    return dict(KNOWN)
