"""The mistakes that people make in a config, each made on purpose.

Names and values are misspelt, misplaced, of the wrong type or in contradiction.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from fp8tune.toml.literal import literal

DEGREES = ("dp_shard", "dp_replicate", "tp", "pp", "cp", "ep")
SWITCHES = ('"on"', '"yes"', '"enabled"', '"off"', '"True "', "1", '"disabled"')
PRECISIONS = ("FP8", "float8", "e4m3", "bfloat16", "BF16", "fp8 ", "mxfp8", "half", "8")
OPTIMIZERS = ("AdamW", "Lion", "adam", "Muon", "schedule-free")

Pairs = list[tuple[str, str]]


class Table(NamedTuple):
    """A section with its keys and values as text; ``name`` is empty without header."""

    name: str
    pairs: Pairs


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
