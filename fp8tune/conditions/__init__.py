"""The language of conditions, of rules and of what trainers refuse.

Its syntax is a small part of Python's.

An expression becomes a tree of plain tuples, so that a wheel can contain the trees of
the built-in rules. Nothing is ever ``eval``-ed.
"""

from __future__ import annotations

from typing import Any

Tree = tuple[Any, ...]
"""A node: its kind, and what it is made of.

``("constant", value)``, ``("name", name, offset)``, ``("list", *items)``,
``("and", *parts)``, ``("or", *parts)``, ``("not", part)``, ``("-", part)``,
``("if", test, then, other)``, ``("compare", left, operator, right, ...)``,
``("call", function, offset, *arguments)``, and ``("+", left, right)`` with the other
operators of arithmetic. An offset counts characters of the source.
"""

KNOWN: dict[str, Tree] = {}
"""Trees of expressions by their source; those of a wheel's rules lie ready in it."""


class ExpressionError(Exception):
    """The expression is not in the language.

    ``offset`` counts characters, ``unknown`` is a name in it that does not exist.
    """

    def __init__(self, reason: str, offset: int, unknown: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.offset = offset
        self.unknown = unknown


def parse(source: str) -> Tree:
    """Return the tree of one expression; raises ``ExpressionError``."""
    if source not in KNOWN:
        from fp8tune.conditions.python_syntax import read

        KNOWN[source] = read(source)
    return KNOWN[source]
