"""The language of rule conditions: a small, safe subset of Python expressions.

``precision == "fp8" and tp > 1`` is parsed once, checked against the names that rules
may use, and compiled to closures; nothing is ever ``eval``-ed. A name with an unknown
value makes its comparison unknown. ``and`` is false if any part is false and ``or`` is
true if any part is true; otherwise an unknown part makes the whole unknown. An unknown
result raises ``Unknown``: the rule does not apply. Of an unknown part only ``args`` are
kept: an exception would keep its frame alive, and with it the whole config.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from fp8tune.conditions import ExpressionError, Tree, parse
from fp8tune.job import Prose, Unknown

Compiled = Callable[[Any], Any]
"""Works out a part for a scope; raises ``Unknown``."""

Compared = Callable[[Any, Any], Any]


def defined(scope: Any, name: str) -> bool:
    """Whether a name has a value that is known."""
    try:
        scope[name]
    except Unknown:
        return False
    return True


def _round(value: Any, digits: int = 0) -> Any:
    """Round to at most 15 digits on either side of the point."""
    return round(value, max(-15, min(15, digits))) if digits else round(value)


_EQUAL: dict[str, Callable[[str, Any], Compiled]] = {
    "==": lambda name, value: lambda scope: scope[name] == value,
    "!=": lambda name, value: lambda scope: scope[name] != value,
}
"""A name compared with a constant, the most frequent case; these raise nothing."""
_COMPARE: dict[str, Compared] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda left, right: left in right,
    "not in": lambda left, right: left not in right,
}
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "len": len,
    "min": min,
    "max": max,
    "abs": abs,
    "round": _round,
}


class Expression:
    """A compiled expression and the names that it reads."""

    def __init__(self, evaluate: Compiled, names: tuple[str, ...]) -> None:
        self.evaluate = evaluate
        self.names = names


def compile_expression(
    source: str,
    knows: Callable[[str], bool],
    on_scope: Mapping[str, Callable[[Any, str], Any]],
    keys: Mapping[str, str] = {},
) -> Expression:
    """Compile ``source``.

    ``knows`` says which names exist. ``on_scope`` are functions of the scope and one
    name, such as ``defined(tp)`` and ``key(tp)``. ``keys`` maps names to those under
    which the scope stores them. Raises ``ExpressionError``.
    """
    return compile_tree(parse(source), source, knows, on_scope, keys)


def compile_tree(
    tree: Tree,
    source: str,
    knows: Callable[[str], bool],
    on_scope: Mapping[str, Callable[[Any, str], Any]],
    keys: Mapping[str, str] = {},
) -> Expression:
    """Compile the tree of ``source``, or a part of it; raises ``ExpressionError``."""
    compiler = _Compiler(source, knows, on_scope, keys)
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
        keys: Mapping[str, str],
    ) -> None:
        self.source = source
        self.knows = knows
        self.on_scope = on_scope
        self.keys = keys
        self.names: dict[str, None] = {}
        self.calls = 0

    def node(self, tree: Tree) -> Compiled:
        return _HANDLERS.get(tree[0], _Compiler._arithmetic)(self, tree)

    def _constant(self, tree: Tree) -> Compiled:
        value = tree[1]
        constant = Prose(value) if isinstance(value, str) else value
        return lambda _scope: constant

    def _name(self, tree: Tree) -> Compiled:
        _, name, offset = tree
        if not self.knows(name):
            raise ExpressionError(f"unknown name `{name}`", offset, name)
        self.names[name] = None
        return operator.itemgetter(self.keys.get(name, name))

    def _list(self, tree: Tree) -> Compiled:
        items = [self.node(item) for item in tree[1:]]
        return lambda scope: [item(scope) for item in items]

    def _and(self, tree: Tree) -> Compiled:
        return _every([self._part(part) for part in tree[1:]])

    def _part(self, tree: Tree) -> tuple[Compiled, tuple[str, ...]]:
        """Return a part of an ``and``, and the names that it requires."""
        before, calls = self.names, self.calls
        self.names = {}
        compiled = self.node(tree)
        names = () if self.calls > calls else tuple(self.names)
        self.names = before | self.names
        return compiled, names

    def _or(self, tree: Tree) -> Compiled:
        return _some([self.node(part) for part in tree[1:]])

    def _not(self, tree: Tree) -> Compiled:
        operand = self.node(tree[1])
        return lambda scope: not operand(scope)

    def _arithmetic(self, tree: Tree) -> Compiled:
        if len(tree) == 2:
            operand = self.node(tree[1])
            return lambda scope: -_number(operand(scope))
        apply = _ARITHMETIC[tree[0]]
        left, right = self.node(tree[1]), self.node(tree[2])

        def evaluate(scope: Any) -> Any:
            try:
                return apply(_number(left(scope)), _number(right(scope)))
            except ArithmeticError:
                raise Unknown(self.source) from None

        return evaluate

    def _compare(self, tree: Tree) -> Compiled:
        if len(tree) == 4:
            return self._compare_two(tree)
        first = self.node(tree[1])
        operators = (_COMPARE[word] for word in tree[2::2])
        rest = list(zip(operators, map(self.node, tree[3::2]), strict=True))

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

    def _compare_two(self, tree: Tree) -> Compiled:
        """Compile one comparison; usually a constant is on its right."""
        first, compare = self.node(tree[1]), _COMPARE[tree[2]]
        if tree[3][0] == "constant":
            value = tree[3][1]
            if tree[2] in _EQUAL and tree[1][0] == "name":
                name = tree[1][1]
                return _EQUAL[tree[2]](self.keys.get(name, name), value)

            def beside_constant(scope: Any) -> bool:
                left = first(scope)
                try:
                    return bool(compare(left, value))
                except TypeError:
                    raise Unknown(self.source) from None

            return beside_constant
        second = self.node(tree[3])

        def evaluate(scope: Any) -> bool:
            left, right = first(scope), second(scope)
            try:
                return bool(compare(left, right))
            except TypeError:
                raise Unknown(self.source) from None

        return evaluate

    def _if(self, tree: Tree) -> Compiled:
        test, then, other = map(self.node, tree[1:])
        return lambda scope: then(scope) if test(scope) else other(scope)

    def _call(self, tree: Tree) -> Compiled:
        self.calls += 1
        _, name, offset, *arguments = tree
        if name in self.on_scope:
            return self._call_on_name(name, offset, arguments)
        function = _FUNCTIONS.get(name)
        if function is None:
            allowed = ", ".join([*self.on_scope, *_FUNCTIONS])
            raise ExpressionError(f"no such function; there are {allowed}", offset)
        parts = [self.node(argument) for argument in arguments]

        def evaluate(scope: Any) -> Any:
            values = [part(scope) for part in parts]
            try:
                return function(*values)
            except (TypeError, ValueError, ArithmeticError):
                raise Unknown(self.source) from None

        return evaluate

    def _call_on_name(self, name: str, offset: int, arguments: list[Tree]) -> Compiled:
        if len(arguments) != 1 or arguments[0][0] != "name":
            raise ExpressionError(f"{name}() takes one name", offset)
        self._name(arguments[0])
        target = arguments[0][1]
        function = self.on_scope[name]
        return lambda scope: function(scope, target)


_HANDLERS: dict[str, Callable[[_Compiler, Tree], Compiled]] = {
    "and": _Compiler._and,
    "call": _Compiler._call,
    "compare": _Compiler._compare,
    "constant": _Compiler._constant,
    "if": _Compiler._if,
    "list": _Compiler._list,
    "name": _Compiler._name,
    "not": _Compiler._not,
    "or": _Compiler._or,
}


def _number(value: Any) -> Any:
    """Return a number, else raise: ``%`` and ``*`` would act on text too."""
    if isinstance(value, (int, float)):
        return value
    raise Unknown("a number")


def _some(parts: list[Compiled]) -> Compiled:
    """Return an ``or`` of parts."""

    def evaluate(scope: Any) -> bool:
        unknown = None
        for part in parts:
            try:
                if part(scope):
                    return True
            except Unknown as error:
                unknown = error.args
        if unknown is not None:
            raise Unknown(*unknown)
        return False

    return evaluate


def _every(parts: list[tuple[Compiled, tuple[str, ...]]]) -> Compiled:
    """Return an ``and`` of parts, given the names that each part requires.

    A part that depends on a missing GPU or world size is not evaluated: it is unknown
    too, and may be expensive.
    """

    def evaluate(scope: Any) -> bool:
        unknown = None
        for part, names in parts:
            if unknown is not None and _rests_on(scope, names, unknown[0]):
                continue
            try:
                if not part(scope):
                    return False
            except Unknown as error:
                unknown = error.args
        if unknown is not None:
            raise Unknown(*unknown)
        return True

    return evaluate


def _rests_on(scope: Any, names: tuple[str, ...], missing: str) -> bool:
    """Return whether one of the names depends on an unknown GPU or world size."""
    words = getattr(scope, "words", None)
    if words is None or missing not in ("gpu", "world_size"):
        return False
    return any(missing in words.origins(name) for name in names)
