"""Find rule files, and read the built-in rules from the wheel's index or from files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from fp8tune.conditions.syntax import KNOWN
from fp8tune.lint.rules import CATEGORIES, Rule, read_text

_NAMES = "name|code|severity|fp8|trainer|fault|when|same|differs"
_HEAD = rf"""(?m)^({_NAMES}) = (["'])(.*)\2$"""
_LISTS = r"(?m)^(trainer|versions) = \[(.*)\]$"

CAUSES = "run"
"""Folder beside the rules with the causes of failed runs; they are no rules."""


def builtin_folder() -> str:
    """Return the folder of built-in rules: in the wheel, else next to the package."""
    package = os.path.dirname(os.path.dirname(__file__))
    inside = os.path.join(package, "rules")
    return inside if os.path.isdir(inside) else os.path.join(package, "..", "rules")


def rule_files(folder: str) -> Iterator[tuple[str, str]]:
    """Yield category and path of every rule file below ``folder``, sorted."""
    for category in CATEGORIES:
        place = os.path.join(folder, category)
        if os.path.isdir(place):
            for name in sorted(os.listdir(place)):
                if name.endswith(".toml"):
                    yield category, os.path.join(place, name)


def read_builtin(*, only_toml: bool = False) -> list[Rule]:
    """Return the built-in rules; they are not checked here, but by tests.

    Where all configs are TOML, a wheel need not read the conditions and messages of
    the rules of trainers that read none: these rules then have names, and never fire.
    """
    folder = builtin_folder()
    try:
        from fp8tune._index import RULES, TREES
    except ImportError:  # in a checkout
        return [_builtin(path, category) for category, path in rule_files(folder)]
    KNOWN.update(TREES)
    fronts: dict[str, dict[str, Any]] = {}
    if not only_toml:
        from fp8tune._index_not_toml import FRONTS, TREES

        KNOWN.update(TREES)
        fronts = FRONTS
    return [
        indexed(f"{folder}/{category}/{name}", category, fronts.get(head["name"], head))
        for category, name, head in RULES
    ]


def _builtin(path: str, category: str) -> Rule:
    """Return a rule of a checkout, parsing only the head of its file."""
    text = read_text(path)
    head, _, _ = text.partition("\n[[")
    fields: dict[str, Any] = {m[1]: m[3] for m in re.finditer(_HEAD, head)}
    for match in re.finditer(_LISTS, head):
        fields[match[1]] = re.findall('"([^"]*)"', match[2])
    rule = Rule(path, category, fields, text)
    rule.builtin = True
    return rule


def indexed(path: str, category: str, front: dict[str, Any]) -> Rule:
    """Return a rule of an installed wheel; its file is read only for its page."""
    rule = Rule(path, category, front)
    rule.builtin = True
    if "guard" in front:  # else the rule has only a name here
        rule.front, rule.guard = front, front["guard"]
    return rule
