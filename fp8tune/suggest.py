"""Suggestions for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

CUTOFF = 0.75
"""Least similarity of a name, and of the words in which it differs [0 to 1]."""


def closest(word: str, candidates: Iterable[str]) -> str:
    """Return the candidate most like ``word``, or ``""`` if none is close."""
    if len(word) > 100:
        return ""
    import difflib

    folded = {name.casefold().replace("-", "_"): name for name in candidates}
    wanted = word.casefold().strip().replace("-", "_")
    if wanted in folded:
        return folded[wanted]
    near = difflib.get_close_matches(wanted, folded, n=1, cutoff=CUTOFF)
    return folded[near[0]] if near and _words_alike(wanted, near[0]) else ""


def meant(word: Any, candidates: Iterable[str]) -> str:
    """Return ``; did you mean `x`?`` for the candidate like a word, ``""`` without."""
    near = closest(word, candidates) if isinstance(word, str) else ""
    return f"; did you mean `{near}`?" if near else ""


def _words_alike(one: str, other: str) -> bool:
    """Whether the words in which two names differ are alike: ``mpi`` is not ``mup``."""
    import difflib

    words, others = one.split("_"), other.split("_")
    left = "_".join(word for word in words if word not in others)
    right = "_".join(word for word in others if word not in words)
    if not left or not right:  # `log_params` may be short for a longer name
        return one == other or other.startswith(f"{one}_") or left == right
    if left.startswith(right) or right.startswith(left):  # len is short for length
        return True
    if left.count("_") != right.count("_"):  # `mup_scale` is not `mscale`
        return left.replace("_", "") == right.replace("_", "")
    return difflib.SequenceMatcher(None, left, right).ratio() >= CUTOFF
