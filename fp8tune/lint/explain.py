"""Pages of rules, config keys and facts, as text."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator

from fp8tune.facts import FACTS
from fp8tune.job import FIELDS
from fp8tune.lint.examples import plain_config
from fp8tune.lint.rules import Rule, read_builtin
from fp8tune.lint.wording import shown
from fp8tune.suggest import closest
from fp8tune.trainers.schema import Key
from fp8tune.trainers.trainer import NAMES, trainer


def explain(name: str) -> str | None:
    """The page of a rule, a key or a fact; ``None`` if there is no such name."""
    for rule in read_builtin():
        if name in (rule.name, rule.code):
            return rule_page(rule)
    keys = _keys().get(name)
    if keys is not None:
        return "\n".join(_key_page(name, *keys))
    if name in FACTS:
        doc = inspect.getdoc(FACTS[name].call) or ""
        dotted = {fact.replace(".", "_"): fact for fact in FACTS}
        inputs = ", ".join(dotted.get(word, word) for word in FACTS[name].parameters)
        return f"{name}\n\n{doc}\n\nfrom: {inputs}"
    return f"{name}\n\n{FIELDS[name]}" if name in FIELDS else None


def nearest(name: str) -> str:
    """The name most like ``name`` that has a page."""
    names = [word for rule in read_builtin() for word in (rule.name, rule.code)]
    return closest(name, (*names, *_keys(), *FACTS, *FIELDS))


def rule_page(rule: Rule) -> str:
    """The page of a rule."""
    what = rule.summary
    meta = f"{rule.category}, {rule.severity}, confidence {rule.confidence}"
    who = f" of {trainer(rule.trainer).schema.title} configs" if rule.trainer else ""
    parts = [
        f"{rule.name} ({rule.code})",
        what,
        f"{meta}; checks{who or ' all configs'}",
    ]
    if rule.source:
        parts.append(f"when: {rule.source}")
    if rule.why:
        parts.append(rule.why.strip())
    if rule.bad:
        parts.append(f"Fires on:\n\n{_indented(plain_config(rule.bad[0]))}")
    if rule.good:
        parts.append(f"Silent on:\n\n{_indented(plain_config(rule.good[0]))}")
    references = "\n".join(f"  {address}" for address in rule.references)
    parts.append(f"Evidence:\n{references}")
    return "\n\n".join(parts)


def _indented(text: str) -> str:
    return textwrap.indent(text.strip("\ufeff\n"), "    ")


def _keys() -> dict[str, tuple[str, Key]]:
    return {
        name: (trainer_name, key)
        for trainer_name in NAMES
        for name, key in trainer(trainer_name).schema.dotted_keys()
    }


def _key_page(name: str, trainer_name: str, key: Key) -> Iterator[str]:
    owner = trainer(trainer_name)
    yield f"{name} ({owner.schema.title})"
    yield ""
    yield key.doc
    yield ""
    yield f"type: {key.base if not key.allowed else 'one of ' + shown(key.allowed)}"
    yield f"default: {shown(key.effective_default)}"
    rules = [
        rule.name
        for rule in read_builtin()
        if rule.source
        and name in _rule_keys(rule)
        and rule.trainer in ("", trainer_name)
    ]
    if rules:
        yield f"rules: {', '.join(rules)}"
    yield f"source: {owner.schema.source}"


def _rule_keys(rule: Rule) -> set[str]:
    words = trainer(rule.trainer or NAMES[0]).vocabulary
    return {key for name in rule.when.names for key in words.origins(name)}
