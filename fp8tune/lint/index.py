"""Write rules, schemas and GPUs as a module for wheels (``fp8tune/build_hook.py``)."""

from __future__ import annotations

import os
import tomllib

from fp8tune.facts import gpus
from fp8tune.lint.builtin import builtin_folder, rule_files
from fp8tune.lint.needs import needs
from fp8tune.lint.rules import Rule
from fp8tune.lint.syntax import KNOWN
from fp8tune.trainers import schema
from fp8tune.trainers.trainer import NAMES

_LEFT_OUT = ("bad", "good", "experiment", "why", "summary", "confidence", "since")
"""What no finding shows."""


def source() -> str:
    """Return the text of ``fp8tune/_index.py``."""
    rules = []
    KNOWN.clear()
    for category, path in rule_files(builtin_folder()):
        with open(path, "rb") as file:
            whole = tomllib.load(file)
        front = {key: value for key, value in whole.items() if key not in _LEFT_OUT}
        rule = Rule(path, category, front)
        _compile(rule)
        entry = {**front, "guard": rule.guard, "needs": needs(rule)}
        rules.append((category, os.path.basename(path), entry))
    schemas = {name: schema.parsed(name) for name in NAMES}
    parts = {
        "RULES": rules,
        "TREES": KNOWN,
        "SCHEMAS": schemas,
        "GPUS": gpus.parsed(),
    }
    return "".join(f"{name} = {value!r}\n" for name, value in parts.items())


def _compile(rule: Rule) -> None:
    """Compile all expressions of a rule, so that their trees are cached."""
    if rule.source:
        _ = rule.when, rule.guard and (rule.guarding, rule.rest)
        _ = rule.same and rule.compared
    _ = rule.message, rule.help, rule.fixes, [*map(rule.label, range(len(rule.at)))]
