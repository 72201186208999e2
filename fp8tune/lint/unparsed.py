"""The report on a file that does not parse."""

from __future__ import annotations

from typing import Any

from fp8tune.formats.document import InvalidText
from fp8tune.job import Words
from fp8tune.lint.diagnostic import Label, Region, Report
from fp8tune.lint.ruleset import Rules


def report(path: str, error: InvalidText, rules: Rules) -> Report:
    """Return the report on a file that is not of its format."""
    line, column = error.position
    label = Label("", Region(line, column, line, column + 1), "here")
    reason, hint = Words(error.reason), Words(error.hint)
    scope: Any = {"fault.reason": reason, "fault.hint": hint}
    diagnostics = [
        rules.diagnostic(
            path, rule, rule.message.fill(scope), rule.help.fill(scope), (label,)
        )
        for rule in rules.by_fault.get(f"invalid-{error.format}", ())
    ]
    lines = error.text.split("\n")
    text = lines[line - 1].rstrip("\r") if line <= len(lines) else ""
    return Report(path, diagnostics, lines={line: text} if diagnostics else {})
