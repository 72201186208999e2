"""A trainer's config dataclasses, read from their source without importing it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

JOB = "JobConfig"
"""The class whose fields are the sections of a config."""


class Required:
    """The default of a field that has none."""

    def __repr__(self) -> str:
        return "required"


REQUIRED = Required()


class Unreadable(NamedTuple):
    """A default whose value only running the trainer could tell."""

    source: str


class Field(NamedTuple):
    """One field of a config class; ``allowed`` is ``None`` for any value."""

    type: str
    default: Any
    allowed: tuple[Any, ...] | None


class Source(NamedTuple):
    """Everything that the source says about a config."""

    sections: dict[str, str]
    classes: dict[str, dict[str, Field]]
    variants: dict[str, str]


def read(checkout: Path) -> Source:
    """Read ``kempnerforge/config/*.py`` of a checkout."""
    trees = [_parse(path) for path in _files(checkout / "kempnerforge" / "config")]
    every = [_parse(path) for path in _files(checkout / "kempnerforge")]
    return _Reader(trees, _registered(every)).source()


def _files(folder: Path) -> list[Path]:
    files = sorted(folder.rglob("*.py"))
    if not files:
        raise FileNotFoundError(f"no Python files in {folder}")
    return files


def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=path.name)


def _registered(trees: list[ast.Module]) -> dict[str, list[str]]:
    """Names by kind, from ``@registry.register_<kind>("name")`` decorators."""
    names: dict[str, list[str]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                for kind, name in _registrations(node):
                    names.setdefault(kind, []).append(name)
    return names


def _registrations(node: ast.ClassDef | ast.FunctionDef) -> Iterator[tuple[str, str]]:
    for decorator in node.decorator_list:
        match decorator:
            case ast.Call(
                func=ast.Attribute(attr=attr), args=[ast.Constant(value=str(name))]
            ) if attr.startswith("register_"):
                yield attr.removeprefix("register_"), name


class _Reader:
    def __init__(
        self, trees: list[ast.Module], registered: dict[str, list[str]]
    ) -> None:
        self.registered = registered
        top = [node for tree in trees for node in tree.body]
        nodes = {node.name: node for node in top if isinstance(node, ast.ClassDef)}
        self.dataclasses = {k: n for k, n in nodes.items() if _is_dataclass(n)}
        self.enums = {k: _members(n) for k, n in nodes.items() if _is_enum(n)}
        self.constants = dict(_constants(top))

    def source(self) -> Source:
        classes = {name: self._fields(node) for name, node in self.dataclasses.items()}
        job = classes.pop(JOB, {})
        variants = {
            name: node.name
            for node in self.dataclasses.values()
            for kind, name in _registrations(node)
            if kind == "vlm_config"
        }
        return Source({k: f.type for k, f in job.items()}, classes, variants)

    def _fields(self, node: ast.ClassDef) -> dict[str, Field]:
        checked = dict(self._checked(node))
        return {
            line.target.id: self._field(line, checked.get(line.target.id))
            for line in node.body
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
        }

    def _field(self, line: ast.AnnAssign, checked: tuple[Any, ...] | None) -> Field:
        kind, allowed = ast.unparse(line.annotation), checked
        match line.annotation:
            case ast.Subscript(value=ast.Name(id="Literal"), slice=options):
                kind, allowed = "Literal", tuple(_as_list(ast.literal_eval(options)))
            case ast.Name(id=name) if name in self.enums:
                allowed = tuple(self.enums[name].values())
        default = REQUIRED if line.value is None else self._default(line.value)
        return Field(kind, default, allowed)

    def _default(self, node: ast.expr) -> Any:
        try:
            return self._value(node)
        except ValueError:
            return Unreadable(ast.unparse(node))

    def _value(self, node: ast.expr) -> Any:
        """The value of a default; raises ``ValueError`` where it takes running."""
        match node:
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self._value(item) for item in items]
            case ast.Dict(keys=keys, values=values):
                return self._dict(keys, values)
            case ast.Name(id=name) if name in self.constants:
                return self._value(self.constants[name])
            case ast.Attribute(value=ast.Name(id=name), attr=member) if (
                member in self.enums.get(name, {})
            ):
                return self.enums[name][member]
            case ast.Call(func=ast.Name(id="field"), keywords=keywords):
                return self._of_field(keywords)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if (
                name in self.dataclasses
            ):
                return self._instance(name, args, keywords)
            case ast.DictComp():
                return self._copy(node)
        return ast.literal_eval(node)

    def _dict(self, keys: list[ast.expr | None], values: list[ast.expr]) -> Any:
        made: dict[Any, Any] = {}
        for key, value in zip(keys, values, strict=True):
            if key is None:
                made |= self._value(value)
            else:
                made[self._value(key)] = self._value(value)
        return made

    def _of_field(self, keywords: list[ast.keyword]) -> Any:
        """``field(default=...)`` or ``field(default_factory=...)``."""
        match keywords:
            case [ast.keyword(arg="default", value=value)]:
                return self._value(value)
            case [ast.keyword(arg="default_factory", value=ast.Lambda(body=body))]:
                return self._value(body)
            case [ast.keyword(arg="default_factory", value=ast.Name(id="list"))]:
                return []
            case [ast.keyword(arg="default_factory", value=ast.Name(id="dict"))]:
                return {}
            case [ast.keyword(arg="default_factory", value=ast.Name(id=name))] if (
                name in self.dataclasses
            ):
                return self._instance(name, [], [])
        raise ValueError

    def _instance(
        self, name: str, args: list[ast.expr], keywords: list[ast.keyword]
    ) -> dict[str, Any]:
        """A config object as the table that would make it."""
        node = self.dataclasses[name]
        names = [
            line.target.id
            for line in node.body
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
        ]
        made = dict(zip(names, map(self._value, args), strict=False))
        return made | {str(k.arg): self._value(k.value) for k in keywords}

    def _copy(self, node: ast.DictComp) -> Any:
        """``{k: list(v) for k, v in NAME.items()}`` is a copy of NAME."""
        match node.generators[0].iter:
            case ast.Call(func=ast.Attribute(value=inner, attr="items")) if (
                ast.unparse(node.key) == "k"
                and ast.unparse(node.value) in ("v", "list(v)")
                and not node.generators[0].ifs
            ):
                return self._value(inner)
        raise ValueError

    def _checked(self, node: ast.ClassDef) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """The fields that ``__post_init__`` refuses outside of a known set."""
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and method.name == "__post_init__":
                local = dict(_constants(method.body))
                for test in ast.walk(method):
                    match test:
                        case ast.Compare(
                            left=ast.Attribute(value=ast.Name(id="self"), attr=name),
                            ops=[ast.NotIn()],
                            comparators=[options],
                        ):
                            found = self._options(options, local)
                            if found is not None:
                                yield name, found

    def _options(
        self, node: ast.expr, local: dict[str, ast.expr]
    ) -> tuple[Any, ...] | None:
        match node:
            case ast.Name(id=name) if name in local:
                return self._options(local[name], local)
            case ast.Call(func=ast.Name(id="tuple"), args=[inner]):
                return self._options(inner, local)
            case ast.Call(func=ast.Attribute(attr=attr)) if attr.startswith("list_"):
                kind = _singular(attr.removeprefix("list_"))
                return tuple(self.registered.get(kind, ()))
        try:
            return tuple(self._value(node))
        except (ValueError, TypeError):
            return None


def _constants(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for line in body:
        match line:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                yield name, value


def _is_dataclass(node: ast.ClassDef) -> bool:
    decorators = (ast.unparse(d).partition("(")[0] for d in node.decorator_list)
    return any(name.split(".")[-1] == "dataclass" for name in decorators)


def _is_enum(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).endswith("Enum") for base in node.bases)


def _members(node: ast.ClassDef) -> dict[str, Any]:
    pairs = _constants(node.body)
    return {name: ast.literal_eval(value) for name, value in pairs}


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


def _singular(word: str) -> str:
    return word[:-3] + "y" if word.endswith("ies") else word.removesuffix("s")
