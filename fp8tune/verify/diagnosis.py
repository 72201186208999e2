"""A cause that a run shows, and the order of several: what follows from what."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from fp8tune.config.settings import SEVERITIES
from fp8tune.lint.diagnostic import Diagnostic, Fix
from fp8tune.lint.formats.plain_json import fix_data
from fp8tune.verify.cause import Cause, causes


@dataclass(frozen=True)
class Diagnosis:
    """A cause of a run that failed or went wrong.

    ``line`` is its first line in the log ``path``, 0 for figures; ``count`` the lines
    that show it, ``ranks`` those of them. ``after`` is the cause that it follows from,
    ``""`` for a root. ``survived`` is whether the run went on after it. ``found`` are
    lint's findings that say the same of the config, ``fix`` is the change of the
    config, and ``withheld`` why there is none.
    """

    cause: Cause
    message: str
    help: str = ""
    path: str = ""
    line: int = 0
    count: int = 0
    ranks: tuple[int, ...] = ()
    after: str = ""
    survived: bool = False
    fix: Fix | None = None
    withheld: str = ""
    found: tuple[Diagnostic, ...] = ()

    @property
    def code(self) -> str:
        """The name of the cause."""
        return self.cause.name

    @property
    def severity(self) -> str:
        """How bad it is: a note if the run went on after it."""
        return "note" if self.survived else self.cause.severity


def data(found: Diagnosis) -> dict[str, Any]:
    """Return a diagnosis for programs."""
    return {
        "code": found.code,
        "severity": found.severity,
        "message": found.message,
        "help": found.help,
        "path": found.path,
        "line": found.line,
        "count": found.count,
        "ranks": list(found.ranks),
        "after": found.after,
        "rules": [each.rule for each in found.found],
        "fix": found.fix and fix_data(found.fix),
    }


def ordered(found: list[Diagnosis]) -> list[Diagnosis]:
    """Return diagnoses in order, each consequence with the cause that it follows.

    Notes that only follow from another cause are left out.
    """
    ranked = sorted(found, key=_weight)
    after = {
        each.code: next((o.code for o in ranked if _explains(o, each)), "")
        for each in ranked
    }
    placed = [
        replace(each, after=_root(each.code, after))
        for each in ranked
        if not (each.severity == "note" and after[each.code])
    ]
    return sorted(placed, key=lambda each: bool(each.after))


def _root(name: str, after: dict[str, str]) -> str:
    """Return the cause at the beginning of a chain, ``""`` if it is this one."""
    seen = name
    while after[seen]:
        seen = after[seen]
    return seen if seen != name else ""


def _weight(found: Diagnosis) -> tuple[bool, int, int, str]:
    """Order by role, severity and line: symptoms come after everything else."""
    cause = found.cause
    return (
        cause.role == "symptom",
        SEVERITIES.index(found.severity),
        found.line or 1 << 60,
        cause.name,
    )


def _explains(first: Diagnosis, then: Diagnosis) -> bool:
    """Return whether a cause is why another one shows."""
    names = {then.cause.name, then.cause.of} - {""}
    if names & implied(first.cause):
        return True
    if first.severity != "error" or then.survived:
        return False
    if then.cause.wraps and first.cause.role == "root" and not first.cause.wraps:
        inside = 0 < first.line <= then.line + then.cause.wraps
        return first.path == then.path and inside
    if first.cause.role == "symptom":
        return then.cause.role == "symptom" and then.severity == "note"
    if then.cause.role == "exception":
        earlier = first.path == then.path and 0 < first.line < then.line
        return first.cause.role == "root" and earlier
    return then.cause.role == "symptom"


def implied(cause: Cause) -> set[str]:
    """Return the names of all causes that follow from one, directly or not."""
    known = causes()
    names: set[str] = set()
    waiting = [cause.name, cause.of]
    while waiting:
        each = known.get(waiting.pop())
        for name in each.implies if each else ():
            if name not in names:
                names.add(name)
                waiting.append(name)
    return names
