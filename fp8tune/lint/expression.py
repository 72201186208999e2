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

from fp8tune.job import Prose, Unknown
from fp8tune.lint.kleene import Compiled, every, some
from fp8tune.lint.syntax import ExpressionError, offset_in, parse

Compared = Callable[[Any, Any], Any]


def _round(value: Any, digits: int = 0) -> Any:
    """Round to at most 15 digits on either side of the point."""
    return round(value, max(-15, min(15, digits))) if digits else round(value)


_COMPARE: dict[type[ast.cmpop], Compared] = {
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
    tree = parse(source)
    compiler = _Compiler(source, knows, on_scope)
    try:
        return Expression(compiler.node(tree), tuple(compiler.names))
    except RecursionError:
        raise ExpressionError("nested too deeply", 0) from None


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
        self.calls = 0

    def fail(self, node: ast.AST, reason: str) -> ExpressionError:
        line = getattr(node, "lineno", 1)
        text = f"({self.source}".split("\n")[line - 1].encode()
        column = len(text[: getattr(node, "col_offset", 0)].decode())
        return ExpressionError(reason, offset_in(self.source, line, column))

    def node(self, node: ast.expr) -> Compiled:
        handler = _HANDLERS.get(type(node))
        if handler is None:
            raise self.fail(node, f"{type(node).__name__} is not of the rule language")
        return handler(self, node)

    def _constant(self, node: ast.Constant) -> Compiled:
        value = node.value
        if not isinstance(value, (bool, int, float, str)):
            raise self.fail(
                node, "only numbers, strings and true or false are constants"
            )
        constant = Prose(value) if isinstance(value, str) else value
        return lambda _scope: constant

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
        return operator.itemgetter(name)

    def _tuple(self, node: ast.Tuple | ast.List) -> Compiled:
        items = [self.node(item) for item in node.elts]
        return lambda scope: [item(scope) for item in items]

    def _boolop(self, node: ast.BoolOp) -> Compiled:
        if isinstance(node.op, ast.And):
            return every([self._part(value) for value in node.values])
        return some([self.node(value) for value in node.values])

    def _part(self, node: ast.expr) -> tuple[Compiled, tuple[str, ...]]:
        """A part of an ``and``, and the names that it cannot do without."""
        before, calls = self.names, self.calls
        self.names = {}
        compiled = self.node(node)
        names = () if self.calls > calls else tuple(self.names)
        self.names = before | self.names
        return compiled, names

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
        if len(rest) == 1:
            return self._compare_two(first, *rest[0], node.comparators[0])

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

    def _compare_two(
        self, first: Compiled, compare: Compared, second: Compiled, node: ast.expr
    ) -> Compiled:
        """One comparison, with a constant on its right as a rule: nearly all are."""
        if isinstance(node, ast.Constant):
            value = node.value

            def beside_constant(scope: Any) -> bool:
                left = first(scope)
                try:
                    return bool(compare(left, value))
                except TypeError:
                    raise Unknown(self.source) from None

            return beside_constant

        def evaluate(scope: Any) -> bool:
            left, right = first(scope), second(scope)
            try:
                return bool(compare(left, right))
            except TypeError:
                raise Unknown(self.source) from None

        return evaluate

    def _ifexp(self, node: ast.IfExp) -> Compiled:
        test, then, other = map(self.node, (node.test, node.body, node.orelse))
        return lambda scope: then(scope) if test(scope) else other(scope)

    def _call(self, node: ast.Call) -> Compiled:
        self.calls += 1
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


_HANDLERS: dict[type[ast.expr], Callable[[_Compiler, Any], Compiled]] = {
    ast.Attribute: _Compiler._attribute,
    ast.BinOp: _Compiler._binop,
    ast.BoolOp: _Compiler._boolop,
    ast.Call: _Compiler._call,
    ast.Compare: _Compiler._compare,
    ast.Constant: _Compiler._constant,
    ast.IfExp: _Compiler._ifexp,
    ast.List: _Compiler._tuple,
    ast.Name: _Compiler._name,
    ast.Tuple: _Compiler._tuple,
    ast.UnaryOp: _Compiler._unaryop,
}


def _number(value: Any) -> Any:
    """Refuse arithmetic on anything but numbers: ``%`` and ``*`` act on text too."""
    if isinstance(value, (int, float)):
        return value
    raise Unknown("a number")
