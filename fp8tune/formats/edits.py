"""Edits of a text, which leave every other character as it is; and patches."""

# no future annotations: as strings, they double the import time of a NamedTuple
import os
import re
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple


class CannotEdit(Exception):
    """The text is written in a way that this edit does not cover."""


class Edit(NamedTuple):
    """Replace the characters from ``start`` to ``end`` by ``text``.

    -1 is the position of a byte-order mark.
    """

    start: int
    end: int
    text: str


def apply(text: str, edits: Iterable[Edit]) -> str:
    """Return the text after all edits; raises ``CannotEdit`` if they overlap."""
    parts, end = [], 0
    for edit in in_order(edits):
        parts += [text[end : edit.start], edit.text]
        end = edit.end
    return "".join([*parts, text[end:]])


def in_order(edits: Iterable[Edit]) -> list[Edit]:
    """Return the edits sorted by position; raises ``CannotEdit`` if they overlap."""
    ordered = sorted(edits, key=_place)
    if any(after.start < before.end for before, after in pairwise(ordered)):
        raise CannotEdit("edits overlap")
    return ordered


def _place(edit: Edit) -> tuple[int, int, bool, str]:
    """By place; at the end of a text, keys of its last table before new tables."""
    return edit.start, edit.end, edit.text.lstrip().startswith("["), edit.text


def unified_diff(path: str, before: bytes, after: bytes) -> str:
    """Return the changes of a file as a unified diff."""
    import difflib

    old, new = (
        re.findall(r"[^\n]*\n|[^\n]+", data.decode(errors="surrogateescape"))
        for data in (before, after)
    )
    name = _quoted(path)
    lines = difflib.unified_diff(old, new, name, name)
    marked = (
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in lines
    )
    return "".join(marked)


def _quoted(path: str) -> str:
    """Return a file's name as git writes it in a diff: quoted if necessary."""
    if path.isprintable() and not set(path) & set('"\\'):
        return f"{path}\t" if " " in path else path
    octal = (f"\\{byte:03o}" for byte in os.fsencode(path))
    return f'"{"".join(octal)}"'
