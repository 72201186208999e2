"""A baseline: a file of findings that a project accepts for now.

One JSON object per line, sorted: path, rule and config key (or the text of the faulty
comment), without line numbers, so that it survives edits. Each entry accepts one
finding. An entry whose finding is gone is stale and fails the run, so the file never
lists fixed findings.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fp8tune import atomic
from fp8tune.lint.diagnostic import Diagnostic, Report, Suppressed
from fp8tune.suggest import closest

MAX_BYTES = 1 << 24
FIRST = '{"fp8tune-baseline": 1}'


class BadBaseline(Exception):
    """The baseline cannot be used; the message names file, place and reason."""


class Entry(NamedTuple):
    """One finding; ``path`` is relative to the baseline's folder, with slashes."""

    path: str
    rule: str
    key: str


Book = dict[Entry, list[int]]
"""The entries of a baseline and the lines that each stands on."""


def read(path: str) -> Book:
    """Return the entries of a baseline; raises ``BadBaseline``."""
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
        raise BadBaseline(f"{path}:1: not an fp8tune baseline; one begins with {FIRST}")
    book: Book = {}
    for number, line in enumerate(lines[1:], 2):
        if line.strip():
            book.setdefault(_entry(path, number, line), []).append(number)
    return book


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


def hold(report: Report, book: Book) -> Report:
    """Return the report without the findings that its baseline accepts."""
    kept, held = [], list(report.suppressed)
    used: Counter[Entry] = Counter()
    for found in report.diagnostics:
        entry = _entry_of(report, found)
        if used[entry] < len(book.get(entry, ())):
            used[entry] += 1
            held.append(_suppressed(found))
        else:
            kept.append(found)
    return report._replace(diagnostics=kept, suppressed=tuple(held))


def hold_all(report: Report) -> Report:
    """Return the report after its findings were written into its baseline."""
    held = map(_suppressed, report.diagnostics)
    return report._replace(diagnostics=[], suppressed=(*report.suppressed, *held))


def _suppressed(found: Diagnostic) -> Suppressed:
    return Suppressed(found, "external", "in the baseline")


def stale(path: str, reports: Iterable[Report]) -> Iterator[str]:
    """Yield a line for each stale entry."""
    mine = [report for report in reports if report.baseline == path]
    used = Counter(entry for report in mine for entry in _held(report))
    state = _State(path, mine)
    for entry, numbers in read(path).items():
        for number in numbers[used[entry] :]:
            why = state.stale(entry)
            if why:
                yield f"{path}:{number}: {entry.path} {why}"


def _held(report: Report) -> Iterator[Entry]:
    """Yield the entries that accept a finding of a report."""
    for finding, kind, _ in report.suppressed:
        if kind == "external":
            yield _entry_of(report, finding)


def _entry_of(report: Report, found: Diagnostic) -> Entry:
    key = found.key or _comment(report, found)
    return Entry(_relative(report.baseline, found.path), found.rule, key)


def _comment(report: Report, found: Diagnostic) -> str:
    """Return the text of the comment that a finding points at, if any."""
    line, start, _, end = found.region
    words = report.lines.get(line, "")[start - 1 : end - 1]
    return " ".join(words.split()) if words.startswith("#") else ""


def _relative(baseline: str, path: str) -> str:
    folder = os.path.dirname(os.path.abspath(baseline))
    return os.path.relpath(os.path.abspath(path), folder).replace(os.sep, "/")


class _State:
    """Decides whether entries that a run did not find are stale."""

    def __init__(self, path: str, reports: Iterable[Report]) -> None:
        self.folder = os.path.dirname(os.path.abspath(path))
        self.reports = {
            _relative(path, report.path): report
            for report in reports
            if not report.skipped
        }

    def stale(self, entry: Entry) -> str:
        """Return why an entry is stale; empty if this run did not check it."""
        if not os.path.exists(os.path.join(self.folder, entry.path)):
            return "is gone"
        report = self.reports.get(entry.path)
        if report is None:
            return ""
        if entry.rule not in report.known:
            near = closest(entry.rule, report.known)
            hint = f"; did you mean {near}?" if near else ""
            return f"has an entry for {entry.rule}, which is not a rule here{hint}"
        if entry.rule not in report.applied - report.unjudged.keys():
            return ""
        where = f" at {entry.key}" if entry.key else ""
        return f"no longer has {entry.rule}{where}"


def update(path: str, reports: Iterable[Report]) -> str:
    """Write the current findings, accepted or not; keep entries that were not checked.

    Returns a line that says what was written. Raises ``BadBaseline``.
    """
    book = read(path) if os.path.exists(path) else {}
    old = Counter({entry: len(numbers) for entry, numbers in book.items()})
    mine = [report for report in reports if report.baseline == path]
    now = Counter(entry for report in mine for entry in _held(hold_all(report)))
    state = _State(path, mine)
    now |= Counter({e: count for e, count in old.items() if not state.stale(e)})
    lines = [FIRST, *(json.dumps(entry._asdict()) for entry in sorted(now.elements()))]
    try:
        atomic.write(path, "".join(f"{line}\n" for line in lines).encode())
    except OSError as error:
        raise BadBaseline(f"{path}: {error.strerror}") from None
    new, gone = (now - old).total(), (old - now).total()
    return f"{path}: {now.total()} kept ({new} new, {gone} gone)"
