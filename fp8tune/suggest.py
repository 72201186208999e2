"""Suggestions for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable


def closest(word: str, candidates: Iterable[str]) -> str:
    """Return the candidate most like ``word``, or ``""`` if none is close."""
    if len(word) > 100:
        return ""
    import difflib

    folded = {name.casefold().replace("-", "_"): name for name in candidates}
    wanted = word.casefold().strip().replace("-", "_")
    if wanted in folded:
        return folded[wanted]
    near = difflib.get_close_matches(wanted, folded, n=1, cutoff=0.75)
    return folded[near[0]] if near else ""
