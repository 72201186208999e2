"""Find the rules and facts that depend on a name, directly or indirectly."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from fp8tune.fields import FIELDS
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.rules import Rule
from fp8tune.trainers.trainer import trainer


@cache
def below(owner: str, name: str) -> frozenset[str]:
    """Return a name and all names that its value can depend on."""
    words = trainer(owner).vocabulary
    if name in words.renamed:
        return frozenset((name, words.renamed[name]))
    if name in words.computed:
        inputs = (below(owner, each) for each in words.computed[name].parameters)
        return frozenset((name,)).union(*inputs)
    dotted = words.spelled.get(name, name)
    return frozenset((name,)) if dotted == name else below(owner, dotted)


def facts_reading(owner: str, name: str) -> list[str]:
    """Return the fields and facts that depend on a name."""
    words = trainer(owner).vocabulary
    named = sorted({*words.computed, *words.renamed, *FIELDS} - {name})
    return [each for each in named if name in below(owner, each)]


def rules_reading(owner: str, name: str) -> list[str]:
    """Return the built-in rules whose condition depends on a name."""
    return [rule.name for rule in builtin() if name in _all_below(owner, rule)]


@cache
def builtin() -> tuple[Rule, ...]:
    """Return the built-in rules (read once)."""
    return tuple(read_builtin())


@cache
def _all_below(owner: str, rule: Rule) -> frozenset[str]:
    if not rule.source or not rule.is_for(trainer(owner).id):
        return frozenset()
    names: Iterable[frozenset[str]] = (below(owner, name) for name in rule.when.names)
    return frozenset().union(*names)
