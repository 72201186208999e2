"""Comments that silence a finding, and what is wrong with them.

``tp = 3  # fp8tune: ignore[rule-name] until=2027-01-31 -- reason``, on the line of any
span of the finding, or on a line of its own above. There is no form for all rules.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from fp8tune.job import Words
from fp8tune.lint.diagnostic import Diagnostic, Suppressed
from fp8tune.suggest import closest
from fp8tune.toml import Span
from fp8tune.toml.document import Document, comments
from fp8tune.trainers.faults import Fault

MAX_COMMENTS = 200
_MARK = "fp8tune: ignore"
_FORM = (
    r"#[ \t]*fp8tune:[ \t]*ignore\[(?P<names>[^\]]*)\]"
    r"(?:[ \t]+until=(?P<until>\S+))?(?:[ \t]+--[ \t]*(?P<reason>.*))?[ \t\r]*$"
)
_ALONE = r"[ \t]*#[ \t]*fp8tune:[ \t]*ignore\["
_NAME = r"[^\s,](?:[^,]*[^\s,])?"


class Ignore(NamedTuple):
    """One comment: where it stands, the lines it is for, and what it silences.

    ``places`` are the spans of the names.
    """

    span: Span
    lines: tuple[int, ...]
    names: tuple[str, ...]
    until: datetime.date | None
    problem: str = ""
    reason: str = ""
    places: tuple[Span, ...] = ()

    @property
    def words(self) -> str:
        """What follows the names, as ``--add-ignore`` would write it."""
        return words(str(self.until or ""), self.reason)

    def expired(self, today: datetime.date) -> bool:
        """Whether the comment has lost its effect."""
        return self.until is not None and today > self.until


def words(until: str, reason: str) -> str:
    """What follows the names in a comment: the last day and the reason, if any."""
    return f" until={until}" * bool(until) + f" -- {reason}" * bool(reason)


def read_ignores(document: Document) -> list[Ignore]:
    """The ignore comments of a config."""
    if _MARK not in document.text:
        return []
    found: list[Ignore] = []
    for start, end in comments(document.text):
        if _MARK in document.text[start:end] and len(found) < MAX_COMMENTS:
            found.append(_ignore(document, (start, end)))
    return found


def _ignore(document: Document, span: Span) -> Ignore:
    lines = _lines(document, span)
    form = re.match(_FORM, document.text[span[0] : span[1]])
    if form is None:
        problem = "write `# fp8tune: ignore[rule-name] until=YYYY-MM-DD -- reason`"
        return Ignore(span, lines, (), None, problem)
    offset = span[0] + form.start("names")
    found = list(re.finditer(_NAME, form["names"]))
    names = tuple(match[0] for match in found)
    places = tuple((offset + m.start(), offset + m.end()) for m in found)
    problem = "" if names else "name the rules between the brackets"
    until = None
    if form["until"]:
        try:
            until = datetime.date.fromisoformat(form["until"])
        except ValueError:
            problem = f"until={form['until']} is no date of the form YYYY-MM-DD"
    reason = (form["reason"] or "").rstrip()
    return Ignore(span, lines, names, until, problem, reason, places)


def _lines(document: Document, span: Span) -> tuple[int, ...]:
    """Its own line; and if it stands alone, the one below and that of the next key.

    The one below is the first that is no ignore comment itself.
    """
    line = document.lines.position(span[0]).line
    if not document.lines.line(line).lstrip().startswith("#"):
        return (line,)
    below = line + 1
    last = document.text.count("\n") + 1
    while below <= last and re.match(_ALONE, document.lines.line(below)):
        below += 1
    return (line, below, _next_key(document, line))


def _next_key(document: Document, line: int) -> int:
    """The first line below that is neither empty nor a comment."""
    last = len(document.text.split("\n"))
    for number in range(line + 1, last + 1):
        text = document.lines.line(number).strip()
        if text and not text.startswith("#"):
            return number
    return line


class Sieve:
    """Holds findings back, and tells which comments held back nothing."""

    def __init__(self, document: Document, today: datetime.date) -> None:
        self.text = document.text
        ignores = read_ignores(document)
        self.ignores = [ignore for ignore in ignores if not ignore.problem]
        self.broken = [ignore for ignore in ignores if ignore.problem]
        self.today = today
        self.used: set[tuple[Span, str]] = set()
        self.held: list[Suppressed] = []

    def keeps(self, found: Diagnostic) -> bool:
        """Whether no comment in force silences the finding."""
        lines = {label.region.line for label in found.labels}
        silent: Ignore | None = None
        for ignore in self.ignores:
            if lines.intersection(ignore.lines) and found.rule in ignore.names:
                self.used.add((ignore.span, found.rule))
                silent = silent if ignore.expired(self.today) else ignore
        if silent is not None:
            self.held.append(Suppressed(found, "inSource", silent.reason))
        return silent is None

    def faults(self, known: frozenset[str], judged: frozenset[str]) -> Iterator[Fault]:
        """What is wrong with the comments.

        ``known`` are the names of all rules, ``judged`` those that were applied to this
        file, so that their silence means that there is nothing to ignore.
        """
        for ignore in self.broken:
            yield Fault("bad-ignore", (), {"reason": ignore.problem}, ignore.span)
        for ignore in self.ignores:
            for index, name in enumerate(ignore.names):
                kind = self._problem(ignore, name, known, judged)
                if kind:
                    near = closest(name, known) if kind == "unknown-ignore" else ""
                    yield self._fault(kind, ignore, index, near)

    def _fault(self, kind: str, ignore: Ignore, index: int, near: str) -> Fault:
        from fp8tune.lint.ignores import renamed, without
        from fp8tune.trainers.meant import same_word

        hint = f"did you mean `{near}`?" if near else ""
        name = ignore.names[index]
        facts: dict[str, Any] = {"name": name, "until": Words(ignore.until)}
        facts["hint"] = hint
        if near:
            facts |= {"meant": Words(near), "sure": same_word(name, near)}
        mend = renamed(ignore, index, near) if near else None
        edit = mend or without(self.text, ignore, index)
        return Fault(kind, (), facts, ignore.span, (edit,))

    def _problem(
        self, ignore: Ignore, name: str, known: frozenset[str], judged: frozenset[str]
    ) -> str:
        if name not in known:
            return "unknown-ignore"
        if (ignore.span, name) not in self.used:
            return "unused-ignore" if name in judged else ""
        return "expired-ignore" if ignore.expired(self.today) else ""
