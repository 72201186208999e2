"""Find rule files, and read the built-in rules from the wheel's index or from files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from fp8tune.lint.rules import CATEGORIES, Rule, read_text

_NAMES = "name|code|severity|fp8|trainer|fault|when|same|differs"
_HEAD = rf"""(?m)^({_NAMES}) = (["'])(.*)\2$"""
_TRAINERS = r"(?m)^trainer = \[(.*)\]$"
_RELEASES = r"(?m)^releases = \{(.*)\}$"

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


def read_builtin() -> list[Rule]:
    """Return the built-in rules; they are not checked here, but by tests."""
    folder = builtin_folder()
    try:
        from fp8tune._index import RULES
    except ImportError:  # in a checkout
        return [_builtin(path, category) for category, path in rule_files(folder)]
    return [
        indexed(f"{folder}/{category}/{name}", category, head, stored)
        for category, name, head, stored in RULES
    ]


def _builtin(path: str, category: str) -> Rule:
    """Return a rule of a checkout, parsing only the head of its file."""
    text = read_text(path)
    head, _, _ = text.partition("\n[[")
    fields: dict[str, Any] = {m[1]: m[3] for m in re.finditer(_HEAD, head)}
    if match := re.search(_TRAINERS, head):
        fields["trainer"] = re.findall('"([^"]*)"', match[1])
    if match := re.search(_RELEASES, head):
        fields["releases"] = dict(re.findall(r'(\w+) = "([^"]*)"', match[1]))
    rule = Rule(path, category, fields, text)
    rule.builtin = True
    return rule


def indexed(
    path: str, category: str, head: dict[str, Any], stored: tuple[bytes, bytes]
) -> Rule:
    """Return a rule of an installed wheel; its file is read only for its page."""
    rule = Rule(path, category, head, stored=stored)
    rule.builtin = True
    return rule
