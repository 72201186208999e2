"""Select the claims that count: plain, in the right place, and undisputed."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import Any

from fp8tune.formats.document import Span
from fp8tune.lint.claims import BESIDE, Claim
from fp8tune.lint.claims.prose import Comments
from fp8tune.lint.claims.speech import describes, hedged

_WHOLE_TITLE = (
    "wrong-gpus-in-comment",
    "wrong-precision-in-comment",
    "no-checkpoint-in-comment",
)
_OF_ALL = (
    "wrong-batch-in-comment",
    "wrong-tokens-in-comment",
    "wrong-size-in-comment",
)
_SHARE = r"(?<![0-9] )(?<![0-9]-)\b(?:gpu|rank|device|card|node|expert|stage)\b"
_ITEM = r"\n[ \t]*#+[ \t]*[A-Z]"
"""A line that begins a new sentence."""


class Stated:
    """The claims of a file; ``names`` may precede ``=``."""

    def __init__(
        self, comments: Comments, claims: Sequence[Claim], names: Container[str]
    ) -> None:
        self.comments = comments
        self.claims = claims
        self.names = names
        self._stated: dict[Span, bool] = {}

    def holds(self, claim: Claim) -> bool:
        """Return whether a claim is stated plainly, and no other one disputes it."""
        return self.states(claim) and not any(
            other.name == claim.name != BESIDE
            and _said(other) != _said(claim)
            and self.states(other)
            for other in self.claims
        )

    def states(self, claim: Claim) -> bool:
        """Return whether a claim is in place, in a sentence about this run."""
        if claim.span not in self._stated:
            words, paragraph, first = self.comments.sentence(claim.span)
            there = claim.line.header and paragraph < claim.within
            placed = (there or not claim.within) and (first or not claim.first)
            title = claim.line.header and paragraph == 0 and first
            of_this = not hedged(words) and self._of_this(claim, words, title=title)
            self._stated[claim.span] = placed and of_this
        return self._stated[claim.span]

    def _of_this(self, claim: Claim, words: str, *, title: bool) -> bool:
        """Return whether a plain sentence is about this run, and about all of it."""
        if claim.kind in _WHOLE_TITLE:
            return True
        start, end = claim.span
        text = self.comments.text
        if claim.kind in _OF_ALL and re.search(_SHARE, words.lower()):
            return False
        if claim.name == "ac" and text[end : end + 1] == ":":
            return False  # the label of a figure, possibly in a list of modes
        before, _, behind = words.partition(text[start:end])
        beside = f"{before} {re.split(_ITEM, behind, maxsplit=1)[0]}"
        return describes(beside, self.names, title=title)


def _said(claim: Claim) -> Any:
    figure = claim.figure
    return claim.words or (figure and (figure.value, figure.scale.upper()))
