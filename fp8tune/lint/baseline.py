"""A baseline: findings that a project lives with for now, and no others.

One JSON object per line, sorted, keyed by path, rule and config key, without line
numbers, so that it survives edits. An entry that is no longer found is stale and
fails: the file only ever says what is there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fp8tune import atomic
from fp8tune.lint.diagnostic import Diagnostic, Report, Suppressed

MAX_BYTES = 1 << 24
FIRST = '{"fp8tune-baseline": 1}'


class BadBaseline(Exception):
    """The baseline cannot be used: says which file, where and why."""


class Entry(NamedTuple):
    """One finding; ``path`` is relative to the baseline's folder, with slashes."""

    path: str
    rule: str
    key: str


class Held(NamedTuple):
    """Reports without what the baselines hold back, and the entries that are stale."""

    reports: list[Report]
    stale: list[str]


def read(path: str) -> dict[Entry, int]:
    """The entries of a baseline and the lines that they stand on.

    Raises ``BadBaseline``.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        how = "; write it with --update-baseline"
        hint = how if isinstance(error, FileNotFoundError) else ""
        raise BadBaseline(f"{path}: {error.strerror}{hint}") from None
    if len(data) > MAX_BYTES:
        raise BadBaseline(f"{path}: larger than {MAX_BYTES >> 20} MiB")
    lines = data.decode(errors="replace").splitlines()
    if not lines or lines[0] != FIRST:
        raise BadBaseline(f"{path}:1: no baseline of fp8tune; it begins with {FIRST}")
    return {
        _entry(path, number, line): number
        for number, line in enumerate(lines[1:], 2)
        if line.strip()
    }


def _entry(path: str, number: int, line: str) -> Entry:
    try:
        fields = json.loads(line)
        entry = Entry(**fields)
    except (ValueError, TypeError, RecursionError):
        entry = Entry("", "", "")
    if not entry.path or not all(isinstance(part, str) for part in entry):
        wanted = '{"path": ..., "rule": ..., "key": ...}'
        raise BadBaseline(f"{path}:{number}: not of the form {wanted}")
    return entry


def hold(reports: list[Report]) -> Held:
    """Take out of each report what its baseline knows; raises ``BadBaseline``."""
    paths = dict.fromkeys(r.baseline for r in reports if r.baseline)
    books = {path: read(path) for path in paths}
    used: dict[str, set[Entry]] = {path: set() for path in books}
    kept = [
        _held(report, books[report.baseline], used[report.baseline])
        if report.baseline
        else report
        for report in reports
    ]
    stale = [
        line
        for path, book in books.items()
        for line in _stale(path, book, used[path], reports)
    ]
    return Held(kept, stale)


def _held(report: Report, book: dict[Entry, int], used: set[Entry]) -> Report:
    kept, held = [], list(report.suppressed)
    for found in report.diagnostics:
        entry = _key(report.baseline, found)
        if entry in book:
            used.add(entry)
            held.append(Suppressed(found, "external", "in the baseline"))
        else:
            kept.append(found)
    return report._replace(diagnostics=kept, suppressed=tuple(held))


def _key(baseline: str, found: Diagnostic) -> Entry:
    return Entry(_relative(baseline, found.path), found.rule, found.key)


def _relative(baseline: str, path: str) -> str:
    folder = os.path.dirname(os.path.abspath(baseline))
    return os.path.relpath(os.path.abspath(path), folder).replace(os.sep, "/")


def _stale(
    path: str, book: dict[Entry, int], used: set[Entry], reports: Iterable[Report]
) -> Iterator[str]:
    """A line for each entry that should have been found again and was not."""
    folder = os.path.dirname(os.path.abspath(path))
    judged = _judged(path, reports)
    for entry, number in book.items():
        gone = not os.path.exists(os.path.join(folder, entry.path))
        if entry in used or not (gone or entry.rule in judged.get(entry.path, ())):
            continue
        where = f" at {entry.key}" if entry.key else ""
        state = "is gone" if gone else f"no longer has {entry.rule}{where}"
        yield f"{path}:{number}: {entry.path} {state}"


def _judged(path: str, reports: Iterable[Report]) -> dict[str, frozenset[str]]:
    """The rules that were judged in each file of a baseline."""
    return {
        _relative(path, report.path): report.applied - report.unjudged.keys()
        for report in reports
        if report.baseline == path and not report.skipped
    }


def update(path: str, reports: Iterable[Report]) -> str:
    """Write what is found now; what was not judged now stays.

    Returns a line that says what was written. Raises ``BadBaseline``.
    """
    old = set(read(path)) if os.path.exists(path) else set()
    mine = [report for report in reports if report.baseline == path]
    now = {_key(path, found) for report in mine for found in report.diagnostics}
    judged = _judged(path, mine)
    folder = os.path.dirname(os.path.abspath(path))
    now |= {
        entry
        for entry in old
        if entry.rule not in judged.get(entry.path, ())
        and os.path.exists(os.path.join(folder, entry.path))
    }
    lines = [FIRST, *(json.dumps(entry._asdict()) for entry in sorted(now))]
    try:
        atomic.write(path, "".join(f"{line}\n" for line in lines).encode())
    except OSError as error:
        raise BadBaseline(f"{path}: {error.strerror}") from None
    return f"{path}: {len(now)} kept ({len(now - old)} new, {len(old - now)} gone)"
