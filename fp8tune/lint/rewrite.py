"""Apply fixes to a file: in memory until none is left, then written at once."""

# no future annotations: as strings, they double the import time of a NamedTuple
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from fp8tune.config.discover import CannotRead, Found
from fp8tune.formats import parse
from fp8tune.formats.document import InvalidText, Unreadable
from fp8tune.formats.edits import CannotEdit, Edit, apply
from fp8tune.lint.diagnostic import Diagnostic, Fix, Report

if TYPE_CHECKING:
    from fp8tune.config.settings import Options

MAX_PASSES = 60
"""A fix may reveal the next finding, but not for ever."""

MOST_COMPARED = 24
"""Fixes together of which each is tried without the others."""

Look = Callable[[bytes], Report]
"""Checks the bytes of one file."""


class Rewritten(NamedTuple):
    """The bytes after all fixes, the remaining findings, and the fixed ones.

    ``passes`` are the findings that were fixed together, with places in the text
    before.
    """

    data: bytes
    report: Report
    passes: tuple[tuple[Diagnostic, ...], ...] = ()

    @property
    def fixed(self) -> tuple[Diagnostic, ...]:
        """All findings that were fixed, in order."""
        return tuple(found for together in self.passes for found in together)


def rewritten(found: Found, data: bytes, look: Look, options: "Options") -> Report:
    """Fix a file, show how, or add ignore comments; raises ``CannotRead``."""
    if options.add_ignore:
        result = ignore(data, look, options.ignore_words)
    else:
        result = apply_fixes(data, look, unsafe=options.unsafe_fixes)
    report = result.report._replace(fixed=result.fixed)
    if options.diff:
        from fp8tune.formats.edits import unified_diff

        patch = unified_diff(report.path, data, result.data)
        return look(data)._replace(fixed=result.fixed, patch=patch)
    if not options.add_ignore:
        left = explained(result, look, unsafe=options.unsafe_fixes)
        report = report._replace(diagnostics=left)
    if options.count_fixes and not options.add_ignore and not options.unsafe_fixes:
        report = report._replace(fixable=fixable(result.data, look))
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

    If fixes go in circles or do not end, the file stays unchanged.
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


def fixable(data: bytes, look: Look) -> tuple[int, int]:
    """Return how many findings --fix fixes, and how many more --unsafe-fixes."""
    look = cache(look)
    safe, every = (
        len(apply_fixes(data, look, unsafe=unsafe).fixed) for unsafe in (False, True)
    )
    return safe, max(0, every - safe)


UNIGNORABLE = frozenset(
    (
        *("invalid-toml", "invalid-yaml", "invalid-json"),
        *("bad-ignore", "unknown-ignore", "unused-ignore", "expired-ignore"),
    )
)
"""Rules whose findings no comment can silence."""


def ignore(data: bytes, look: Look, words: str) -> Rewritten:
    """Add an ignore comment above each finding; ``words`` follow the rule's name.

    What holds only once another finding is fixed needs none if that one is ignored.
    """
    from fp8tune.lint.ignores import NO_PLACE, with_ignores

    report = look(data)
    shown = (found for found in report.diagnostics if not found.once)
    chosen = [found for found in shown if found.rule not in UNIGNORABLE]
    if not chosen:
        return Rewritten(data, report)
    document = parse(data, report.path)
    try:
        text = apply(document.text, with_ignores(document, chosen, words))
    except CannotEdit as error:
        return _without_comments(data, report, str(error))
    after = f"{chr(0xFEFF) * document.bom}{text}".encode()
    seen = look(after)
    if any(found.rule.startswith("invalid-") for found in seen.diagnostics):
        return _without_comments(data, report, NO_PLACE)  # the loader knows none
    left = _tally(seen.diagnostics)
    silent = tuple(found for found in chosen if not left[(found.rule, found.key)])
    return Rewritten(after, seen, (silent,))


def _without_comments(data: bytes, report: Report, why: str) -> Rewritten:
    return Rewritten(data, report._replace(notes=(*report.notes, why)))


def _stage(rule: str, fix: Fix) -> int:
    """Return the stage in which a fix is applied, so that earlier fixes come first.

    The order is: names in ignore comments, safe fixes, fixes after which the trainer
    reads further, and the rest.
    """
    if fix.safety == "safe":
        return 0 if rule in ("bad-ignore", "unknown-ignore") else 1
    return 2 if fix.reads_on else 3


def _pass(now: Rewritten, look: Look, stage: int) -> Rewritten | None:
    """Apply as many fixes of a report together as possible; ``None`` if none works."""
    waiting = [
        found
        for found in now.report.diagnostics
        if found.fix and _stage(found.rule, found.fix) == stage
    ]
    while waiting:
        chosen = apart(waiting)
        if stage == 3 and len(chosen) <= MOST_COMPARED:
            chosen = _needed(now, chosen, look)
        after = _largest(now, chosen, look)
        if after is not None:
            return after
        waiting = [found for found in waiting if found not in chosen]
    return None


def _needed(now: Rewritten, chosen: list[Diagnostic], look: Look) -> list[Diagnostic]:
    """Return the run-changing fixes whose findings remain after the other fixes."""
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
    """Return the file after these fixes and its report; ``None`` if they break it."""
    try:
        data = fixed_bytes(now.data, chosen)
        parse(data, now.report.path)
        return data, look(data)
    except (CannotEdit, InvalidText, Unreadable):
        return None


def _largest(now: Rewritten, chosen: list[Diagnostic], look: Look) -> Rewritten | None:
    """Return the file after these fixes, or after the first half that works."""
    after = _applied(now, chosen, look)
    if after is not None or len(chosen) == 1:
        return after
    half = len(chosen) // 2
    first = _largest(now, chosen[:half], look)
    return first or _largest(now, chosen[half:], look)


def apart(wanted: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return findings whose fixes do not overlap, earlier ones first."""
    chosen: list[Diagnostic] = []
    taken: list[tuple[int, int]] = []
    for found in wanted:
        spans = [(e.start, e.end) for e in found.fix.edits] if found.fix else []
        if all(end < a or b < start for start, end in spans for a, b in taken):
            chosen.append(found)
            taken += spans
    return chosen


def _applied(now: Rewritten, chosen: list[Diagnostic], look: Look) -> Rewritten | None:
    """Return the file after these fixes if each of them improves it.

    The text must still parse, each finding must be gone, and no new error may appear.
    Exceptions are errors that the trainer only now reaches, unless they are about a key
    that a fix wrote, or gave another value. A safe fix may reveal one error that the
    mistake had hidden.
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
    """Return whether the fixes cause errors."""
    before, after = _tally(_errors(now.report)), _tally(_errors(report))
    new = after - before
    if not all(found.fix and found.fix.reads_on for found in chosen):
        hidden = all(found.fix and found.fix.safety == "safe" for found in chosen)
        return bool(new) and not (hidden and after.total() <= before.total())
    path = report.path
    old, texts = parse(now.data, path).values, parse(data, path).values
    written = set(_names(texts)) - set(_names(old))
    changed = {name for name in texts if old.get(name, texts[name]) != texts[name]}
    changed -= {name for name in changed if isinstance(texts[name], dict)}
    return any(
        key.rpartition(".")[2] in written or key.partition(".")[0] in changed
        for _, key in new
    )


def explained(result: Rewritten, look: Look, *, unsafe: bool) -> list[Diagnostic]:
    """The findings left, where each fix that was tried says why it was not applied."""
    return [
        one._replace(fix=one.fix._replace(not_applied=_objection(result, one, look)))
        if one.fix and (unsafe or one.fix.safety == "safe")
        else one
        for one in result.report.diagnostics
    ]


def _objection(now: Rewritten, found: Diagnostic, look: Look) -> str:
    """Why the fix of one finding cannot be applied to this text."""
    after = _seen(now, [found], look)
    if after is None or after[1].skipped:
        return "the file would be no train config"
    data, report = after
    if _tally([found]) & _tally(report.diagnostics):
        return "it does not remove the finding"
    if not _worse(now, data, report, [found]):
        return "the fixes of this file undo each other"
    new = _tally(_errors(report)) - _tally(_errors(now.report))
    error = next(e for e in _errors(report) if (e.rule, e.key) in new)
    return f"lint would then report: error[{error.rule}] {error.message}"


def _names(values: dict[str, Any]) -> Iterator[str]:
    """Yield the names of all keys, in any table."""
    for name, value in values.items():
        yield name
        if isinstance(value, dict):
            yield from _names(value)


def fixed_bytes(data: bytes, chosen: Iterable[Diagnostic]) -> bytes:
    """Return the bytes of a file after the fixes of some findings."""
    chosen = list(chosen)
    document = parse(data, chosen[0].path if chosen else "")
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
    """The file has changed since it was read."""


def replace(path: str, before: bytes, after: bytes) -> None:
    """Replace a file atomically, keeping its mode, owner and attributes.

    A symbolic link stays, and the file that it points at is replaced; other hard links
    keep the old bytes. Raises ``Changed`` if the file's content is not ``before``, and
    ``OSError``.
    """
    from fp8tune import atomic  # its modules cost start-up time

    place = os.path.realpath(path)
    with open(place, "r+b") as file:  # fails if the file is not writable
        if file.read(len(before) + 1) != before:
            raise Changed(path)
    atomic.write(place, after, like=place)
