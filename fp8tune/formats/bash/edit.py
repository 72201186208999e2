"""Give a flag of a script another value: where it is written, or in its variable.

What may be meant is found in the text. Whether the script then says what it should is
for the caller to check, by reading it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any

from fp8tune.formats.bash.words import comment_spans
from fp8tune.formats.document import Span
from fp8tune.formats.edits import Edit

_GAP = r"(?:=|(?:[ \t]|\\\n|\n)+)"
_WORD = r"""(?P<word>[^\s"'()\\$;]+)"""
_VARIABLE = r"""\$\{?(?P<name>[A-Za-z_]\w*)(?::?-(?P<default>[^\s"'{}$]+))?\}?"""
_VALUE = rf"""(?P<quote>["']?)(?:{_VARIABLE}|{_WORD})"""
_END = r"""(?P=quote)(?=[\s"')\\;]|\Z)"""
_ASSIGNED = rf"(?m)(?<![\w$-])%s={_VALUE}{_END}"


def code_of(text: str) -> str:
    """Return a script with blanks for its comments."""
    parts, done = [], 0
    for start, end in comment_spans(text):
        parts += [text[done:start], " " * (end - start)]
        done = end
    return "".join([*parts, text[done:]])


def value_edits(
    text: str, flag: str, old: Callable[[str], bool], new: Any
) -> Iterator[list[Edit]]:
    """Yield ways to give a flag another value, the best first.

    ``flag`` is as written, ``old`` says whether a word is its value. Where a variable
    stands behind it that nothing else uses, its assignment changes, else the variable
    is replaced.
    """
    code, word = code_of(text), shlex.quote(str(new))
    places = list(re.finditer(f"{written(flag)}{_GAP}{_VALUE}{_END}", code))
    literal = [Edit(*span, word) for m in places for span in _literal(m, old)]
    whole = [Edit(m.start("quote"), m.end(), word) for m in places if m["name"]]
    names = dict.fromkeys(m["name"] for m in places if m["name"] and not m["default"])
    best = literal
    for name in names:
        assigned = list(re.finditer(_ASSIGNED % name, code))
        mine = [m.span() for m in (*places, *assigned)]
        uses = (m.start() for m in re.finditer(rf"\b{name}\b", code))
        if all(any(start <= use < end for start, end in mine) for use in uses):
            best += [Edit(*span, word) for m in assigned for span in _literal(m, old)]
        else:
            of_name = (m for m in places if m["name"] == name)
            best += [Edit(m.start("quote"), m.end(), word) for m in of_name]
    words = [
        Edit(*m.span("word"), word) for m in places if m["word"] and old(m["word"])
    ]
    for edits in (best, words + whole):
        if edits:
            yield edits


def _literal(found: re.Match[str], old: Callable[[str], bool]) -> Iterator[Span]:
    """Yield the span of a value that is written: a word, or a variable's default."""
    part = "word" if found["word"] else "default"
    if found[part] and old(found[part]):
        yield found.span(part)


def written(flag: str) -> str:
    """Return the pattern of a flag where it begins a word."""
    return rf"(?<![\w-]){re.escape(flag)}"


def end_of(text: str, flag: str) -> int:
    """Return where a flag ends with its value, -1 if it is not written."""
    places = re.finditer(rf"{written(flag)}(?:{_GAP}{_VALUE}{_END})?", code_of(text))
    return max((found.end() for found in places), default=-1)
