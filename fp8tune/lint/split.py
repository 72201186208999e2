"""Share out the findings of a job of several files over these files."""

from __future__ import annotations

import os
from collections.abc import Iterable

from fp8tune.formats.joined import Joined, Place
from fp8tune.lint.diagnostic import Change, Diagnostic, Fix, Label, Region, Report

ABOUT_COMMENTS = frozenset(("unused-ignore", "expired-ignore"))
"""Rules on comments: those of another file are judged where that file is checked."""


def split(report: Report, files: Joined) -> Report:
    """Return the report of the first file; its ``beside`` has those of the others.

    A finding belongs to the file of its primary span. Lines count in that file.
    """
    first, *beside = (_report(place, report, files) for place in files.places)
    return first._replace(beside=tuple(beside))


def _report(place: Place, report: Report, files: Joined) -> Report:
    """Return the report with the findings in one of the files."""
    first = place.part is files.parts[0]
    found = [
        _moved(one, place, files)
        for one in report.diagnostics
        if files.place(one.region.line) is place
        and (first or one.rule not in ABOUT_COMMENTS)
    ]
    shown = {x.region.line for one in found for x in one.labels if not x.path}
    lines = {n: files.lines.line(n + place.line) for n in shown}
    held = tuple(
        one._replace(finding=_moved(one.finding, place, files))
        for one in report.suppressed
        if files.place(one.finding.region.line) is place
    )
    own = report if first else Report(place.part.path, [])
    return own._replace(diagnostics=found, lines=lines, suppressed=held)


def by_file(reports: Iterable[Report]) -> list[Report]:
    """Return one report for each file; findings that several jobs have once."""
    found: dict[str, Report] = {}
    for report in reports:
        for one in (report._replace(beside=()), *report.beside):
            key = os.path.abspath(one.path)
            found[key] = _union(found[key], one) if key in found else one
    return list(found.values())


def _union(first: Report, second: Report) -> Report:
    """Return the findings of two reports on one file; the checked file's figures."""
    main, other = (first, second) if first.applied else (second, first)
    if main.fixed and not main.patch:  # the other job may have read it before
        return main
    seen = {(d.rule, d.region) for d in main.diagnostics}
    more = [d for d in other.diagnostics if (d.rule, d.region) not in seen]
    merged = sorted((*main.diagnostics, *more), key=lambda d: (d.region, d.code))
    merged = [d._replace(path=main.path) for d in merged]
    held = tuple(dict.fromkeys((*main.suppressed, *other.suppressed)))
    lines = {**other.lines, **main.lines}
    return main._replace(diagnostics=merged, lines=lines, suppressed=held)


def _moved(found: Diagnostic, place: Place, files: Joined) -> Diagnostic:
    """Return a finding with the places that it has in its own file."""
    labels = tuple(_label(label, place, files) for label in found.labels)
    fix = found.fix and _fix(found.fix, place, files)
    return found._replace(path=place.part.path, labels=labels, fix=fix)


def _label(label: Label, place: Place, files: Joined) -> Label:
    its = files.place(label.region.line)
    region = _up(label.region, its.line)
    if its is place:
        return label._replace(region=region)
    line = files.lines.line(label.region.line)
    return label._replace(region=region, path=its.part.path, line=line)


def _fix(fix: Fix, place: Place, files: Joined) -> Fix | None:
    """Return a fix that changes this one file; ``None`` if it changes another."""
    if any(files.place(edit.region.line) is not place for edit in fix.edits):
        return None
    start = files.lines.offset(place.line + 1)
    edits = (
        Change(e.start - start, e.end - start, e.text, _up(e.region, place.line))
        for e in fix.edits
    )
    return fix._replace(edits=tuple(edits))


def _up(region: Region, lines: int) -> Region:
    """Return a region that many lines further up."""
    line, column, end_line, end_column = region
    return Region(line - lines, column, end_line - lines, end_column)
