"""Edits of a text: every character outside of them stays as it is."""

from __future__ import annotations

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
