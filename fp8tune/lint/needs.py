"""Find the keys that a config must set before a rule can fire on it.

Most conditions are false on an empty config, and a config sets few keys. A part of an
``and`` that is false or unknown by default stays so until a key that it depends on is
set. Until then the rule need not be evaluated. The keys are computed once, when the
wheel is built.
"""

from __future__ import annotations

from collections.abc import Iterable

from fp8tune.conditions import Tree, parse
from fp8tune.conditions.expression import Expression, compile_tree
from fp8tune.job import Target, Unknown, Vocabulary
from fp8tune.lint.rules import Rule
from fp8tune.lint.ruleset import Needs
from fp8tune.lint.scope import ON_SCOPE
from fp8tune.trainers.trainer import Trainer


def needs_of(rules: Iterable[Rule], known: Trainer) -> Needs:
    """What the rules on a trainer's jobs need of a config, and which keys bring it.

    Each list of keys of which a rule needs one is a bit, shared by all rules.
    """
    bits: dict[tuple[str, ...], int] = {}
    needed: dict[str, int] = {}
    for rule in rules:
        if rule.source and rule.is_for(known.id):
            lists = {*map(tuple, needs(rule, known))}
            mine = [bits.setdefault(keys, 1 << len(bits)) for keys in sorted(lists)]
            needed[rule.name] = sum(mine)
    brings: dict[str, int] = {}
    for keys, bit in bits.items():
        for key in keys:
            brings[key] = brings.get(key, 0) | bit
    return brings, needed


def needs(rule: Rule, known: Trainer) -> list[list[str]]:
    """Lists of keys: a config without faults that meets the rule writes one of each.

    ``key=value`` is a key that has to have this value.
    """
    job = known.job(known.load({}), Target())
    parts = [
        (tree, compile_tree(tree, rule.source, rule.knows, ON_SCOPE))
        for tree in _parts(parse(rule.source))
    ]
    keys = [_keys(part, known.vocabulary) for _, part in parts]
    found = []
    for (tree, part), mine in zip(parts, keys, strict=True):
        try:
            holds = not mine or part.evaluate(job)
        except Unknown:  # so is the rule, but it may also need a named GPU
            holds = not all(keys)
        if not holds:
            found.append(_one_value(known, tree) or _brought_by(known, mine))
    return found


def _parts(tree: Tree) -> tuple[Tree, ...]:
    """Return the parts of a condition that must all be true."""
    return tree[1:] if tree[0] == "and" else (tree,)


def _keys(part: Expression, words: Vocabulary) -> set[str]:
    """Return the config keys that a part depends on; empty if not only on keys."""
    keys = {key for name in part.names for key in words.origins(name)}
    asks = any(map(words.asks_job, part.names))
    return keys if keys <= words.keys and not asks else set()


def _one_value(known: Trainer, tree: Tree) -> list[str]:
    """Return the key and the value of ``name == "value"``, if the name is a key's."""
    match tree:
        case ("compare", ("name", str(name), _), "==", ("constant", str(value))):
            key = known.vocabulary.key(name)
            section, _, rest = key.partition(".")
            if rest.isidentifier() and section not in known.optional_sections:
                return [f"{key}={value}"]
    return []


def _brought_by(known: Trainer, keys: set[str]) -> list[str]:
    """Return the keys, and the tables that give them a default if they are not set.

    A section may also bring the defaults of another, optional one.
    """
    tables = {key.rpartition(".")[0] for key in keys if key.count(".") > 1}
    sections = {key.partition(".")[0] for key in keys}
    optional = known.optional_sections
    brought = set() if optional.isdisjoint(sections) else optional
    return sorted(keys | tables | brought)
