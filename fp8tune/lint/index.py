"""Rules, schemas and GPUs as modules, for wheels: see ``fp8tune/build_hook.py``."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from typing import Any

from fp8tune.facts import gpus
from fp8tune.lint.builtin import builtin_folder, rule_files
from fp8tune.lint.needs import needs_of
from fp8tune.lint.rules import Rule
from fp8tune.lint.syntax import KNOWN
from fp8tune.trainers import about, recognise, schema
from fp8tune.trainers.trainer import trainer

_LEFT_OUT = ("bad", "good", "experiment", "why", "summary", "confidence", "since")
"""What no finding shows."""


def sources() -> Iterator[tuple[str, str]]:
    """The modules of a wheel and their texts: ``fp8tune._index``, and one per schema.

    A schema is read only where a config may be of its trainer.
    """
    rules, compiled = [], []
    KNOWN.clear()
    for category, path in rule_files(builtin_folder()):
        with open(path, "rb") as file:
            whole = tomllib.load(file)
        front = {key: value for key, value in whole.items() if key not in _LEFT_OUT}
        rule = Rule(path, category, front)
        _compile(rule)
        compiled.append(rule)
        entry = {**front, "guard": rule.guard}
        rules.append((category, os.path.basename(path), entry))
    parts = {
        "RULES": rules,
        "TREES": KNOWN,
        "TRAINERS": list(about.parsed()),
        "FOREIGN": recognise.foreign_parsed(),
        "GPUS": gpus.parsed(),
    }
    yield "fp8tune._index", _text(parts)
    for name in (each for known in about.trainers().values() for each in known.ids):
        known = trainer(name)
        parts = {"SCHEMA": schema.parsed(name), "NEEDS": needs_of(compiled, known)}
        yield about.module_of(name), _text(parts)


def _text(parts: dict[str, Any]) -> str:
    return "".join(f"{name} = {value!r}\n" for name, value in parts.items())


def _compile(rule: Rule) -> None:
    """Compile all expressions of a rule, so that their trees are cached."""
    if rule.source:
        _ = rule.when, rule.guard and (rule.guarding, rule.rest)
        _ = rule.same and rule.compared
    _ = rule.message, rule.help, rule.fixes, [*map(rule.label, range(len(rule.at)))]
