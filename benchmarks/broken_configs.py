"""Train configs with the mistakes that people make, in the layouts that TOML allows.

Values come from the sample configs and from the examples of the rules; names and values
are misspelt, misplaced, of the wrong type or in contradiction, and the whole is written
with headers, dotted keys or inline tables, comments between, CRLF, a byte-order mark.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from benchmarks.mistakes import MISTAKES, Pairs, Table
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.examples import plain_config
from fp8tune.toml.document import InvalidToml, parse
from fp8tune.toml.literal import CannotEdit, literal

CONFIGS = Path(__file__).parents[1] / "configs"
WORLD_SIZES = (1, 4, 8, 16, 32)


class Broken(NamedTuple):
    """A config's bytes, the number of its GPUs, and what was done to it."""

    data: bytes
    world_size: int
    mistakes: tuple[str, ...]


def broken_configs(count: int, seed: int) -> Iterator[Broken]:
    """So many broken configs; each is TOML but for a byte-order mark."""
    dice = Random(seed)  # noqa: S311
    sources = list(_sources())
    while count:
        config = broken(dice.choice(sources), dice)
        if config is not None:
            count -= 1
            yield config


def _sources() -> Iterator[list[Table]]:
    texts = [path.read_text(encoding="utf-8") for path in sorted(CONFIGS.glob("*"))]
    for rule in read_builtin():
        texts += map(plain_config, (*rule.bad, *rule.good))
    yield from filter(None, map(tables_of, texts))


def tables_of(text: str) -> list[Table]:
    """The sections of a config; none if it has anything else at its top."""
    try:
        values = tomllib.loads(text)
        return [Table(name, _pairs(table)) for name, table in values.items()]
    except (tomllib.TOMLDecodeError, CannotEdit, AttributeError):
        return []


def _pairs(table: dict[str, Any]) -> Pairs:
    return [(key, _value(value)) for key, value in table.items()]


def _value(value: Any) -> str:
    if isinstance(value, dict):
        inside = ", ".join(f"{key} = {_value(inner)}" for key, inner in value.items())
        return f"{{ {inside} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return literal(value)


def broken(source: list[Table], dice: Random) -> Broken | None:
    """The config with some mistakes and another layout; none if it is no TOML then."""
    tables = [Table(name, list(pairs)) for name, pairs in source]
    mistakes = dice.sample(MISTAKES, dice.choice((1, 1, 2, 3, 5)))
    made = tuple(mistake.__name__[1:] for mistake in mistakes if mistake(tables, dice))
    world_size = dice.choice(WORLD_SIZES)
    head = f"# fp8tune: gpu={dice.choice(('h100', 'h200'))} world-size={world_size}\n"
    layout: list[str] = []
    text = head + "".join(_written(tables, dice))
    if dice.random() < 0.25:
        text, layout = text.replace("\n", "\r\n"), [*layout, "crlf"]
    if dice.random() < 0.15:
        text, layout = f"\ufeff{text}", [*layout, "bom"]
    if dice.random() < 0.25:
        text = text.rstrip("\r\n")
    data = text.encode()
    try:
        parse(data)
    except InvalidToml:
        return None
    return Broken(data, world_size, (*made, *layout)) if made or layout else None


def _written(tables: list[Table], dice: Random) -> Iterator[str]:
    """The text of all tables: without header first, then as dice falls."""
    styles = [dice.choice(("header", "header", "dotted", "inline")) for _ in tables]
    for table, style in zip(tables, styles, strict=True):
        if not table.name:
            yield from _lines("", table.pairs, dice)
        elif style == "dotted":
            yield from _lines(
                f"{table.name}{dice.choice(('.', ' . '))}", table.pairs, dice
            )
        elif style == "inline":
            inside = ", ".join(f"{key} = {value}" for key, value in table.pairs)
            yield f"{table.name} = {{ {inside} }}{_comment(dice)}\n"
    for table, style in zip(tables, styles, strict=True):
        if table.name and style == "header":
            space = dice.choice(("", "", " "))
            yield f"\n[{space}{table.name}{space}]{_comment(dice)}\n"
            yield from _lines(dice.choice(("", "", "  ")), table.pairs, dice)


def _lines(prefix: str, pairs: Pairs, dice: Random) -> Iterator[str]:
    for key, value in pairs:
        if dice.random() < 0.1:
            yield dice.choice(("# between\n", "\n", "   # [train] tp = 4\n"))
        name = f'"{key}"' if dice.random() < 0.05 else key
        if value.startswith("[") and dice.random() < 0.3:
            value = value.replace("[", "[ # first\n  ", 1)
        yield f"{prefix}{name}{dice.choice((' = ', '='))}{value}{_comment(dice)}\n"


def _comment(dice: Random) -> str:
    return dice.choice(
        ("", "", "", "  # why not", "\t# [x] = 'y'", " # \u6f22 \U0001f600")
    )
