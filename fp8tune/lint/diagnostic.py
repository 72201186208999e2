"""Findings of the linter, in a form that every output format can show."""

# no future annotations: as strings, they double the import time of a NamedTuple
from typing import NamedTuple

from fp8tune.formats.document import Span


class Region(NamedTuple):
    """A region of text; lines and columns count from 1, the end is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


class Marked(NamedTuple):
    """An argument of the trainer's command line, with the span that a label marks."""

    text: str
    span: Span


class Label(NamedTuple):
    """One span of a finding, and its label.

    If the value comes from the command line, ``argument`` is that argument, and
    ``region`` is the key in the file, else its section, else line 1. If the span is in
    another file of the job, ``path`` is that file and ``line`` the line that it is on.
    """

    key: str
    region: Region
    text: str
    argument: Marked | None = None
    path: str = ""
    line: str = ""


class Change(NamedTuple):
    """One replacement: its position in characters and in lines, and the new text."""

    start: int
    end: int
    text: str
    region: Region


class Fix(NamedTuple):
    """The fix of a finding: all edits or none.

    ``safety`` is ``safe`` (the run stays what it was, or only one was meant) or
    ``unsafe``; then ``changes`` says what becomes of the run. ``reads_on`` says that
    the trainer stopped here before it had read all, so that more may show behind.
    ``not_applied`` is why ``--fix`` or ``--unsafe-fixes`` tried it and left it out.
    """

    safety: str
    title: str
    changes: str
    edits: tuple[Change, ...]
    reads_on: bool = False
    not_applied: str = ""


class Diagnostic(NamedTuple):
    """One finding; ``labels[0]`` is the primary span, ``page`` where to read more.

    ``once`` says what has to be fixed first, if the trainer refuses something before.
    """

    path: str
    rule: str
    code: str
    category: str
    severity: str
    message: str
    help: str
    url: str
    labels: tuple[Label, ...]
    page: str = ""
    fix: Fix | None = None
    once: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The config key that the finding is about."""
        return self.labels[0].key

    @property
    def region(self) -> Region:
        """The primary span."""
        return self.labels[0].region


class Suppressed(NamedTuple):
    """A finding suppressed by a comment (``inSource``) or by a baseline."""

    finding: Diagnostic
    kind: str
    reason: str


class Report(NamedTuple):
    """The findings of one file, and what was done about them.

    - ``unjudged``: each rule that lacked a fact, and the fact
    - ``skipped``: what the file is, when it is no train config
    - ``lines``: the source lines that the findings point at
    - ``suppressed``: findings that a comment or the baseline suppresses
    - ``fixed``: findings that were fixed, or got an ignore comment
    - ``patch``: the diff that would do this; ``text``: the new text of stdin
    - ``baseline``: the file of accepted findings
    - ``applied``: the selected rules; ``known``: all rules
    - ``compared``: for rules on two files, what must be the same, and a hash of what
      must differ
    - ``gaps``: of those that no option supplies, what each rule is about (``memory``,
      ``speed`` or ``some rules``), and why it was not checked
    - ``told``: the trainer's version, ``torchtitan==0.2.2``, if nobody named it
    - ``told_by``: which packages showed it; empty if the keys did
    - ``beside``: reports on the other files of the job
    - ``notes``: lines of the summary about this file
    - ``fixable``: how many findings ``--fix`` fixes, and how many more
      ``--unsafe-fixes``, if that was tried
    - ``bugs``: a line to report for each rule that raised an error
    - ``fail_on``: the lowest severity that fails the run, or ``never``
    """

    path: str
    diagnostics: list[Diagnostic]
    unjudged: dict[str, str] = {}
    skipped: str = ""
    lines: dict[int, str] = {}
    suppressed: tuple[Suppressed, ...] = ()
    fixed: tuple[Diagnostic, ...] = ()
    patch: str = ""
    text: bytes | None = None
    baseline: str = ""
    applied: frozenset[str] = frozenset()
    known: frozenset[str] = frozenset()
    compared: dict[str, tuple[str, int]] = {}
    gaps: dict[str, tuple[str, str]] = {}
    fail_on: str = "error"
    told: str = ""
    told_by: str = ""
    beside: tuple["Report", ...] = ()
    notes: tuple[str, ...] = ()
    fixable: tuple[int, int] | None = None
    bugs: tuple[str, ...] = ()
