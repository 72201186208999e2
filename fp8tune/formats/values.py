"""Values of a config: copies, changes and comparisons, alike in every format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fp8tune.formats.edits import CannotEdit


def copied(value: Any) -> Any:
    """Return a copy in which nothing is shared; a tuple becomes a list."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [*map(copied, value)] if isinstance(value, (list, tuple)) else value


def value_at(values: Any, path: Sequence[str | int]) -> Any:
    """Return what stands at a path that is there."""
    for part in path:
        values = values[part]
    return values


def find(values: Any, path: Sequence[str | int]) -> Any:
    """Return what stands at a path of tables, ``None`` if nothing does."""
    for part in path:
        values = values.get(part) if isinstance(values, dict) else None
    return values


def put(values: Any, path: Sequence[str | int], value: Any) -> None:
    """Set a value, and create the tables above it; raises ``CannotEdit``."""
    for part in path[:-1]:
        if isinstance(values, dict) and values.get(part) is None:
            values[part] = type(values)()
        values = values[part] if _has_room(values, part) else None
    if not _has_room(values, path[-1]):
        raise CannotEdit(f"there is no table for `{path[-1]}`")
    values[path[-1]] = copied(value)


def _has_room(values: Any, part: str | int) -> bool:
    if isinstance(values, dict):
        return isinstance(part, str)
    return isinstance(values, list) and part in range(len(values))


def same(one: Any, other: Any) -> bool:
    """Return whether values are equal and of equal types; NaN equals itself.

    A table that holds nothing is as good as none.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return all(
            same(one.get(key, {}), other.get(key, {})) for key in {**one, **other}
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, str) and isinstance(other, str):
        return one == other  # a fix may write a kind of text
    return type(one) is type(other) and (one == other or one != one)
