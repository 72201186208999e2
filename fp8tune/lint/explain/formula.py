"""The formula of a fact, read from the source of its function."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import FrameType
from typing import Any, NamedTuple, cast

from fp8tune.job import Unknown

Call = Callable[..., Any]


class Formula(NamedTuple):
    """The lines of a formula, and the constants and functions that they use."""

    lines: tuple[str, ...]
    constants: dict[str, float | str]
    helpers: dict[str, str] = {}

    def where(self) -> list[str]:
        """Return one line per constant and function, except Python's own."""
        lines = [f"where {name} = {value!r}" for name, value in self.constants.items()]
        return lines + [f"where {name}(): {doc}" for name, doc in self.helpers.items()]


def formula(call: Call, names: Mapping[str, str]) -> Formula:
    """Return the formula of a function, an empty one if its source cannot be read.

    ``names`` maps parameters to the names that users know, ``a_b`` to ``a.b``.
    """
    tree = _tree(call)
    if tree is None:
        return Formula((), {})
    words = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    constants = {
        name: value
        for name, value in call.__globals__.items()
        if name in words and name.isupper() and type(value) in (int, float, str)
    }
    lines = tuple(_result_lines(tree.body, _Reader(names)))
    return Formula(lines, constants, _helpers(call, lines))


def _helpers(call: Call, lines: tuple[str, ...]) -> dict[str, str]:
    called = set(re.findall(r"\b(\w+)\(", "\n".join(lines)))
    functions = {
        name.lstrip("_"): inspect.getdoc(value) or ""
        for name, value in call.__globals__.items()
        if inspect.isfunction(value)
    }
    return {n: functions[n].split("\n")[0] for n in sorted(called) if functions.get(n)}


def working(call: Call, arguments: Mapping[str, Any]) -> str:
    """Return the expression that gave the result, with numbers in place of names.

    It shows only the branch that was taken; empty if nothing is computed.
    """
    tree = _tree(call)
    line, values = _run(call, arguments)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Return) and node.value and _holds(node, line):
            taken = _Taken(values, call.__globals__).visit(_copy(node.value))
            numbers = {n: _number(v) for n, v in values.items() if _is_number(v)}
            bare = isinstance(taken, (ast.Name, ast.Constant))
            told, plain = (_Reader(n).text(taken) for n in (numbers, {}))
            return "" if bare or told == plain else told
    return ""


def unknown_if(
    call: Call, arguments: Mapping[str, Any], names: Mapping[str, str]
) -> str:
    """Return the condition under which the function raised ``Unknown``, or ``""``."""
    tree = _tree(call)
    line, _ = _run(call, arguments)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.If) and any(
            isinstance(part, ast.Raise) and _holds(part, line) for part in node.body
        ):
            return _Reader(names).text(node.test)
    return ""


@cache
def _tree(call: Call) -> ast.FunctionDef | None:
    """Return the function without docstring and imports; lines count from its first.

    ``None`` for one that another function made: its own lines say nothing.
    """
    if call.__closure__:
        return None
    try:
        source = textwrap.dedent(inspect.getsource(call))
        tree = ast.parse(source).body[0]
    except (OSError, TypeError, SyntaxError):
        return None
    if not isinstance(tree, ast.FunctionDef):
        return None
    start = 1 if ast.get_docstring(tree) else 0
    skipped = (ast.Import, ast.ImportFrom)
    tree.body = [part for part in tree.body[start:] if not isinstance(part, skipped)]
    return tree


def _run(call: Call, arguments: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """Return the line on which a call ended (from 1), and its variables."""
    ends: list[tuple[int, dict[str, Any]]] = []
    code = call.__code__

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event == "return" and frame.f_code is code:
            line = frame.f_lineno - code.co_firstlineno + 1
            ends.append((line, dict(frame.f_locals)))

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        call(**arguments)
    except (Unknown, ArithmeticError, TypeError, ValueError):
        pass
    finally:
        sys.setprofile(before)
    return ends[-1] if ends else (0, {})


def _holds(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _number(value: float) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f"({text})" if value < 0 else text


def _lines(body: list[ast.stmt], read: _Reader) -> Iterator[str]:
    """Yield statements as lines of a formula."""
    for part in body:
        match part:
            case ast.Return(value=ast.expr() as value):
                yield read.text(value)
            case ast.Raise():
                yield "unknown"
            case ast.If():
                yield from _branches(part, read)
            case _:
                yield from read.text(part).split("\n")


def _result_lines(body: list[ast.stmt], read: _Reader) -> Iterator[str]:
    """Yield the lines of a whole function; the last one is the result otherwise."""
    if not isinstance(body[-1], ast.Return):
        yield from _lines(body, read)
        return
    yield from _lines(body[:-1], read)
    several = any(isinstance(n, ast.Return) for p in body[:-1] for n in ast.walk(p))
    before = "otherwise: " if several else "= " if body[1:] else ""
    yield from (f"{before}{line}" for line in _lines(body[-1:], read))


def _branches(part: ast.If, read: _Reader) -> Iterator[str]:
    inside = list(_lines(part.body, read))
    test = read.text(part.test)
    if isinstance(part.body[-1], ast.Raise) and len(inside) == 1:
        yield f"unknown if {test}"
    elif len(inside) == 1:
        yield f"if {test}: {inside[0]}"
    else:
        yield f"if {test}:"
        yield from (f"  {line}" for line in inside)
    if part.orelse:
        yield "otherwise:"
        yield from (f"  {line}" for line in _lines(part.orelse, read))


def _copy(node: ast.AST) -> Any:
    """Return a copy that may be changed; the original tree is cached."""
    text = ast.unparse(node)
    if isinstance(node, ast.expr):
        return ast.parse(text, mode="eval").body
    return ast.parse(text)


_SCOPES = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)


class _Taken(ast.NodeTransformer):
    """Keeps the taken branch of ``a if test else b``, and the number of ``a[0]``.

    Of a sum it keeps the terms that are not zero.
    """

    def __init__(self, values: dict[str, Any], names: dict[str, Any]) -> None:
        self.values = values
        self.names = names | values

    def value(self, node: ast.expr) -> Any:
        """Return the value of a part; the function containing it has just run it."""
        code = compile(ast.Expression(node), "formula", "eval")
        return eval(code, self.names)  # noqa: S307

    def visit(self, node: ast.AST) -> Any:
        """Return the node as evaluated; nodes with own variables stay unchanged."""
        return node if isinstance(node, _SCOPES) else super().visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Return a sum without the terms that are zero."""
        if isinstance(node.op, (ast.Add, ast.Sub)) and self.is_zero(node.right):
            return cast("ast.AST", self.visit(node.left))
        if isinstance(node.op, ast.Add) and self.is_zero(node.left):
            return cast("ast.AST", self.visit(node.right))
        return self.generic_visit(node)

    def is_zero(self, node: ast.expr) -> bool:
        """Return whether a term is zero, or has a factor that is."""
        match node:
            case ast.Name(id=name):
                value = self.values.get(name)
                return _is_number(value) and value == 0
            case ast.BinOp(op=ast.Mult(), left=left, right=right):
                return self.is_zero(left) or self.is_zero(right)
            case ast.BinOp(op=ast.Div() | ast.FloorDiv(), left=left):
                return self.is_zero(left)
        return False

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        taken = node.body if self.value(node.test) else node.orelse
        return cast("ast.AST", self.visit(taken))

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        owner = node.value.id if isinstance(node.value, ast.Name) else ""
        value = self.value(node) if owner in self.values else None
        return ast.Constant(value) if _is_number(value) else self.generic_visit(node)


class _Reader(ast.NodeTransformer):
    """Writes an expression with users' names, and without Python-only syntax."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def text(self, node: ast.AST) -> str:
        return ast.unparse(self.visit(_copy(node)))

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(self.names.get(node.id, node.id.lstrip("_")), node.ctx)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        value = node.value or ast.Constant(None)
        plain = ast.Assign([node.target], value, lineno=node.lineno)
        return self.generic_visit(plain)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node

    def visit_Tuple(self, node: ast.Tuple) -> ast.AST:
        visited = self.generic_visit(node)
        loads = isinstance(node.ctx, ast.Load)
        return ast.List(node.elts, node.ctx) if loads else visited

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id == "math":
            return ast.Name(node.attr, node.ctx)
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and '"' not in node.value:
            return ast.Name(f'"{node.value}"')
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in ("known", "Words") and node.args:
            visited: ast.AST = self.visit(node.args[-1])
            return visited
        return self.generic_visit(node)
