"""Share out the findings of a job of several files over these files."""

from __future__ import annotations

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
    if first:
        return report._replace(diagnostics=found, lines=lines)
    return Report(place.part.path, found, lines=lines, fail_on=report.fail_on)


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
