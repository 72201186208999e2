"""Lay the arguments behind a config over what the file says, before it is loaded.

For trainers whose command line sets keys of the file, whatever their types.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from fp8tune.formats.document import HOLE, Path, Unreadable, Unresolved
from fp8tune.trainers.faults import Argument, Loaded, dotted
from fp8tune.trainers.schema import Schema

MAX_LENGTH = 10_000
"""Longest argument that is read [characters]."""

MAX_LITERAL = 1000
"""Longest text that is read as a Python literal [characters]."""

SURE = ("unknown-key", "ignored-key")
"""Faults of the loaders that do not depend on the values of other keys."""


class Override(NamedTuple):
    """An argument: the key that it sets, its value, and where both stand in it."""

    path: Path
    value: Any
    argument: Argument


class Loads(Protocol):
    """A trainer's loader."""

    def load(self, raw: dict[str, Any]) -> Loaded:
        """Return the config as the trainer holds it."""


def argument(text: str, key: int) -> Argument:
    """Return an argument whose key is its first ``key`` characters."""
    shown = text.replace(HOLE, "_")
    return Argument(shown, (0, key), (min(key + 1, len(text)), len(text)))


def laid_over(
    loader: Loads, raw: dict[str, Any], overrides: Iterable[Override]
) -> Loaded:
    """Load a file with overrides; raises ``Unreadable`` where one is no value.

    Without the values of keys that only a run knows, and what depends on them.
    """
    whole = copy.deepcopy(raw)
    given: dict[Path, Override] = {}
    for one in overrides:
        if len(one.argument.text) > MAX_LENGTH:
            raise Unreadable(f"an argument is too long: {one.argument.text[:40]}...")
        put(whole, one.path, one.value)
        given[one.path] = one
    arguments = {path: one.argument for path, one in given.items()}
    loaded = loader.load(whole)._replace(arguments=arguments)
    faults = [f._replace(argument=loaded.argument(f.path)) for f in loaded.faults]
    lost = [p for p, one in given.items() if isinstance(one.value, Unresolved)]
    if not lost:
        return loaded._replace(faults=faults)
    names = [f"{dotted(path)}." for path in lost]
    kept = {
        key: value
        for key, value in loaded.values.items()
        if not any(_overlap(f"{key}.", name) for name in names)
    }
    sure = [fault for fault in faults if fault.kind in SURE]
    return loaded._replace(values=kept, faults=sure)


def is_free_text(schema: Schema, word: str) -> bool:
    """Whether an override may hold anything, as a path does."""
    name = word.partition("=")[0].removeprefix("--").replace("-", "_")
    spec = dict(schema.dotted_keys()).get(name)
    return spec is not None and spec.base == "str" and not spec.allowed


def _overlap(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def put(raw: dict[str, Any], path: Path, value: Any) -> None:
    """Set a key, tables joined; raises ``Unreadable`` if it stands in no table."""
    table = raw
    for part in path[:-1]:
        table = table.setdefault(str(part), {})
        if not isinstance(table, dict):
            raise Unreadable(f"the file has no table to set {dotted(path)} in")
    old = table.get(str(path[-1]))
    merged = isinstance(old, dict) and isinstance(value, dict)
    table[str(path[-1])] = {**old, **value} if merged and old else value


def literal(text: str, *, bare: bool = False) -> Any:
    """Return the Python literal that a text is, else the text, as many trainers do.

    ``bare`` says that names stand for themselves: ``[a, b]`` is a list of texts.
    """
    if len(text) > MAX_LITERAL:
        return text
    with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        tree = ast.parse(text, mode="eval")
        return ast.literal_eval(_BareWords().visit(tree) if bare else tree)
    return text


class _BareWords(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.Constant:
        return ast.copy_location(ast.Constant(node.id), node)
