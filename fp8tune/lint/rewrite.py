"""Apply fixes to a file: in memory until nothing is left to fix, then at once."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from fp8tune import atomic
from fp8tune.document import CannotEdit, Edit, InvalidText, Unreadable, apply
from fp8tune.formats import parse
from fp8tune.lint.diagnostic import Diagnostic, Fix, Report
from fp8tune.lint.discover import CannotRead, Found

if TYPE_CHECKING:
    from fp8tune.lint.settings import Options

MAX_PASSES = 60
"""A fix may reveal the next finding, but not for ever."""

MOST_COMPARED = 24
"""Fixes together of which each is tried without the others."""

Look = Callable[[bytes], Report]
"""Checks the bytes of one file."""


class Rewritten(NamedTuple):
    """The bytes after all fixes, what is still found in them, and what was fixed.

    ``passes`` are the findings that were fixed together, each in the text before.
    """

    data: bytes
    report: Report
    passes: tuple[tuple[Diagnostic, ...], ...] = ()

    @property
    def fixed(self) -> tuple[Diagnostic, ...]:
        """All findings that were fixed, in order."""
        return tuple(found for together in self.passes for found in together)


def rewritten(found: Found, data: bytes, look: Look, options: Options) -> Report:
    """Fix a file, or show how, or comment its findings away; raises ``CannotRead``."""
    if options.add_ignore:
        result = ignore(data, look, options.ignore_words)
    else:
        result = apply_fixes(data, look, unsafe=options.unsafe_fixes)
    report = result.report._replace(fixed=result.fixed)
    if options.diff:
        from fp8tune.diff import unified_diff

        patch = unified_diff(report.path, data, result.data)
        return look(data)._replace(fixed=result.fixed, patch=patch)
    if found.path == "-":
        return report._replace(text=result.data)
    if result.data != data:
        try:
            replace(found.path, data, result.data)
        except (OSError, Changed) as error:
            reason = getattr(error, "strerror", "") or "it was changed meanwhile"
            raise CannotRead(f"{found.path}: not written: {reason}") from None
    return report


def apply_fixes(data: bytes, look: Look, *, unsafe: bool) -> Rewritten:
    """Apply fixes until none is left, stage by stage.

    Fixes that go in circles, or find no end, leave the file as it was.
    """
    start = now = Rewritten(data, look(data))
    seen = {data}
    for _ in range(MAX_PASSES):
        stages = (_pass(now, look, stage) for stage in range(4 if unsafe else 2))
        after = next((one for one in stages if one is not None), None)
        if after is None:
            return now
        if after.data in seen:
            break
        seen.add(after.data)
        now = after
    return start


UNIGNORABLE = frozenset(
    ("invalid-toml", "bad-ignore", "unknown-ignore", "unused-ignore", "expired-ignore")
)
"""Rules whose findings no comment can silence."""


def ignore(data: bytes, look: Look, words: str) -> Rewritten:
    """Put an ignore comment above each finding; ``words`` follow the rule's name."""
    from fp8tune.lint.ignores import with_ignores

    report = look(data)
    chosen = [f for f in report.diagnostics if f.rule not in UNIGNORABLE]
    if not chosen:
        return Rewritten(data, report)
    document = parse(data)
    text = apply(document.text, with_ignores(document, chosen, words))
    after = f"{chr(0xFEFF) * document.bom}{text}".encode()
    if parse(after).values != document.values:
        return Rewritten(data, report)
    seen = look(after)
    left = _tally(seen.diagnostics)
    silent = tuple(found for found in chosen if not left[(found.rule, found.key)])
    return Rewritten(after, seen, (silent,))


def _stage(rule: str, fix: Fix) -> int:
    """When a fix has its turn, so that nothing is fixed that should be left alone.

    Names in ignore comments, safe ones, what lets the trainer read on, the rest.
    """
    if fix.safety == "safe":
        return 0 if rule in ("bad-ignore", "unknown-ignore") else 1
    return 2 if fix.reads_on else 3


def _pass(now: Rewritten, look: Look, stage: int) -> Rewritten | None:
    """As many fixes of a report at once as hold together; none if none does."""
    waiting = [
        found
        for found in now.report.diagnostics
        if found.fix and _stage(found.rule, found.fix) == stage
    ]
    while waiting:
        chosen = _apart(waiting)
        if stage == 3 and len(chosen) <= MOST_COMPARED:
            chosen = _needed(now, chosen, look)
        after = _largest(now, chosen, look)
        if after is not None:
            return after
        waiting = [found for found in waiting if found not in chosen]
    return None


def _needed(now: Rewritten, chosen: list[Diagnostic], look: Look) -> list[Diagnostic]:
    """Those fixes that change the run and whose findings the others leave there."""
    kept = chosen
    for found in reversed(chosen):
        others = [other for other in kept if other is not found]
        after = _seen(now, others, look) if others else None
        if after and not _tally([found]) & _tally(after[1].diagnostics):
            kept = others
    return kept


def _seen(
    now: Rewritten, chosen: list[Diagnostic], look: Look
) -> tuple[bytes, Report] | None:
    """The file after these fixes and what is found in it; none if they break it."""
    try:
        data = fixed_bytes(now.data, chosen)
        parse(data)
        return data, look(data)
    except (CannotEdit, InvalidText, Unreadable):
        return None


def _largest(now: Rewritten, chosen: list[Diagnostic], look: Look) -> Rewritten | None:
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


def _applied(now: Rewritten, chosen: list[Diagnostic], look: Look) -> Rewritten | None:
    """The file after these fixes, if it is better for each of them.

    The text must still parse, each finding must be gone, and no error may come in its
    place: none at all, but for those to which the trainer only now reads on, and they
    may not be about a key that a fix wrote. What is safe says what was meant: one error
    may come for another, which the mistake had hidden.
    """
    after = _seen(now, chosen, look)
    if after is None or after[1].skipped:
        return None
    data, report = after
    gone = _tally(now.report.diagnostics) - _tally(report.diagnostics)
    if _tally(chosen) - gone or _worse(now, data, report, chosen):
        return None
    return Rewritten(data, report, (*now.passes, tuple(chosen)))


def _worse(
    now: Rewritten, data: bytes, report: Report, chosen: list[Diagnostic]
) -> bool:
    """Whether the fixes bring in errors."""
    before, after = _tally(_errors(now.report)), _tally(_errors(report))
    new = after - before
    if not all(found.fix and found.fix.reads_on for found in chosen):
        hidden = all(found.fix and found.fix.safety == "safe" for found in chosen)
        return bool(new) and not (hidden and after.total() <= before.total())
    written = set(_names(parse(data).values)) - set(_names(parse(now.data).values))
    return any(key.rpartition(".")[2] in written for _, key in new)


def _names(values: dict[str, Any]) -> Iterator[str]:
    """The names of all keys, whatever table they stand in."""
    for name, value in values.items():
        yield name
        if isinstance(value, dict):
            yield from _names(value)


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


def _errors(report: Report) -> Iterator[Diagnostic]:
    return (found for found in report.diagnostics if found.severity == "error")


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
    atomic.write(place, after, like=place)
