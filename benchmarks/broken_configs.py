"""Train configs with the mistakes that people make, in the layouts that TOML allows.

Values come from the sample configs and from the examples of the rules; names and values
are misspelt, misplaced, of the wrong type or in contradiction, and the whole is written
with headers, dotted keys or inline tables, comments between, CRLF, a byte-order mark.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from fp8tune.formats.edits import CannotEdit
from fp8tune.formats.toml.document import InvalidToml, parse
from fp8tune.formats.toml.literal import literal
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.examples import plain_config

CONFIGS = Path(__file__).parents[1] / "configs"
WORLD_SIZES = (1, 4, 8, 16, 32)
DEGREES = ("dp_shard", "dp_replicate", "tp", "pp", "cp", "ep")
SWITCHES = ('"on"', '"yes"', '"enabled"', '"off"', '"True "', "1", '"disabled"')
PRECISIONS = ("FP8", "float8", "e4m3", "bfloat16", "BF16", "fp8 ", "mxfp8", "half", "8")
OPTIMIZERS = ("AdamW", "Lion", "adam", "Muon", "schedule-free")

Pairs = list[tuple[str, str]]


class Table(NamedTuple):
    """A section with its keys and values as text; ``name`` is empty without header."""

    name: str
    pairs: Pairs


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


# The mistakes


def _misspelt(name: str, dice: Random) -> str:
    """A name with one slip of the keyboard."""
    at = dice.randrange(max(1, len(name) - 1))
    slips = (
        name[:at] + name[at + 1 :],
        name[:at] + name[at : at + 1] * 2 + name[at + 1 :],
        name[:at] + name[at + 1 : at + 2] + name[at : at + 1] + name[at + 2 :],
    )
    return dice.choice(slips)


def _respelt(name: str, dice: Random) -> str:
    """A name in another style: batchSize, batch-size, BATCH_SIZE."""
    words = name.split("_")
    styles = (
        words[0] + "".join(map(str.capitalize, words[1:])),
        "".join(map(str.capitalize, words)),
        "-".join(words),
        "".join(words),
        name.upper(),
    )
    return dice.choice(styles)


def _some(
    tables: list[Table], dice: Random, wanted: Callable[[str], bool]
) -> tuple[Pairs, int] | None:
    """A pair whose value is of the wanted form."""
    fitting = [
        (table.pairs, number)
        for table in tables
        for number, (_, value) in enumerate(table.pairs)
        if wanted(value)
    ]
    return dice.choice(fitting) if fitting else None


def _change(
    tables: list[Table],
    dice: Random,
    wanted: Callable[[str], bool],
    change: Callable[[str, str], tuple[str, str]],
) -> bool:
    place = _some(tables, dice, wanted)
    if place is not None:
        pairs, number = place
        pairs[number] = change(*pairs[number])
    return place is not None


def _is_int(value: str) -> bool:
    return bool(re.fullmatch(r"-?\d+", value))


def _key_typo(tables: list[Table], dice: Random) -> bool:
    return _change(tables, dice, bool, lambda k, v: (_misspelt(k, dice), v))


def _key_style(tables: list[Table], dice: Random) -> bool:
    return _change(tables, dice, bool, lambda k, v: (_respelt(k, dice), v))


def _section_typo(tables: list[Table], dice: Random) -> bool:
    return _section(tables, dice, _misspelt(dice.choice(tables).name, dice))


def _section_style(tables: list[Table], dice: Random) -> bool:
    return _section(tables, dice, dice.choice(tables).name.capitalize())


def _section(tables: list[Table], dice: Random, name: str) -> bool:
    number = dice.randrange(len(tables))
    tables[number] = tables[number]._replace(name=name)
    return bool(name)


def _value_style(tables: list[Table], dice: Random) -> bool:
    styles = (
        str.upper,
        str.title,
        lambda v: v[:-1] + ' "',
        lambda v: v.replace("_", "-"),
    )
    style = dice.choice(styles)
    return _change(tables, dice, lambda v: v[0] == '"', lambda k, v: (k, style(v)))


def _fraction(tables: list[Table], dice: Random) -> bool:
    tail = dice.choice((".5", ".25", ".999"))
    return _change(tables, dice, _is_int, lambda k, v: (k, v + tail))


def _share(tables: list[Table], dice: Random) -> bool:
    return _change(tables, dice, _is_int, lambda k, _: (k, dice.choice(("0.1", "0.5"))))


def _switch(tables: list[Table], dice: Random) -> bool:
    said = dice.choice(SWITCHES)
    return _change(
        tables, dice, lambda v: v in ("true", "false"), lambda k, _: (k, said)
    )


def _wrong_type(tables: list[Table], dice: Random) -> bool:
    said = dice.choice(('"many"', '"1e3"', "true", "[8]", "2026-01-01", "{}"))
    return _change(tables, dice, _is_int, lambda k, _: (k, said))


def _out_of_range(tables: list[Table], dice: Random) -> bool:
    return _change(
        tables, dice, _is_int, lambda k, _: (k, dice.choice(("0", "-1", "7")))
    )


def _misplaced(tables: list[Table], dice: Random) -> bool:
    place = _some(tables, dice, bool)
    if place is None:
        return False
    pairs, number = place
    pair = pairs.pop(number)
    dice.choice(tables).pairs.append(pair)
    return True


def _no_header(tables: list[Table], dice: Random) -> bool:
    number = dice.randrange(len(tables))
    tables.insert(0, tables.pop(number)._replace(name=""))
    return True


def _set(tables: list[Table], section: str, values: dict[str, str]) -> bool:
    found = next((table for table in tables if table.name == section), None)
    if found is None:
        found = Table(section, [])
        tables.append(found)
    kept = [(key, value) for key, value in found.pairs if key not in values]
    found.pairs[:] = [*kept, *values.items()]
    return True


def _degrees(tables: list[Table], dice: Random) -> bool:
    chosen = dice.sample(DEGREES, dice.choice((1, 2, 3)))
    values = {name: dice.choice(("2", "4", "8")) for name in chosen}
    return _set(tables, "distributed", values)


def _precision(tables: list[Table], dice: Random) -> bool:
    said = {"mixed_precision": literal(dice.choice(PRECISIONS))}
    return _set(tables, "train", said)


def _optimizer(tables: list[Table], dice: Random) -> bool:
    return _set(tables, "optimizer", {"name": literal(dice.choice(OPTIMIZERS))})


def _experts(tables: list[Table], dice: Random) -> bool:
    said = {"num_experts": dice.choice(("-1", "8")), "moe_shared_experts": "2"}
    return _set(tables, "model", said)


def _dead(tables: list[Table], dice: Random) -> bool:
    word = dice.choice(("bfloat16", "bf16", "float32"))
    return _set(tables, "checkpoint", {"export_dtype": literal(word)})


MISTAKES = (
    *(_key_typo, _key_style, _section_typo, _section_style, _value_style, _fraction),
    *(_share, _switch, _wrong_type, _out_of_range, _misplaced, _no_header, _degrees),
    *(_precision, _optimizer, _experts, _dead),
)
"""Each changes the tables in place and tells whether it could."""
