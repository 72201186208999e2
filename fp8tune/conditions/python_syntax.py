"""Parse expressions with Python's own parser."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from fp8tune.conditions import ExpressionError, Tree

MAX_LENGTH = 2000

_COMPARE = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
    ast.NotIn: "not in",
}
_ARITHMETIC = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
_CONSTANTS = {"true": True, "false": False}


def read(source: str) -> Tree:
    """Return the tree of one expression; raises ``ExpressionError``."""
    node = _parsed(source)
    try:
        return _Reader(source).tree(node)
    except RecursionError:
        raise ExpressionError("nested too deeply", 0) from None


def _parsed(source: str) -> ast.expr:
    if len(source) > MAX_LENGTH:
        raise ExpressionError(f"longer than {MAX_LENGTH} characters", 0)
    if not source.strip() or source.lstrip()[0] == "#":
        raise ExpressionError("empty", 0)
    try:
        tree = ast.parse(f"({source}\n)", mode="eval")
        if _closes(source):  # possibly the bracket that was added around it
            ast.parse(" ".join(source.split()), mode="eval")
    except SyntaxError as error:
        raise _syntax_error(source, error) from None
    except (RecursionError, MemoryError, ValueError):
        raise ExpressionError("nested too deeply", 0) from None
    return tree.body


class _Reader:
    """Converts Python's trees, and refuses syntax outside the language."""

    def __init__(self, source: str) -> None:
        self.source = source

    def tree(self, node: ast.expr) -> Tree:
        handler = _HANDLERS.get(type(node))
        if handler is None:
            raise self._fail(
                node, f"{type(node).__name__} is not part of the rule language"
            )
        return handler(self, node)

    def _constant(self, node: ast.Constant) -> Tree:
        if not isinstance(node.value, (bool, int, float, str)):
            reason = "only numbers, strings and true or false are constants"
            raise self._fail(node, reason)
        return ("constant", node.value)

    def _name(self, node: ast.Name | ast.Attribute) -> Tree:
        name = self._dotted(node)
        if name in _CONSTANTS:
            return ("constant", _CONSTANTS[name])
        return ("name", name, self._offset(node))

    def _list(self, node: ast.Tuple | ast.List) -> Tree:
        return ("list", *map(self.tree, node.elts))

    def _logic(self, node: ast.BoolOp) -> Tree:
        word = "and" if isinstance(node.op, ast.And) else "or"
        return (word, *map(self.tree, node.values))

    def _arithmetic(self, node: ast.BinOp) -> Tree:
        if type(node.op) not in _ARITHMETIC:
            raise self._fail(node, "this operator is not part of the rule language")
        word = _ARITHMETIC[type(node.op)]
        return (word, self.tree(node.left), self.tree(node.right))

    def _if(self, node: ast.IfExp) -> Tree:
        return ("if", *map(self.tree, (node.test, node.body, node.orelse)))

    def _dotted(self, node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, ast.Attribute):
            return f"{self._dotted(node.value)}.{node.attr}"
        raise self._fail(node, "only names have parts")

    def _unary(self, node: ast.UnaryOp) -> Tree:
        if isinstance(node.op, (ast.Not, ast.USub)):
            word = "not" if isinstance(node.op, ast.Not) else "-"
            return (word, self.tree(node.operand))
        raise self._fail(node, "this operator is not part of the rule language")

    def _compare(self, node: ast.Compare) -> Tree:
        parts: list[Any] = [self.tree(node.left)]
        for op, right in zip(node.ops, node.comparators, strict=True):
            if type(op) not in _COMPARE:
                raise self._fail(
                    node, "`is` is not part of the rule language; write =="
                )
            parts += (_COMPARE[type(op)], self.tree(right))
        return ("compare", *parts)

    def _call(self, node: ast.Call) -> Tree:
        if node.keywords:
            raise self._fail(node, "functions take no named arguments")
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        return ("call", name, self._offset(node), *map(self.tree, node.args))

    def _fail(self, node: ast.AST, reason: str) -> ExpressionError:
        return ExpressionError(reason, self._offset(node))

    def _offset(self, node: ast.AST) -> int:
        """Return where a node starts in the source [characters]."""
        line = getattr(node, "lineno", 1)
        text = f"({self.source}".split("\n")[line - 1].encode()
        column = len(text[: getattr(node, "col_offset", 0)].decode())
        return _offset_in(self.source, line, column)


_HANDLERS: dict[type[ast.expr], Callable[[_Reader, Any], Tree]] = {
    ast.Attribute: _Reader._name,
    ast.BinOp: _Reader._arithmetic,
    ast.BoolOp: _Reader._logic,
    ast.Call: _Reader._call,
    ast.Compare: _Reader._compare,
    ast.Constant: _Reader._constant,
    ast.IfExp: _Reader._if,
    ast.List: _Reader._list,
    ast.Name: _Reader._name,
    ast.Tuple: _Reader._list,
    ast.UnaryOp: _Reader._unary,
}


def _closes(source: str) -> bool:
    """Return whether a bracket closes that was not opened, strings included."""
    depth = 0
    for part in source.split(")")[:-1]:
        depth += part.count("(") - 1
        if depth < 0:
            return True
    return False


def _syntax_error(source: str, error: SyntaxError) -> ExpressionError:
    """Return the error with its place in ``source``, without Python's advice."""
    try:
        ast.parse(f"({source}\n)", mode="eval")
    except SyntaxError as inside:
        column = (inside.offset or 1) - 1
        offset = _offset_in(source, inside.lineno or 1, column)
        return ExpressionError(inside.msg.split(". ")[0], offset)
    offset = min((error.offset or 1) - 1, len(source))
    return ExpressionError(error.msg.split(". ")[0], offset)


def _offset_in(source: str, line: int, column: int) -> int:
    """Return the offset in ``source`` of a place in the text that Python parsed."""
    lines = f"({source}\n".split("\n")
    offset = sum(len(text) + 1 for text in lines[: line - 1]) + column - 1
    return max(0, min(offset, len(source)))
