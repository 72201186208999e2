"""Select the rules of a run, by the command line and the project's settings."""

from __future__ import annotations

from collections.abc import Iterable

from fp8tune.config.settings import Options, Settings
from fp8tune.lint.rules import CATEGORIES, BadRule, Rule
from fp8tune.lint.ruleset import Rules
from fp8tune.suggest import closest


class Problem(Exception):
    """The run is impossible: bad options, settings or rules."""


def select(
    rules: list[Rule], options: Options, settings: Settings, ignored: tuple[str, ...]
) -> Rules:
    """Return the rules to check, with their severities; raises ``Problem``.

    ``ignored`` are rules that the settings exclude for the file.
    """
    _unique(rules)
    select = options.select or settings.select
    ignore = (*options.ignore, *settings.ignore, *ignored)
    for selector in (*options.select, *options.ignore):
        _known(selector, rules)
    for setting, selectors in settings.selectors:
        for selector in selectors:
            _known(selector, rules, setting)
    kept = [
        rule
        for rule in rules
        if (not select or any(selected(rule, by) for by in select))
        and not any(selected(rule, by) for by in ignore)
    ]
    severity = {
        rule.name: level
        for by, level in settings.severity
        for rule in kept
        if selected(rule, by)
    }
    return Rules(kept, severity, rules)


def selected(rule: Rule, by: str) -> bool:
    """Return whether a name, a code or its beginning, or a category selects a rule."""
    return by in (rule.name, rule.category) or (
        by.isupper() and rule.code.startswith(by)
    )


def _known(selector: str, rules: Iterable[Rule], setting: str = "") -> None:
    """Raise ``Problem`` if a selector matches no rule, naming its setting."""
    names = [name for rule in rules for name in (rule.name, rule.code)]
    if not any(selected(rule, selector) for rule in rules) and (
        selector not in CATEGORIES
    ):
        near = closest(selector, (*names, *CATEGORIES))
        hint = f"; did you mean {near}?" if near else ""
        place = f"{setting}: " if setting else ""
        raise Problem(f"{place}no rule, code or category {selector!r}{hint}")


def _unique(rules: list[Rule]) -> None:
    seen: dict[str, Rule] = {}
    for rule in rules:
        for name in (rule.name, rule.code):
            if name in seen:
                raise BadRule(f"{rule.path}: {name} is taken by {seen[name].path}")
            seen[name] = rule
