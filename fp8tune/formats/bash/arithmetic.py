"""Evaluate the arithmetic of bash, ``$((NODES * 8))``, on known whole numbers.

``+ - * / %`` and parentheses are evaluated, nothing else: no assignments, comparisons,
powers or other bases.
"""

from __future__ import annotations

import re
from collections.abc import Callable

MAX_LENGTH = 1000
"""Longest expression that is evaluated [characters]."""
MAX_DEPTH = 16
"""Deepest nesting of parentheses and signs that is evaluated."""
MAX_NUMBER = 2**53
"""Numbers from here on are not evaluated; those of bash have 64 bits."""

_WORD = re.compile(r"\s*(\w+|\+\+|--|\*\*|[^\w\s])", re.ASCII)
_NUMBER = re.compile("0|[1-9][0-9]{0,15}")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


_ASSIGNED = re.compile(
    r"\b([A-Za-z_]\w*)\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)"
    r"|(?:\+\+|--)\s*([A-Za-z_]\w*)",
    re.ASCII,
)


class NotEvaluated(Exception):
    """The text is not arithmetic on known whole numbers."""


def evaluate(text: str, value: Callable[[str], str]) -> int:
    """Return the value of an expression; raises ``NotEvaluated``.

    ``value`` returns the text of a variable that is named without ``$``.
    """
    if len(text) > MAX_LENGTH:
        raise NotEvaluated
    return _Expression(_WORD.findall(text), value).whole()


def assigned(text: str) -> set[str]:
    """Return the variables that an expression may set, as ``N = 8`` and ``N++`` do."""
    return {first or second for first, second in _ASSIGNED.findall(text)}


class _Expression:
    def __init__(self, words: list[str], value: Callable[[str], str]) -> None:
        self.words, self.value = [*words, ""], value
        self.at, self.depth = 0, 0

    def take(self) -> str:
        self.at += 1
        return self.words[self.at - 1]

    def whole(self) -> int:
        result = self.sum()
        if self.take():
            raise NotEvaluated
        return result

    def sum(self) -> int:
        result = self.product()
        while self.words[self.at] in ("+", "-"):
            sign = 1 if self.take() == "+" else -1
            result = _bounded(result + sign * self.product())
        return result

    def product(self) -> int:
        result = self.operand()
        while self.words[self.at] in ("*", "/", "%"):
            result = _bounded(_combined(result, self.take(), self.operand()))
        return result

    def operand(self) -> int:
        word = self.take()
        if word in ("+", "-", "("):
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise NotEvaluated
            result = self.sum() if word == "(" else self.operand()
            self.depth -= 1
            if word == "(" and self.take() != ")":
                raise NotEvaluated
            return -result if word == "-" else result
        text = self.value(word) if _NAME.fullmatch(word) else word
        sign = -1 if text.startswith("-") and text != word else 1
        digits = text[1:] if sign < 0 else text
        if not _NUMBER.fullmatch(digits):
            raise NotEvaluated
        return _bounded(sign * int(digits))


def _combined(left: int, sign: str, right: int) -> int:
    """Multiply or divide as bash does: a quotient is rounded towards zero."""
    if sign == "*":
        return left * right
    if right == 0:
        raise NotEvaluated
    quotient = abs(left) // abs(right) * (1 if (left < 0) is (right < 0) else -1)
    return quotient if sign == "/" else left - quotient * right


def _bounded(number: int) -> int:
    if abs(number) >= MAX_NUMBER:
        raise NotEvaluated
    return number
