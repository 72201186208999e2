"""Words and values of a script, with the pieces of them that only a run determines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from fp8tune.formats.document import HOLE

FLAG = re.compile(r"--[A-Za-z][\w.-]*(?==|$)")
"""A flag, with its value behind a sign or without one."""

CONDITION = "is set on a condition"


class Unknown(NamedTuple):
    """An unresolvable piece: its text, and why.

    ``flags`` are those that may be among the words it stands for, with whether an
    unknown value follows; ``None`` if it may be any words.
    """

    text: str
    reason: str
    flags: dict[str, bool] | None = None


class Word(NamedTuple):
    """One word of a command; each ``HOLE`` in it is a piece in ``unknown``."""

    text: str
    unknown: Unknown | None = None


def hole(text: str, reason: str) -> Word:
    """Return the word of a piece that only a run determines."""
    return Word(HOLE, Unknown(text, reason))


def join(words: Iterable[Word], between: str = "") -> Word:
    """Join several words into one."""
    known = list(words)
    pieces = [word.unknown for word in known if word.unknown]
    unknown = pieces[0] if pieces else None
    for piece in pieces[1:]:
        if unknown is not None and unknown.flags is not None:
            more = piece.flags
            both = None if more is None else unknown.flags | more
            unknown = unknown._replace(flags=both)
    return Word(between.join(word.text for word in known), unknown)


Value = Word | list[Word]
"""A text, or an array."""


def either(name: str, values: Sequence[Value | None]) -> Value:
    """Return what a variable is that has one of several values.

    It is what all begin with, then an unknown piece, with the flags that may be in it.
    A text that is not set may come from outside; an array is empty then.
    """
    unknown = Unknown(f"${name}", CONDITION)
    known = [value or [] for value in values]
    text = not any(isinstance(value, list) for value in values)
    if text and (None in values or any(map(_is_open, known))):
        return Word(HOLE, unknown)
    lists = [value if isinstance(value, list) else [value] for value in known]
    if text:
        lists = [[*split(words[0])] for words in lists]
    same = 0
    for each in zip(*lists, strict=False):
        if any(word != each[0] for word in each):
            break
        same += 1
    rests = [words[same:] for words in lists]
    rest = Word(HOLE, unknown._replace(flags=flags(rests)))
    found = [*lists[0][:same], *[rest] * any(rests)]
    return join(found, " ") if text else found


def _is_open(value: Value) -> bool:
    """Whether a text has a piece that may be any words."""
    piece = value.unknown if isinstance(value, Word) else None
    return piece is not None and piece.flags is None


def split(word: Word) -> Iterator[Word]:
    """Yield the words of a text."""
    for text in word.text.split(" "):
        yield Word(text, word.unknown if HOLE in text else None)


def flags(alternatives: Iterable[list[Word]]) -> dict[str, bool] | None:
    """Return the flags in them, ``None`` where words may belong to other flags."""
    found: dict[str, bool] = {}
    for words in alternatives:
        flag = ""
        pieces = (word._replace(text=t) for word in words for t in word.text.split())
        for word in pieces:
            name = FLAG.match(word.text)
            if name:
                flag = name[0]
                found[flag] = found.get(flag, False) or bool(word.unknown)
            elif word.unknown and word.unknown.flags is not None:
                found |= word.unknown.flags
            elif not flag:
                return None
            elif word.unknown:
                found[flag] = True
    return found


def with_holes(words: list[Word], outer: Word) -> Iterator[Word]:
    """Yield the words of a text; its unknown parts stay unknown in them."""
    for word in words:
        inside = HOLE in word.text and not word.unknown
        yield word._replace(unknown=outer.unknown) if inside else word
