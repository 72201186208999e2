"""Lint what fp8tune itself wrote: which findings of a changed config are new."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

from fp8tune.config.settings import BadSettings, settings_for
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.diagnostic import Diagnostic, Report
from fp8tune.lint.ruleset import Rules
from fp8tune.lint.selection import selected


def rules_for(path: str) -> Rules:
    """Return the rules for a file at ``path``, without those its project ignores."""
    try:
        ignored = settings_for(os.path.dirname(os.path.abspath(path))).ignore
    except BadSettings:
        ignored = ()
    every = read_builtin()
    kept = [r for r in every if not any(selected(r, by) for by in ignored)]
    return Rules(kept, {}, every)


def new_findings(before: Report, after: Report) -> Iterator[Diagnostic]:
    """Yield the findings of a changed job that the job before did not have."""
    old, new = _by_line(before), _by_line(after)
    # a finding that was there before is not new, even on a changed line
    moved = Counter(key[0] for key in old if key not in new)
    for key, finding in new.items():
        if key in old:
            continue
        if moved[finding.rule]:
            moved[finding.rule] -= 1
        else:
            yield finding


def _by_line(report: Report) -> dict[tuple[str, str, str], Diagnostic]:
    """Return the first finding of each rule, file, and text of a line."""
    findings: dict[tuple[str, str, str], Diagnostic] = {}
    for each in (report, *report.beside):
        for finding in each.diagnostics:
            text = each.lines.get(finding.region.line, "")
            findings.setdefault((finding.rule, finding.path, text), finding)
    return findings
