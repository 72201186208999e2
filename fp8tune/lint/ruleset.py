"""The selected rules of a run, by what makes them fire."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from importlib import import_module

from fp8tune.lint.diagnostic import Diagnostic, Label
from fp8tune.lint.rules import Rule
from fp8tune.trainers.about import module_of
from fp8tune.trainers.faults import Loaded
from fp8tune.trainers.trainer import Trainer

Needs = tuple[dict[str, int], dict[str, int]]
"""The bits that keys of a config bring (``key=value``: with that value), and by name
those that a rule needs: a config without faults that meets it brings them all."""


class Rules:
    """The selected rules of a run, by what makes them fire.

    ``names`` are those of all rules, selected or not, with their codes;
    ``known`` are the names alone. ``needs_of`` says what rules need of a config, if not
    the wheel.
    """

    def __init__(
        self,
        rules: list[Rule],
        severity: dict[str, str],
        every: Iterable[Rule] = (),
        needs_of: Callable[[Trainer], Needs] | None = None,
    ) -> None:
        self.rules = rules
        self.selected = frozenset(rule.name for rule in rules)
        self.on_two_files = frozenset(rule.name for rule in rules if rule.same)
        self.by_name = {rule.name: rule for rule in rules}
        self.names = {rule.name: rule.code for rule in every or rules}
        self.known = frozenset(self.names)
        self.by_fault: dict[str, list[Rule]] = {}
        for rule in rules:
            if rule.fault:
                self.by_fault.setdefault(rule.fault, []).append(rule)
        self.severity = severity
        self._conditions: dict[str, _Conditions] = {}
        self._needs_of = needs_of or _needs_by_wheel

    def conditions(self, known: Trainer) -> _Conditions:
        """Return the rules with a condition on the jobs of a trainer's version."""
        if known.id not in self._conditions:
            needs = self._needs_of(known)
            self._conditions[known.id] = _Conditions(self.rules, known, needs)
        return self._conditions[known.id]

    def named(self, names: Container[str]) -> Iterator[Rule]:
        """Return those of the selected rules with these names."""
        return (rule for rule in self.rules if rule.name in names)

    def diagnostic(
        self,
        path: str,
        rule: Rule,
        message: str,
        help_line: str,
        labels: tuple[Label, ...],
    ) -> Diagnostic:
        """Return a finding of a rule, with the severity that it has in this run."""
        severity = self.severity.get(rule.name, rule.severity)
        url = rule.references[0] if rule.references else ""
        return Diagnostic(
            path=path,
            rule=rule.name,
            code=rule.code,
            category=rule.category,
            severity=severity,
            message=message,
            help=help_line,
            url=url,
            labels=labels,
            page="" if rule.builtin else url,
        )


def _needs_by_wheel(known: Trainer) -> Needs:
    """Return what each built-in rule needs of a trainer's config; not in a checkout."""
    try:
        needs: Needs = import_module(module_of(known.id)).NEEDS
    except ImportError:
        return {}, {}
    return needs


class _Conditions:
    """The rules with a condition on the jobs of one trainer."""

    def __init__(self, rules: Iterable[Rule], known: Trainer, needs: Needs) -> None:
        self.rules = [rule for rule in rules if rule.source and rule.is_for(known.id)]
        self._brings, by_name = needs
        self._needs = [(r, r.builtin and by_name.get(r.name, 0)) for r in self.rules]
        self._needing: dict[int, list[Rule]] = {}
        self._valued = {key.partition("=")[0] for key in self._brings if "=" in key}

    def needing(self, loaded: Loaded) -> list[Rule]:
        """Return the rules whose needed keys a config sets."""
        there, brings = 0, self._brings
        for key in loaded.written & brings.keys():
            there |= brings[key]
        for key in loaded.written & self._valued:
            value = loaded.values.get(key)
            if isinstance(value, str):
                there |= brings.get(f"{key}={value}", 0)
        rules = self._needing.get(there)
        if rules is None:
            rules = [rule for rule, needs in self._needs if needs & there == needs]
            self._needing[there] = rules
        return rules
