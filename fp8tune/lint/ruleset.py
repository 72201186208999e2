"""The rules that a run selected, by what makes them fire."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from fp8tune.lint.rules import Rule


class Rules:
    """The rules of a run, by what makes them fire.

    ``names`` are those of all rules, selected or not, with their codes;
    ``known`` are the names alone.
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
        groups: dict[tuple[str, str], list[Rule]] = {}
        for rule in rules:
            if rule.source:
                groups.setdefault((rule.trainer, rule.guard), []).append(rule)
        self.conditions = groups
        self.severity = severity

    def named(self, names: Container[str]) -> Iterator[Rule]:
        """Those of the selected rules with these names."""
        return (rule for rule in self.rules if rule.name in names)
