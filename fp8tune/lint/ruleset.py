"""The selected rules of a run, by what makes them fire."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from fp8tune.lint.diagnostic import Diagnostic, Label
from fp8tune.lint.rules import Rule
from fp8tune.trainers.faults import Loaded
from fp8tune.trainers.trainer import NAMES


class Rules:
    """The selected rules of a run, by what makes them fire.

    ``names`` are those of all rules, selected or not, with their codes;
    ``known`` are only the names.
    """

    def __init__(
        self,
        rules: list[Rule],
        severity: dict[str, str],
        every: Iterable[Rule] = (),
    ) -> None:
        self.rules = rules
        self.selected = frozenset(rule.name for rule in rules)
        self.on_two_files = frozenset(rule.name for rule in rules if rule.same)
        self.names = {rule.name: rule.code for rule in every or rules}
        self.known = frozenset(self.names)
        self.by_fault: dict[str, list[Rule]] = {}
        for rule in rules:
            if rule.fault:
                self.by_fault.setdefault(rule.fault, []).append(rule)
        self.severity = severity
        self.conditions = {name: _Conditions(rules, name) for name in NAMES}

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
            path,
            rule.name,
            rule.code,
            rule.category,
            severity,
            message,
            help_line,
            url,
            labels,
            "" if rule.builtin else url,
        )


class _Conditions:
    """The rules with a condition on the jobs of one trainer.

    Each list of keys of which a rule needs one is a bit, shared by all rules.
    """

    def __init__(self, rules: Iterable[Rule], trainer: str) -> None:
        mine = ("", trainer)
        self.rules = [rule for rule in rules if rule.source and rule.trainer in mine]
        bits: dict[tuple[str, ...], int] = {}
        for rule in self.rules:
            for keys in map(tuple, rule.needs):
                bits.setdefault(keys, 1 << len(bits))
        self._needs = [
            (rule, sum(bits[keys] for keys in {*map(tuple, rule.needs)}))
            for rule in self.rules
        ]
        self._needing: dict[int, list[Rule]] = {}
        self._brings: dict[str, int] = {}
        for keys, bit in bits.items():
            for key in keys:
                self._brings[key] = self._brings.get(key, 0) | bit
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
