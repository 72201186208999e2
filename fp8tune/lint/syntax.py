"""Python's own parser, asked about one expression, with errors where they stand."""

from __future__ import annotations

import ast

MAX_LENGTH = 2000


class ExpressionError(Exception):
    """The expression is not of the language; ``offset`` counts characters."""

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.offset = offset


def parse(source: str) -> ast.expr:
    """The tree of one expression; raises ``ExpressionError``."""
    if len(source) > MAX_LENGTH:
        raise ExpressionError(f"longer than {MAX_LENGTH} characters", 0)
    if not source.strip() or source.lstrip()[0] == "#":
        raise ExpressionError("empty", 0)
    try:
        tree = ast.parse(f"({source}\n)", mode="eval")
        if _closes(source):  # maybe the bracket that was put around it
            ast.parse(" ".join(source.split()), mode="eval")
    except SyntaxError as error:
        raise _syntax_error(source, error) from None
    except (RecursionError, MemoryError, ValueError):
        raise ExpressionError("nested too deeply", 0) from None
    return tree.body


def _closes(source: str) -> bool:
    """Whether a bracket closes that was not opened, be it in a string or not."""
    depth = 0
    for part in source.split(")")[:-1]:
        depth += part.count("(") - 1
        if depth < 0:
            return True
    return False


def _syntax_error(source: str, error: SyntaxError) -> ExpressionError:
    """The error where it stands in ``source``, without Python's advice."""
    try:
        ast.parse(f"({source}\n)", mode="eval")
    except SyntaxError as inside:
        column = (inside.offset or 1) - 1
        offset = offset_in(source, inside.lineno or 1, column)
        return ExpressionError(inside.msg.split(". ")[0], offset)
    offset = min((error.offset or 1) - 1, len(source))
    return ExpressionError(error.msg.split(". ")[0], offset)


def offset_in(source: str, line: int, column: int) -> int:
    """The offset into ``source`` of a place in the text that Python parsed."""
    lines = f"({source}\n".split("\n")
    offset = sum(len(text) + 1 for text in lines[: line - 1]) + column - 1
    return max(0, min(offset, len(source)))
