"""Words and values of a script, with the pieces of them that only a run determines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, repeat
from typing import NamedTuple

from fp8tune.formats.document import HOLE

FLAG = re.compile(r"--[A-Za-z][\w.-]*(?==|$)")
"""A flag, with its value behind a sign or without one."""

CONDITION = "is set on a condition"


MAX_LENGTH = 1 << 16
"""Longest text that is kept [characters]."""


class Unknown(NamedTuple):
    """An unresolvable piece: its text, and why.

    ``flags`` are those that may be among the words it stands for, with whether an
    unknown value follows; ``None`` if it may be any words. ``argument``: it is an
    argument of the script, which was not given.
    """

    text: str
    reason: str
    flags: dict[str, bool] | None = None
    argument: bool = False


class Word(NamedTuple):
    """One word of a command, with the unknown piece of each ``HOLE`` in its text."""

    text: str
    holes: tuple[Unknown, ...] = ()

    @property
    def unknown(self) -> Unknown | None:
        """The first unknown piece, if any."""
        return self.holes[0] if self.holes else None


def hole(text: str, reason: str, flags: dict[str, bool] | None = None) -> Word:
    """Return the word of a piece that only a run determines."""
    return Word(HOLE, (Unknown(text, reason, flags),))


def join(words: Iterable[Word], between: str = "") -> Word:
    """Join several words into one; what becomes too long is unknown."""
    words = list(words)
    if sum(len(word.text) for word in words) > MAX_LENGTH:
        return hole("a text", "is too long")
    holes = tuple([piece for word in words for piece in word.holes])
    return Word(between.join([word.text for word in words]), holes)


Value = Word | list[Word]
"""A text, or an array."""


def either(name: str, values: Sequence[Value | None]) -> Value:
    """Return what a variable is that has one of several values.

    It is what all begin with, then an unknown piece, with the flags that may be in it.
    A text that is not set may come from outside; an array is empty then.
    """
    is_text = not any(isinstance(value, list) for value in values)
    if is_text and None in values:
        return hole(f"${name}", CONDITION)
    lists = [
        []
        if value is None
        else value
        if isinstance(value, list)
        else [*split(value, " ")]
        if is_text
        else [value]
        for value in values
    ]
    same = 0
    for each in zip(*lists, strict=False):
        if any(word != each[0] for word in each):
            break
        same += 1
    rests = [words[same:] for words in lists]
    rest = hole(f"${name}", CONDITION, flags(rests))
    words = [*lists[0][:same], *[rest] * any(rests)]
    return join(words, " ") if is_text else words


def split(word: Word, between: str | None = None) -> Iterator[Word]:
    """Yield the words of a text, each with its own unknown pieces."""
    holes = iter(word.holes)
    for text in word.text.split(between):
        yield Word(text, tuple(islice(holes, text.count(HOLE))))


def flags(alternatives: Iterable[list[Word]]) -> dict[str, bool] | None:
    """Return the flags in them, ``None`` where words may belong to other flags."""
    found: dict[str, bool] = {}
    for words in alternatives:
        flag = ""
        for word in (piece for each in words for piece in split(each)):
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


_MARKS = range(0xE000, 0xF8FF)
"""Characters of no script, each of which stands for one unknown piece."""


def marked(text: Word) -> str:
    """Return a text to be read as a script, with a character for each unknown piece."""
    marks = chain(map(chr, _MARKS), repeat(chr(_MARKS.stop)))
    return re.sub(HOLE, lambda _: next(marks), text.text)


def unmarked(words: Iterable[Word], text: Word) -> Iterator[Word]:
    """Yield the words of a marked text with the unknown pieces of the text."""
    last = len(text.holes) - 1
    for word in words:
        holes: list[Unknown] = []
        own = iter(word.holes)
        for sign in re.findall(f"[{HOLE}\ue000-\uf8ff]", word.text):
            if sign == HOLE:
                holes += islice(own, 1)
            elif text.holes:
                holes.append(text.holes[min(ord(sign) - _MARKS.start, last)])
        yield Word(re.sub("[\ue000-\uf8ff]", HOLE, word.text), tuple(holes))
