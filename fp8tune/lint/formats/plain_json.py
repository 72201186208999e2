"""One JSON object, version 1: keys may be added, none is removed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from fp8tune.job import TARGETS
from fp8tune.lint.diagnostic import Diagnostic, Fix, Label, Report, Suppressed
from fp8tune.lint.formats.address import well_formed
from fp8tune.lint.run import Result


def render(result: Result, *, statistics: bool) -> str:
    """Return everything that a run found, for programs."""
    return json.dumps(dict(_document(result, statistics)), indent=2) + "\n"


def _document(result: Result, statistics: bool) -> Iterator[tuple[str, Any]]:
    checked = [report for report in result.reports if not report.skipped]
    yield "version", 1
    yield "files", len(checked)
    yield "diagnostics", [_finding(found) for found in result.diagnostics]
    yield (
        "unjudged",
        [
            {
                "path": well_formed(report.path),
                "rule": rule,
                "needs": fact.replace("_", "-") if fact in TARGETS else fact,
                **_why(report, rule),
            }
            for report in checked
            for rule, fact in report.unjudged.items()
        ],
    )
    yield (
        "skipped",
        [
            {"path": well_formed(report.path), "reason": report.skipped}
            for report in result.reports
            if report.skipped
        ],
    )
    held = [held for report in checked for held in report.suppressed]
    yield "suppressed", list(map(_suppressed, held))
    yield "fixed", [_finding(found) for report in checked for found in report.fixed]
    yield "stale", list(map(well_formed, result.stale))
    if statistics:
        yield "statistics", _statistics(result)


def _why(report: Report, rule: str) -> dict[str, str]:
    """Return why a rule was not checked, if no user can supply the fact."""
    _, reason = report.gaps.get(rule, ("", ""))
    return {"reason": reason} if reason else {}


def _finding(found: Diagnostic) -> dict[str, Any]:
    return {
        "path": well_formed(found.path),
        "rule": found.rule,
        "code": found.code,
        "category": found.category,
        "severity": found.severity,
        "key": found.key,
        **found.region._asdict(),
        "message": found.message,
        "labels": list(map(_label, found.labels)),
        "help": found.help,
        "fix": found.fix and fix_data(found.fix),
        "url": found.url,
    }


def _label(label: Label) -> dict[str, Any]:
    """Return a label, with the argument that sets its value or its other file."""
    argument = {"argument": label.argument.text} if label.argument else {}
    path = {"path": well_formed(label.path)} if label.path else {}
    return {
        **path,
        "key": label.key,
        **label.region._asdict(),
        "text": label.text,
        **argument,
    }


def fix_data(fix: Fix) -> dict[str, Any]:
    """Return a fix for programs."""
    changes = {"changes": fix.changes} if fix.changes else {}
    not_applied = {"not_applied": fix.not_applied} if fix.not_applied else {}
    return {
        "safety": fix.safety,
        "title": fix.title,
        **changes,
        **not_applied,
        "edits": [{**edit.region._asdict(), "text": edit.text} for edit in fix.edits],
    }


def _suppressed(held: Suppressed) -> dict[str, Any]:
    return {**_finding(held.finding), "kind": held.kind, "reason": held.reason}


def _statistics(result: Result) -> dict[str, Any]:
    from fp8tune.lint.statistics import total, totals

    rules = [row._asdict() for row in totals(result)]
    return {**total(result), "rules": rules}
