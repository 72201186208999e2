"""Show the result of a run: for people, for editors, for programs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any, TextIO

from fp8tune.lint.diagnostic import Diagnostic
from fp8tune.lint.run import Result
from fp8tune.lint.wording import plain

MAX_PER_FILE = 100
"""Findings shown in full for one file; the rest is counted."""

_SUPPLY = {
    "gpu": "the GPU: add --gpu h100, or `# fp8tune: gpu=h100` above the first table",
    "world_size": "the number of GPUs: add --world-size 16, or "
    "`# fp8tune: world-size=16` above the first table",
}


def show(
    result: Result, output_format: str, *, quiet: bool, out: TextIO, err: TextIO
) -> None:
    """Write the result in one of the formats ``full``, ``concise`` and ``json``."""
    for line in result.unread:
        print(f"fp8tune: {plain(line)}", file=err)
    if output_format == "json":
        _json(result, out)
        return
    notes = err if output_format == "concise" else out
    if output_format == "concise":
        for found in result.diagnostics:
            print(_concise(found), file=out)
    else:
        _full(result, out)
    if not quiet:
        for line in summary(result):
            print(line, file=notes)


def _concise(found: Diagnostic) -> str:
    line, column = found.region[:2]
    where = f"{plain(found.path)}:{line}:{column}"
    return f"{where}: {found.severity}[{found.rule}] {plain(found.message)}"


def _full(result: Result, out: TextIO) -> None:
    from fp8tune.lint.snippet import Painter

    painter = Painter(colour=wants_colour(out))
    for report in result.reports:
        for found in report.diagnostics[:MAX_PER_FILE]:
            print(painter.finding(found, report.lines), file=out)
        more = len(report.diagnostics) - MAX_PER_FILE
        if more > 0:
            print(f"... and {more} more in {plain(report.path)}\n", file=out)


def wants_colour(stream: TextIO) -> bool:
    """Colour on a terminal; NO_COLOR and FORCE_COLOR decide before that."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def summary(result: Result) -> Iterator[str]:
    """What was found, what was skipped, and what could not be judged."""
    checked = [report for report in result.reports if not report.skipped]
    levels = Counter(found.severity for found in result.diagnostics)
    files = count(len(checked), "file")
    if levels:
        words = ", ".join(
            count(levels[level], level)
            for level in ("error", "warning", "note")
            if levels[level]
        )
        hit = sum(bool(report.diagnostics) for report in checked)
        yield f"{words} in {hit} of {files}"
    elif checked:
        yield f"no findings in {files}"
    elif not result.unread:
        yield "no train configs found"
    yield from _skipped(result)
    yield from _unjudged(result)


def _skipped(result: Result) -> Iterator[str]:
    skipped = [report for report in result.reports if report.skipped]
    if len(skipped) <= 3:
        for report in skipped:
            yield f"skipped {plain(report.path)}: {report.skipped}"
        return
    kinds = Counter(report.skipped for report in skipped)
    words = ", ".join(f"{number} x {kind}" for kind, number in sorted(kinds.items()))
    yield f"skipped {len(skipped)} files: {words}"


def _unjudged(result: Result) -> Iterator[str]:
    for fact, advice in _SUPPLY.items():
        rules = {
            rule
            for report in result.reports
            for rule, missing in report.unjudged.items()
            if missing == fact
        }
        files = sum(fact in report.unjudged.values() for report in result.reports)
        if rules:
            where = count(files, "file")
            verb = "needs" if len(rules) == 1 else "need"
            yield f"not judged: {count(len(rules), 'rule')} in {where} {verb} {advice}"


def count(number: int, noun: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _json(result: Result, out: TextIO) -> None:
    import json

    checked = [report for report in result.reports if not report.skipped]
    data = {
        "version": 1,
        "files": len(checked),
        "diagnostics": [_json_finding(found) for found in result.diagnostics],
        "unjudged": [
            {"path": report.path, "rule": rule, "needs": fact.replace("_", "-")}
            for report in checked
            for rule, fact in report.unjudged.items()
        ],
        "skipped": [
            {"path": report.path, "reason": report.skipped}
            for report in result.reports
            if report.skipped
        ],
    }
    json.dump(data, out, indent=2)
    out.write("\n")


def _json_finding(found: Diagnostic) -> dict[str, Any]:
    return {
        "path": found.path,
        "rule": found.rule,
        "code": found.code,
        "category": found.category,
        "severity": found.severity,
        "key": found.key,
        **found.region._asdict(),
        "message": found.message,
        "labels": [
            {"key": label.key, **label.region._asdict(), "text": label.text}
            for label in found.labels
        ],
        "help": found.help,
        "fix": None,
        "url": found.url,
    }
