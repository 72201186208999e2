"""Claims in words: modes, precisions, and that nothing is saved."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fp8tune.lint.claims import Claim
from fp8tune.lint.claims.prose import Line

_AC = (
    r"(?:(?<=[(,+=])|(?<=\bwith)) ?(?P<one>(?P<before>selective|full|no)"
    r" (?:AC|activation checkpointing))(?=\s*(?:$|[).,+]))"
    r"|(?P<two>(?:\bAC|\b[Aa]ctivation checkpointing)(?: is|:| ?=)? ?\b(?P<after>"
    r"(?:off|OFF)(?![-\w])|(?:on|ON|full|selective|none)(?=\s*(?:$|[).,;]|and\b))))"
)
_NO_CHECKPOINT = (
    r"\bno checkpoints?(?: (?:is|are|written|saved|in|for|this|run|smoke))*"
)
_MODES = {"no": ("none",), "off": ("none",), "on": ("full", "selective")}
_PRECISIONS = ("bf16", "fp16", "fp32", "fp8")


def modes(line: Line) -> Iterator[Claim]:
    """Yield all claims of a comment that are not figures."""
    if "AC" in line.text or "checkpointing" in line.lowered:
        yield from _checkpointing(line)
    if line.inline and "no checkpoint" in line.lowered:
        yield from _no_checkpoint(line)
    if line.header:
        yield from _precision(line)


def _checkpointing(line: Line) -> Iterator[Claim]:
    for match in re.finditer(_AC, line.text):
        mode = (match["before"] or match["after"]).lower()
        start, end = match.span("one" if match["one"] else "two")
        span = (line.start + start, line.start + end)
        words = _MODES.get(mode, (mode,))
        yield Claim("wrong-ac-in-comment", "ac", line, span, words=words)


def _no_checkpoint(line: Line) -> Iterator[Claim]:
    match = re.search(_NO_CHECKPOINT, line.text, re.IGNORECASE)
    if match and line.inline and not line.text[match.end() :].strip(" ."):
        span = (line.start + match.start(), line.start + match.end())
        yield Claim("no-checkpoint-in-comment", "checkpoint_interval", line, span)


def _precision(line: Line) -> Iterator[Claim]:
    """Yield the precisions in the first paragraph, one by one."""
    for word in _PRECISIONS:
        at = line.lowered.find(word)
        if at < 0:
            continue
        before, rest = line.text[:at].rstrip(), line.text[at + len(word) :].lstrip()
        item = before.endswith((",", "(", "+", "&", "\u2014", " -", " in"))
        if item and (not rest or rest[0] in ",.;)+&" or rest.startswith("on ")):
            span = (line.start + at, line.start + at + len(word))
            kind = "wrong-precision-in-comment"
            made = Claim(kind, "precision", line, span, words=(word,))
            yield made._replace(within=1, first=True)
