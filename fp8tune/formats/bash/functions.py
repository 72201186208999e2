"""The bodies of a script's functions."""

from __future__ import annotations

from collections.abc import Iterator

from fp8tune.formats.bash.words import RESERVED, BadScript, Token


def body_of(each: Iterator[Token]) -> list[Token]:
    """Take the tokens of ``{ ... }`` and what is before it; raises ``BadScript``.

    Before it are the parentheses behind the name, and new lines.
    """
    for token in each:
        if token.plain == "{":
            return list(_up_to_the_end(each))
        if token.operator not in ("()", "\n"):
            raise BadScript(token.line, "the body of a function is not in { }")
    return []


def _up_to_the_end(each: Iterator[Token]) -> Iterator[Token]:
    """Yield the tokens up to the ``}`` that closes what has been opened."""
    depth, first = 1, True
    for token in each:
        if first and token.plain in ("{", "}"):
            depth += 1 if token.plain == "{" else -1
        if not depth:
            return
        yield token
        first = bool(token.operator) or (first and token.plain in RESERVED)
