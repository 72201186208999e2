"""Rules, schemas and GPUs as modules, for wheels: see ``fp8tune/build_hook.py``."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Iterator
from typing import Any

from fp8tune.conditions.syntax import KNOWN, Tree, parse
from fp8tune.facts import gpus
from fp8tune.lint.builtin import builtin_folder, rule_files
from fp8tune.lint.needs import needs_of
from fp8tune.lint.rules import Rule
from fp8tune.trainers import about, checks, recognise, schema
from fp8tune.trainers.trainer import trainer

_LEFT_OUT = ("bad", "good", "experiment", "why", "summary", "confidence", "since")
"""What no finding shows."""


def sources() -> Iterator[tuple[str, str]]:
    """The modules of a wheel and their texts: ``fp8tune._index``, and one per schema.

    A schema is read only where a config may be of its trainer, and ``_index_not_toml``
    only where a config may not be TOML: it has what lint needs of the rules of trainers
    that read no TOML. The index has their names, codes and severities.
    """
    rules = [_rule(path, category) for category, path in rule_files(builtin_folder())]
    rest = [rule for rule in rules if not _may_be_toml(rule)]
    trees = _trees(rule for rule in rules if rule not in rest)
    parts = {
        "RULES": [
            (r.category, os.path.basename(r.path), _head(r) if r in rest else _front(r))
            for r in rules
        ],
        "TREES": trees,
        "TRAINERS": list(about.parsed()),
        "FOREIGN": recognise.foreign_parsed(),
        "GPUS": gpus.parsed(),
    }
    yield "fp8tune._index", _text(parts)
    more = _trees(rest)
    parts = {
        "FRONTS": {rule.name: _front(rule) for rule in rest},
        "TREES": {source: more[source] for source in more if source not in trees},
    }
    yield "fp8tune._index_not_toml", _text(parts)
    for name in (each for known in about.trainers().values() for each in known.ids):
        known = trainer(name)
        data = schema.parsed(name)
        trees = {source: parse(source) for source in checks.conditions(data)}
        parts = {"SCHEMA": data, "NEEDS": needs_of(rules, known), "TREES": trees}
        yield about.module_of(name), _text(parts)


def _rule(path: str, category: str) -> Rule:
    with open(path, "rb") as file:
        whole = tomllib.load(file)
    front = {key: value for key, value in whole.items() if key not in _LEFT_OUT}
    rule = Rule(path, category, front)
    rule.front = front
    return rule


def _head(rule: Rule) -> dict[str, Any]:
    return {key: rule.front[key] for key in ("name", "code", "severity")}


def _front(rule: Rule) -> dict[str, Any]:
    return {**rule.front, "guard": rule.guard}


def _trees(rules: Iterable[Rule]) -> dict[str, Tree]:
    """Return the trees of all expressions of rules."""
    KNOWN.clear()
    for rule in rules:
        _compile(rule)
    return dict(KNOWN)


def _may_be_toml(rule: Rule) -> bool:
    """Whether a trainer that the rule is for reads TOML."""
    known = about.trainers()
    return not rule.trainers or any(
        "toml" in known[name].formats for name in rule.trainers
    )


def _text(parts: dict[str, Any]) -> str:
    return "".join(f"{name} = {value!r}\n" for name, value in parts.items())


def _compile(rule: Rule) -> None:
    """Compile all expressions of a rule, so that their trees are cached."""
    if rule.source:
        _ = rule.when, rule.guard and (rule.guarding, rule.rest)
        _ = rule.same and rule.compared
    _ = rule.message, rule.help, rule.fixes, [*map(rule.label, range(len(rule.at)))]
