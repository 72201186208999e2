"""Annotations of GitHub Actions: workflow commands on stdout.

Form and escapes: https://docs.github.com/actions/reference/workflow-commands and
https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fp8tune.lint.diagnostic import Diagnostic
from fp8tune.lint.formats.address import from_root
from fp8tune.lint.run import Result
from fp8tune.words import plain

MAX_SHOWN = 10
"""Annotations of one level that GitHub shows for a step."""

_COMMAND = {"error": "error", "warning": "warning", "note": "notice"}


def render(result: Result) -> str:
    """Return a command per finding, the worst first: GitHub shows a limited number."""
    order = list(_COMMAND)
    found = sorted(result.diagnostics, key=lambda d: order.index(d.severity))
    return "".join(f"{line}\n" for line in _lines(result, found))


def _lines(result: Result, findings: list[Diagnostic]) -> Iterator[str]:
    stale = (f"stale: {line}" for line in result.stale)
    for line in (*result.unread, *stale):
        yield f"::error title=fp8tune::{_data(plain(line))}"
    yield from map(_annotation, findings)
    levels = Counter(found.severity for found in findings)
    if any(number > MAX_SHOWN for number in levels.values()):
        yield f"GitHub shows {MAX_SHOWN} annotations of a level; the log has all"


def _annotation(found: Diagnostic) -> str:
    path = plain(from_root(found.path))
    region = found.region
    where = {"file": path, "line": region.line, "endLine": region.end_line}
    if region.line == region.end_line:  # GitHub accepts columns only within one line
        where |= {"col": region.column, "endColumn": region.end_column}
    where["title"] = f"{found.rule} ({found.code})"
    properties = ",".join(f"{name}={_property(str(v))}" for name, v in where.items())
    text = "\n".join(_text(found, f"{path}:{region.line}:{region.column}"))
    return f"::{_COMMAND[found.severity]} {properties}::{_data(text)}"


def _text(found: Diagnostic, where: str) -> Iterator[str]:
    """Yield the finding in words, because a log does not show the properties."""
    yield f"{where}: {plain(found.message)}"
    for label in found.labels:
        if label.text:
            where = f"{plain(label.path)} " * bool(label.path)
            yield f"{where}line {label.region.line}: {plain(label.text)}"
    if found.help:
        yield f"help: {plain(found.help)}"
    yield f"why: {plain(found.page) or f'fp8tune explain {found.rule}'}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
