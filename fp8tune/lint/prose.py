"""The comments of a config as prose: lines, paragraphs, sentences.

A statement counts only in a sentence that speaks plainly of this run. One that compares,
advises, supposes, quotes a command or names another file is hedged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from fp8tune.toml import Span
from fp8tune.toml.document import comments

MAX_LINES = 400
MAX_LENGTH = 400

_HEDGE = re.compile(
    r"(?<![-=])[<>]|[\u2264\u2265?]|--\w|\.(?:toml|py|sh|yaml)\b|\$|\b(?:"
    r"vs|versus|against|unlike|like|than|twin|same (?:run|config|model|setup)|instead|rather"
    r"|compared?|comparison|relative|equivalent|alternatives?|alternatively"
    r"|if|when|whether|unless|once|where|e\.g|example|suppose|assum(?:e[sd]?|ing)"
    r"|use|try|tried|switch|set|reduce|increase|lower|raise|drop|scale[sd]?|double"
    r"|halve|override[sn]?|change|consider|recommend(?:ed)?|should|would|could|may|might"
    r"|can|cannot|was|were|previous(?:ly)?|before|after|original(?:ly)?|formerly|old|new"
    r"|future|planned|intended|todo|fixme|needs?|needed|requires?|required|typical(?:ly)?"
    r"|defaults?|paper|published|others?|another|sibling|base|baseline|fallback|also"
    r"|either|or|not|without|oom(?:s|ed)?|fail(?:s|ed)?|fits?|works|tested)\b",
    re.IGNORECASE,
)
_BREAK = re.compile(
    r"(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)(?<!\bca)[.;!](?=\s|$)"
    r"|\n[ \t]*#+[ \t]*(?=[-*\u2022] |[A-Za-z][^:\n]{0,40}:(?:\s|$))"
)


class Line(NamedTuple):
    """One comment: its text after the mark, where that starts, and its company.

    ``paragraph`` counts from 0; ``header`` tells whether it stands above all keys and
    ``inline`` whether it stands behind something.
    """

    text: str
    start: int
    paragraph: int
    header: bool
    inline: bool


def read_lines(text: str) -> list[Line]:
    """The comments of a valid TOML text that may state something."""
    lines: list[Line] = []
    paragraph = last = 0
    header = fresh = True
    for start, end in _spans(text):
        inline = text[text.rfind("\n", 0, start) + 1 : start].strip() != ""
        gap = text[last:start]
        header = header and not gap.strip() and not inline
        said = text[start:end].lstrip("#")
        blank = not said.strip() or "fp8tune:" in said or len(said) > MAX_LENGTH
        if blank or inline or gap.count("\n") > 1 or gap.strip():
            paragraph += not fresh
            fresh = True
        if not blank:
            lines.append(Line(said, end - len(said), paragraph, header, inline))
            fresh = False
        last = end
        if len(lines) == MAX_LINES:
            break
    return lines


def _spans(text: str) -> Iterator[Span]:
    """The comments, found faster than by reading every token where that is safe."""
    if '"""' in text or "'''" in text:
        yield from comments(text)
        return
    at = text.find("#")
    while at >= 0:
        start = text.rfind("\n", 0, at) + 1
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        before = text[start:at]
        if '"' in before or "'" in before:
            for first, _ in comments(text[start:end]):
                yield start + first, end
        else:
            yield at, end
        at = text.find("#", end)


def sentence(text: str, lines: list[Line], line: Line, span: Span) -> tuple[str, bool]:
    """The sentence around a span of a line, and whether it is its paragraph's first.

    What stands before it is hedging as much as it is, if that is a label such as
    ``Alternatives:``; so the label is part of what is returned.
    """
    company = [other for other in lines if other.paragraph == line.paragraph]
    begin = company[0].start
    whole = text[begin : company[-1].start + len(company[-1].text)]
    start, end = 0, len(whole)
    for match in _BREAK.finditer(whole):
        if begin + match.end() <= span[0]:
            start = match.end()
        elif begin + match.start() >= span[1]:
            end = match.start()
            break
    return _label(lines, company) + whole[start:end], not whole[:start].strip()


def _label(lines: list[Line], company: list[Line]) -> str:
    """The paragraph's label, or the one that alone makes up the paragraph above."""
    if company[0].text.rstrip().endswith(":"):
        return company[0].text
    above = [line for line in lines if line.paragraph == company[0].paragraph - 1]
    alone = len(above) == 1 and above[0].text.rstrip().endswith(":")
    return above[0].text if alone else ""


def hedged(words: str) -> bool:
    """Whether a sentence does not state plainly what this run is."""
    return _HEDGE.search(words) is not None
