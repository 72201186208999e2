"""Count how often each rule fired, and in how many files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fp8tune.lint.run import Result


class Row(NamedTuple):
    """The findings of one rule at one level, and the files that have one."""

    rule: str
    code: str
    category: str
    severity: str
    findings: int
    files: int


def total(result: Result) -> dict[str, int]:
    """Return the number of findings, and of files that have one."""
    files = sum(bool(report.diagnostics) for report in result.reports)
    return {"findings": sum(1 for _ in result.diagnostics), "files": files}


def totals(result: Result) -> list[Row]:
    """Return one row per rule that fired, the most frequent first."""
    paths: dict[tuple[str, str, str, str], list[str]] = {}
    for found in result.diagnostics:
        rule = (found.rule, found.code, found.category, found.severity)
        paths.setdefault(rule, []).append(found.path)
    rows = [Row(*rule, len(hits), len(set(hits))) for rule, hits in paths.items()]
    return sorted(rows, key=lambda row: (-row.findings, row.rule, row.severity))


def table(result: Result) -> Iterator[str]:
    """Yield the rows as aligned lines, the total last; nothing if no rule fired."""
    rows = totals(result)
    if not rows:
        return
    yield "findings  files  level    rule"
    for row in rows:
        name = f"{row.severity:7}  {row.rule} ({row.code})"
        yield f"{row.findings:>8}  {row.files:>5}  {name}"
    yield "{findings:>8}  {files:>5}  in all".format(**total(result))
