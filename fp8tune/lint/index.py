"""Rules and schemas as a Python module, for wheels: see ``fp8tune/build_hook.py``."""

from __future__ import annotations

import os
import tomllib

from fp8tune.lint.builtin import builtin_folder, rule_files
from fp8tune.lint.rules import Rule
from fp8tune.lint.syntax import Tree, parse
from fp8tune.trainers import schema
from fp8tune.trainers.trainer import NAMES

_LEFT_OUT = ("bad", "good", "experiment", "why", "summary", "confidence", "since")
"""What no finding shows."""


def source() -> str:
    """The text of ``fp8tune/_index.py``."""
    rules = []
    trees: dict[str, Tree] = {}
    for category, path in rule_files(builtin_folder()):
        with open(path, "rb") as file:
            whole = tomllib.load(file)
        front = {key: value for key, value in whole.items() if key not in _LEFT_OUT}
        rule = Rule(path, category, front)
        for condition in filter(
            None, {rule.source, rule.same, rule.differs, *rule.parts}
        ):
            trees[condition] = parse(condition)
        entry = {**front, "guard": rule.guard}
        rules.append((category, os.path.basename(path), entry))
    schemas = {name: schema.parsed(name) for name in NAMES}
    return f"RULES = {rules!r}\nTREES = {trees!r}\nSCHEMAS = {schemas!r}\n"
