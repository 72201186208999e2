"""Apply fixes to a file: in memory until nothing is left to mend, then at once."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from fp8tune.lint.diagnostic import Diagnostic, Report
from fp8tune.toml.document import InvalidToml, Unreadable, parse
from fp8tune.toml.edit import CannotEdit, Edit, apply

MAX_PASSES = 50
"""A fix may reveal the next finding, but not for ever."""

Look = Callable[[bytes], Report]
"""Checks the bytes of one file."""


class Mended(NamedTuple):
    """The bytes after all fixes, what is still found in them, and what was mended."""

    data: bytes
    report: Report
    fixed: tuple[Diagnostic, ...]


def mend(data: bytes, look: Look, *, unsafe: bool) -> Mended:
    """Apply fixes until none is left, safe ones first.

    Fixes that go in circles, or find no end, leave the file as it was.
    """
    start = now = Mended(data, look(data), ())
    seen = {data}
    for _ in range(MAX_PASSES):
        after = _pass(now, look, "safe")
        if after is None and unsafe:
            after = _pass(now, look, "unsafe")
        if after is None:
            return now
        if after.data in seen:
            break
        seen.add(after.data)
        now = after
    return start


def _pass(now: Mended, look: Look, safety: str) -> Mended | None:
    """As many fixes of a report at once as hold together; none if none does."""
    waiting = [
        found
        for found in now.report.diagnostics
        if found.fix and found.fix.safety == safety
    ]
    while waiting:
        chosen = _apart(waiting)
        after = _largest(now, chosen, look)
        if after is not None:
            return after
        waiting = [found for found in waiting if found not in chosen]
    return None


def _largest(now: Mended, chosen: list[Diagnostic], look: Look) -> Mended | None:
    """The file after these fixes, or after the first half of them that holds."""
    after = _applied(now, chosen, look)
    if after is not None or len(chosen) == 1:
        return after
    half = len(chosen) // 2
    first = _largest(now, chosen[:half], look)
    return first or _largest(now, chosen[half:], look)


def _apart(wanted: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Findings whose fixes do not touch each other, first come first served."""
    chosen: list[Diagnostic] = []
    taken: list[tuple[int, int]] = []
    for found in wanted:
        spans = [(e.start, e.end) for e in found.fix.edits] if found.fix else []
        if all(end < a or b < start for start, end in spans for a, b in taken):
            chosen.append(found)
            taken += spans
    return chosen


def _applied(now: Mended, chosen: list[Diagnostic], look: Look) -> Mended | None:
    """The file after these fixes, if it is better for each of them.

    The text must still parse, each finding must be gone, and errors may not become
    more, but for those to which the trainer reads on when a safe fix has taken away
    what it refuses.
    """
    try:
        data = fixed_bytes(now.data, chosen)
        parse(data)
        report = look(data)
    except (CannotEdit, InvalidToml, Unreadable):
        return None
    gone = _tally(now.report.diagnostics) - _tally(report.diagnostics)
    worse = _errors(report) > _errors(now.report) and not all(map(_opens, chosen))
    if _tally(chosen) - gone or worse or report.skipped:
        return None
    return Mended(data, report, (*now.fixed, *chosen))


def _opens(found: Diagnostic) -> bool:
    """Whether the trainer stopped at this finding, and its fix is what was meant."""
    return found.category == "rejected" and (
        found.fix is not None and found.fix.safety == "safe"
    )


def fixed_bytes(data: bytes, chosen: Iterable[Diagnostic]) -> bytes:
    """The bytes of a file after the fixes of some findings."""
    document = parse(data)
    edits = {
        Edit(change.start, change.end, change.text)
        for found in chosen
        if found.fix
        for change in found.fix.edits
    }
    if not document.bom:
        return apply(document.text, edits).encode()
    moved = (Edit(start + 1, end + 1, text) for start, end, text in edits)
    return apply(f"\ufeff{document.text}", moved).encode()


def _errors(report: Report) -> int:
    return sum(found.severity == "error" for found in report.diagnostics)


def _tally(findings: Iterable[Diagnostic]) -> Counter[tuple[str, str]]:
    return Counter((found.rule, found.key) for found in findings)


class Changed(Exception):
    """The file is no longer what was read from it."""


def replace(path: str, before: bytes, after: bytes) -> None:
    """Put ``after`` in a file's place at once, with its mode, owner and attributes.

    A link stays a link: what it points at is replaced; further hard links keep the
    old bytes. Raises ``Changed`` where the file does not hold ``before``, and
    ``OSError``.
    """
    place = os.path.realpath(path)
    with open(place, "r+b") as file:  # refuses a file that may not be written
        if file.read(len(before) + 1) != before:
            raise Changed(path)
        status = os.fstat(file.fileno())
    handle, temporary = tempfile.mkstemp(prefix=".fp8tune-", dir=os.path.dirname(place))
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        _own(temporary, status)
        shutil.copystat(place, temporary)
        os.utime(temporary)
        os.replace(temporary, place)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _own(path: str, status: os.stat_result) -> None:
    """Give a file the owner of another where that is allowed, its group in any case.

    Otherwise the mode would let in another group than it did.
    """
    if hasattr(os, "chown"):
        try:
            os.chown(path, status.st_uid, status.st_gid)
        except PermissionError:
            os.chown(path, -1, status.st_gid)


def unified_diff(path: str, before: bytes, after: bytes) -> str:
    """What changes in a file, as a patch."""
    import difflib

    old, new = (
        re.findall(r"[^\n]*\n|[^\n]+", data.decode(errors="surrogateescape"))
        for data in (before, after)
    )
    name = _name(path)
    lines = difflib.unified_diff(old, new, name, name)
    marked = (
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in lines
    )
    return "".join(marked)


def _name(path: str) -> str:
    """A file's name as it stands in a patch: in quotes, as git does, if it is odd."""
    if path.isprintable() and not set(path) & set('"\\'):
        return f"{path}\t" if " " in path else path
    octal = (f"\\{byte:03o}" for byte in os.fsencode(path))
    return f'"{"".join(octal)}"'
