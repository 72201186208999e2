"""What the linter found, ready to be shown in any format."""

from __future__ import annotations

from typing import NamedTuple


class Region(NamedTuple):
    """A stretch of text; lines and columns from 1, the end exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


class Label(NamedTuple):
    """One span of a finding and what it says there."""

    key: str
    region: Region
    text: str


class Diagnostic(NamedTuple):
    """One finding; ``labels[0]`` is the primary span, ``page`` where to read more."""

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

    @property
    def key(self) -> str:
        """The config key that the finding is about."""
        return self.labels[0].key

    @property
    def region(self) -> Region:
        """The primary span."""
        return self.labels[0].region


class Report(NamedTuple):
    """What was found in one file.

    ``unjudged`` maps each rule that lacked a fact to ``gpu`` or ``world_size``;
    ``skipped`` says what the file is, when it is no train config; ``lines`` are the
    source lines that the findings point at.
    """

    path: str
    diagnostics: list[Diagnostic]
    unjudged: dict[str, str] = {}
    skipped: str = ""
    lines: dict[int, str] = {}
