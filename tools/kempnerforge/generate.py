"""Mutate configs that KempnerForge accepts, and draw overrides of their keys."""

from __future__ import annotations

import copy
import datetime
import random
import tomllib
from collections.abc import Iterator
from typing import Any

import tomlkit

from fp8tune.trainers.trainer import trainer
from tests.support.verdicts import cases, corpus

ODD_VALUES: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 7, 8, 16, 31, 64, 1000, 2**40, True, False),
    *(0.0, 0.5, 1.0, -0.1, 3.9, 1e5, float("inf"), float("nan")),
    *("", "8", " 8 ", "8.5", "1_0", "abc", "true", "yes", "on", "none", "fp8", "FP8"),
    *("full", "mot", "moma", "avgpool", "attentional_pool", "wsd", "image,text"),
    *([], [1], [0.9, 0.95], [0.9, 0.95, 0.99], ["image", "text"], ["a", "a"], [[1]]),
    *({}, {"a": 1}, {"image": 1, "text": 2}, {"path": "x"}, {"module": "adapter"}),
    *([{"path": "x"}], [{"start_step": 1}, {"start_step": 1}], [{"module": "x"}]),
    *(datetime.date(2026, 1, 1), datetime.time(1, 2)),
)


def configs(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield mutations of the recorded configs that the trainer accepts."""
    draw = random.Random(seed)  # noqa: S311
    accepted = _accepted()
    for number in range(count):
        start = draw.choice(accepted)
        text = tomlkit.dumps(mutate(tomllib.loads(start["toml"]), draw))
        yield {"id": f"{seed}-{number}", "toml": text, **_size(start)}


def overridden(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield accepted configs with random overrides on the command line."""
    draw = random.Random(seed)  # noqa: S311
    accepted = _accepted()
    for number in range(count):
        start, words = draw.choice(accepted), command_line(draw)
        case = {"toml": start["toml"], "arguments": words, **_size(start)}
        yield {"id": f"{seed}-{number}", **case}


def _accepted() -> list[dict[str, Any]]:
    recorded = cases(corpus("kempnerforge"))
    return [case for case in recorded if case["verdict"] == "accept"]


def _size(case: dict[str, Any]) -> dict[str, Any]:
    return {"world_size": case["world_size"]}


def mutate(config: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """A copy with one or two random changes."""
    config = copy.deepcopy(config)
    for _ in range(draw.choice((1, 1, 2))):
        draw.choice((_set, _set, _set, _drop, _move, _replace_section))(config, draw)
    return config


def _tables(config: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for value in config.values():
        items = value if isinstance(value, list) else [value]
        for table in items:
            if isinstance(table, dict):
                found += [table, *_tables(table)]
    return found


def _set(config: dict[str, Any], draw: random.Random) -> None:
    """Set a key that the schema has, mostly in its own section."""
    name, _ = draw.choice(list(trainer("kempnerforge").schema.dotted_keys()))
    section, *parents, key = name.split(".")
    table = config.setdefault(section, {})
    for parent in parents:
        if isinstance(table, dict):
            table = table.setdefault(parent, {})
    if isinstance(table, dict):
        table[key] = copy.deepcopy(draw.choice(ODD_VALUES))


def _drop(config: dict[str, Any], draw: random.Random) -> None:
    tables = [config, *_tables(config)]
    table = draw.choice(tables)
    if table:
        del table[draw.choice(list(table))]


def _move(config: dict[str, Any], draw: random.Random) -> None:
    tables = [table for table in _tables(config) if table]
    if len(tables) > 1:
        source, target = draw.sample(tables, 2)
        key = draw.choice(list(source))
        target[key] = copy.deepcopy(source[key])


def _replace_section(config: dict[str, Any], draw: random.Random) -> None:
    if config and draw.random() < 0.3:
        value = copy.deepcopy(draw.choice(ODD_VALUES))
        config[draw.choice(list(config))] = value


def command_line(draw: random.Random) -> tuple[str, ...]:
    """One to four arguments, most of them overrides of keys that there are."""
    keys = [name for name, _ in trainer("kempnerforge").schema.dotted_keys()]
    words: list[str] = []
    for _ in range(draw.choice((1, 1, 2, 3))):
        name = draw.choice(keys)
        if draw.random() < 0.1:  # a section, a key without one, one more part
            name = draw.choice(
                (name.partition(".")[0], name.split(".")[-1], f"{name}.a")
            )
        value = draw.choice(
            (*ODD_VALUES[:-2], None, (0.9, 0.95), (1,), ("text", "image"))
        )
        if draw.random() < 0.2:
            value = {name.split(".")[-1]: value}
        text = value if isinstance(value, str) else repr(value)
        form = draw.random()
        if form < 0.05:
            words.append(f"--{name}")
        elif form < 0.1:
            words += [f"--{name}", text]
        else:
            words.append(f"--{name}={text}")
    return tuple(words)
