"""Findings as a report has them, and the report on a file that is no TOML."""

from __future__ import annotations

from typing import Any

from fp8tune.job import Words
from fp8tune.lint.diagnostic import Diagnostic, Label, Region, Report
from fp8tune.lint.rules import Rule
from fp8tune.lint.ruleset import Rules
from fp8tune.toml.document import InvalidToml


def invalid(path: str, error: InvalidToml, rules: Rules) -> Report:
    """The report on a file that is no TOML."""
    from fp8tune.lint.bare import advice

    line, column = error.position
    label = Label("", Region(line, column, line, column + 1), "here")
    hint = Words(advice(error))
    scope: Any = {"fault.reason": Words(error.reason), "fault.hint": hint}
    found = [
        diagnostic(
            path,
            rule,
            rules,
            rule.message.fill(scope),
            rule.help.fill(scope),
            (label,),
        )
        for rule in rules.by_fault.get("invalid-toml", ())
    ]
    lines = error.text.split("\n")
    shown = lines[line - 1].rstrip("\r") if line <= len(lines) else ""
    return Report(path, found, lines={line: shown} if found else {})


def diagnostic(
    path: str,
    rule: Rule,
    rules: Rules,
    message: str,
    help_line: str,
    labels: tuple[Label, ...],
) -> Diagnostic:
    """A finding of a rule, with the severity that the run gives it."""
    severity = rules.severity.get(rule.name, rule.severity)
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
