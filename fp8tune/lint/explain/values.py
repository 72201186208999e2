"""Values in a derivation as people read them; a table has a row per line."""

from __future__ import annotations

from typing import Any, TypeGuard

from fp8tune.lint.wording import shown


def number(value: Any) -> str:
    """A value, fractions with six digits."""
    return f"{value:.6g}" if type(value) is float else shown(value)


def said(value: Any, unit: str) -> str:
    """A value in one line, with its unit; of a table that its rows follow."""
    if rows(value, unit):
        return f"the sums below [{unit}]" if unit else "the table below"
    told = _told(value) if value and _named(value) else number(value)
    return f"{told} {unit}".strip()


def rows(value: Any, unit: str) -> list[str]:
    """A row per entry of a table of named numbers, each of them named.

    Numbers of one unit are parts of a sum, which comes first; empty parts are left
    out. No rows for any other value.
    """
    each: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        each = list(value.items())
    elif isinstance(value, list):
        each = [("", row) for row in value]
    if not all(_named(row) for _, row in each):
        return []
    return [f"{name}: {_row(row, unit)}".removeprefix(": ") for name, row in each]


def _named(value: Any) -> TypeGuard[dict[str, float]]:
    return isinstance(value, dict) and all(
        type(part) in (int, float) for part in value.values()
    )


def _row(row: dict[str, float], unit: str) -> str:
    if not unit:
        return _told(row)
    parts = {name: part for name, part in row.items() if part}
    equals = f" = {_told(parts)}" if parts else ""
    return f"{number(float(sum(parts.values())))}{equals}"


def _told(row: dict[str, float]) -> str:
    return ", ".join(f"{name} {number(part)}" for name, part in row.items())
