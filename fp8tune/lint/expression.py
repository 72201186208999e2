"""The language of rule conditions: a small, safe subset of Python expressions.

``precision == "fp8" and tp > 1`` is parsed once, checked against the names that
rules may use, and compiled to closures; nothing is ever ``eval``-ed. A name whose
value is unknown makes its comparison unknown; ``and`` is false if any part is
false and ``or`` true if any part is true, else unknown parts win. Unknown raises
``Unknown``: the rule does not apply.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fp8tune.job import Unknown

Compiled = Callable[[Any], Any]
MAX_LENGTH = 2000


def _round(value: Any, digits: int = 0) -> Any:
    """Round to at most 15 digits on either side of the point."""
    return round(value, max(-15, min(15, digits))) if digits else round(value)


_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "len": len,
    "min": min,
    "max": max,
    "abs": abs,
    "round": _round,
}
_CONSTANTS = {"true": True, "false": False}


class ExpressionError(Exception):
    """The expression is not of the language; ``offset`` counts characters."""

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.offset = offset


class Expression(NamedTuple):
    """A compiled expression and the names that it reads."""

    evaluate: Compiled
    names: tuple[str, ...]


def compile_expression(
    source: str,
    knows: Callable[[str], bool],
    on_scope: Mapping[str, Callable[[Any, str], Any]],
) -> Expression:
    """Compile ``source``.

    ``knows`` tells which names exist; ``on_scope`` are functions of the scope and
    of one name, such as ``defined(tp)`` and ``key(tp)``. Raises
    ``ExpressionError``, with ``reason`` starting ``unknown name`` for a name that
    does not exist.
    """
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
    compiler = _Compiler(source, knows, on_scope)
    try:
        return Expression(compiler.node(tree.body), tuple(compiler.names))
    except RecursionError:
        raise ExpressionError("nested too deeply", 0) from None


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
        offset = _offset(source, inside.lineno or 1, column)
        return ExpressionError(inside.msg.split(". ")[0], offset)
    offset = min((error.offset or 1) - 1, len(source))
    return ExpressionError(error.msg.split(". ")[0], offset)


def _offset(source: str, line: int, column: int) -> int:
    """The offset into ``source`` of a place in the text that Python parsed."""
    lines = f"({source}\n".split("\n")
    offset = sum(len(text) + 1 for text in lines[: line - 1]) + column - 1
    return max(0, min(offset, len(source)))


class _Compiler:
    def __init__(
        self,
        source: str,
        knows: Callable[[str], bool],
        on_scope: Mapping[str, Callable[[Any, str], Any]],
    ) -> None:
        self.source = source
        self.knows = knows
        self.on_scope = on_scope
        self.names: dict[str, None] = {}

    def fail(self, node: ast.AST, reason: str) -> ExpressionError:
        line = getattr(node, "lineno", 1)
        text = f"({self.source}".split("\n")[line - 1].encode()
        column = len(text[: getattr(node, "col_offset", 0)].decode())
        return ExpressionError(reason, _offset(self.source, line, column))

    def node(self, node: ast.expr) -> Compiled:
        handler: Callable[[Any], Compiled] | None = getattr(
            self, f"_{type(node).__name__.lower()}", None
        )
        if handler is None:
            raise self.fail(node, f"{type(node).__name__} is not of the rule language")
        return handler(node)

    def _constant(self, node: ast.Constant) -> Compiled:
        value = node.value
        if not isinstance(value, (bool, int, float, str)):
            raise self.fail(
                node, "only numbers, strings and true or false are constants"
            )
        return lambda _scope: value

    def _name(self, node: ast.Name) -> Compiled:
        if node.id in _CONSTANTS:
            value = _CONSTANTS[node.id]
            return lambda _scope: value
        return self._read(node, node.id)

    def _attribute(self, node: ast.Attribute) -> Compiled:
        return self._read(node, self._dotted(node))

    def _dotted(self, node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, ast.Attribute):
            return f"{self._dotted(node.value)}.{node.attr}"
        raise self.fail(node, "only names have parts")

    def _read(self, node: ast.expr, name: str) -> Compiled:
        if not self.knows(name):
            raise self.fail(node, f"unknown name `{name}`")
        self.names[name] = None
        return lambda scope: scope[name]

    def _tuple(self, node: ast.Tuple | ast.List) -> Compiled:
        items = [self.node(item) for item in node.elts]
        return lambda scope: [item(scope) for item in items]

    _list = _tuple

    def _boolop(self, node: ast.BoolOp) -> Compiled:
        parts = [self.node(value) for value in node.values]
        decisive = isinstance(node.op, ast.Or)

        def evaluate(scope: Any) -> bool:
            unknown = None
            for part in parts:
                try:
                    if bool(part(scope)) is decisive:
                        return decisive
                except Unknown as error:
                    unknown = error
            if unknown is not None:
                raise unknown
            return not decisive

        return evaluate

    def _unaryop(self, node: ast.UnaryOp) -> Compiled:
        operand = self.node(node.operand)
        if isinstance(node.op, ast.Not):
            return lambda scope: not operand(scope)
        if isinstance(node.op, ast.USub):
            return lambda scope: -_number(operand(scope))
        raise self.fail(node, "this operator is not of the rule language")

    def _binop(self, node: ast.BinOp) -> Compiled:
        apply = _ARITHMETIC.get(type(node.op))
        if apply is None:
            raise self.fail(node, "this operator is not of the rule language")
        left, right = self.node(node.left), self.node(node.right)

        def evaluate(scope: Any) -> Any:
            try:
                return apply(_number(left(scope)), _number(right(scope)))
            except ArithmeticError:
                raise Unknown(self.source) from None

        return evaluate

    def _compare(self, node: ast.Compare) -> Compiled:
        first = self.node(node.left)
        rest = [
            (_COMPARE[type(op)], self.node(right))
            for op, right in zip(node.ops, node.comparators, strict=True)
            if type(op) in _COMPARE
        ]
        if len(rest) < len(node.ops):
            raise self.fail(node, "`is` is not of the rule language; write ==")

        def evaluate(scope: Any) -> bool:
            left = first(scope)
            for compare, right in rest:
                value = right(scope)
                try:
                    if not compare(left, value):
                        return False
                except TypeError:
                    raise Unknown(self.source) from None
                left = value
            return True

        return evaluate

    def _ifexp(self, node: ast.IfExp) -> Compiled:
        test, then, other = map(self.node, (node.test, node.body, node.orelse))
        return lambda scope: then(scope) if test(scope) else other(scope)

    def _call(self, node: ast.Call) -> Compiled:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if node.keywords:
            raise self.fail(node, "functions take no named arguments")
        if name in self.on_scope:
            return self._call_on_name(node, name)
        function = _FUNCTIONS.get(name)
        if function is None:
            allowed = ", ".join([*self.on_scope, *_FUNCTIONS])
            raise self.fail(node, f"no such function; there are {allowed}")
        arguments = [self.node(argument) for argument in node.args]

        def evaluate(scope: Any) -> Any:
            values = [argument(scope) for argument in arguments]
            try:
                return function(*values)
            except (TypeError, ValueError, ArithmeticError):
                raise Unknown(self.source) from None

        return evaluate

    def _call_on_name(self, node: ast.Call, name: str) -> Compiled:
        if len(node.args) != 1:
            raise self.fail(node, f"{name}() takes one name")
        target = self._dotted(node.args[0])
        self._read(node.args[0], target)
        function = self.on_scope[name]
        return lambda scope: function(scope, target)


def _number(value: Any) -> Any:
    """Refuse arithmetic on anything but numbers: ``%`` and ``*`` act on text too."""
    if isinstance(value, (int, float)):
        return value
    raise Unknown("a number")
