"""Read torchtitan's wheels without running them."""

from __future__ import annotations

import ast
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

VERSIONS = ("0.1.0", "0.2.0", "0.2.1", "0.2.2")
"""Releases that read a TOML file."""

ROOT_CLASS = "JobConfig"
"""The class whose fields are the tables of a config."""

CONFIGS = ("torchtitan/config/job_config.py", "torchtitan/config_manager.py")
"""Where the config classes are: since 0.2.0, and before."""


class Field(NamedTuple):
    """One field of a config class; ``default`` names a class for a nested table."""

    type: str
    default: Any
    allowed: tuple[Any, ...] = ()


class Wheel:
    """One release, read from its wheel."""

    def __init__(self, folder: Path, version: str) -> None:
        self.version = version
        name = f"torchtitan-{version}-py3-none-any.whl"
        self._archive = zipfile.ZipFile(folder / name)
        self.names = frozenset(self._archive.namelist())

    def source(self, name: str) -> str:
        """Return the text of one of its files."""
        return self._archive.read(name).decode()

    def config_classes(self) -> dict[str, dict[str, Field]]:
        """Return the fields of each config class, in order."""
        name = next(name for name in CONFIGS if name in self.names)
        tree = ast.parse(self.source(name))
        return {
            node.name: dict(_fields(node))
            for node in tree.body
            if isinstance(node, ast.ClassDef) and node.name != "ConfigManager"
        }


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, Field]]:
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            kind, allowed = _annotation(line.annotation)
            yield line.target.id, Field(kind, _default(line.value), allowed)


def _annotation(node: ast.expr) -> tuple[str, tuple[Any, ...]]:
    """Return a type as ``schema.toml`` spells it, and the values of a ``Literal``."""
    kind, allowed = ast.unparse(node), ()
    for part in ast.walk(node):
        if isinstance(part, ast.Subscript) and ast.unparse(part.value) == "Literal":
            values = (
                part.slice.elts if isinstance(part.slice, ast.Tuple) else [part.slice]
            )
            allowed = tuple(ast.literal_eval(value) for value in values)
            kind = kind.replace(ast.unparse(part), "Literal")
    return {"float | int": "float", "list[Literal]": "list[str]"}.get(kind, kind), (
        allowed if kind.startswith("Literal") else ()
    )


def _default(node: ast.expr | None) -> Any:
    """Return a field's default: a value, or the name of the class that makes it."""
    if isinstance(node, ast.Call):
        factory = node.keywords[0].value
        if isinstance(factory, ast.Lambda):
            return ast.literal_eval(factory.body)
        return [] if ast.unparse(factory) == "list" else ast.unparse(factory)
    if node is None:
        raise ValueError("a field without a default")
    return ast.literal_eval(node)
