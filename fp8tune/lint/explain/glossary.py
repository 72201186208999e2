"""The words that fp8tune uses, and what they mean (``glossary.toml``)."""

from __future__ import annotations

import os.path
import re
import tomllib
from functools import cache
from typing import NamedTuple


class Term(NamedTuple):
    """One word; the fields are explained in ``glossary.toml``."""

    name: str
    meaning: str
    also: list[str] = []
    see: str = ""


@cache
def terms() -> tuple[Term, ...]:
    """All words, in the order of the file."""
    path = os.path.join(os.path.dirname(__file__), "glossary.toml")
    with open(path, "rb") as file:
        entries = tomllib.load(file)["term"]
    return tuple(Term(**entry) for entry in entries)


def term(word: str) -> Term | None:
    """The entry of a word, however it is spelt; ``None`` if there is none."""
    for entry in terms():
        if _folded(word) in map(_folded, (entry.name, *entry.also)):
            return entry
    return None


def _folded(word: str) -> str:
    return re.sub(r"[-\s]+", " ", word.casefold().strip())
