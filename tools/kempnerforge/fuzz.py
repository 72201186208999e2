"""Ask the trainer itself: mutate labelled configs, compare its verdict with ours.

``python -m tools.kempnerforge.fuzz CHECKOUT --count 5000 --seed 1`` needs a Python
with the trainer's requirements (torch). It starts from the configs of
``tests/data/kempnerforge_verdicts.jsonl.gz``, checks that their labels still hold,
then mutates them and prints every config on which fp8tune and the trainer differ.
"""

from __future__ import annotations

import argparse
import copy
import datetime
import importlib
import logging
import random
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tomlkit

from fp8tune.trainers.trainer import trainer
from tools.kempnerforge.verdicts import labelled, look_with_all_rules, refusals
from tools.schema_file import ROOT

FIXTURE = ROOT / "tests/data/kempnerforge_verdicts.jsonl.gz"
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


def trainer_verdict(checkout: Path) -> Callable[[str, int], str]:
    """A function from text and world size to the trainer's refusal, or ``""``."""
    sys.path.insert(0, str(checkout))
    logging.disable(logging.CRITICAL)
    loader = importlib.import_module("kempnerforge.config.loader")
    path = Path(tempfile.mkdtemp()) / "config.toml"

    def verdict(text: str, world_size: int) -> str:
        path.write_text(text, encoding="utf-8")
        try:
            loader.load_config(path, cli_args=[]).validate(world_size)
        except Exception as error:  # any exception is a refusal
            return f"{type(error).__name__}: {error}"
        return ""

    return verdict


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


def main() -> int:
    """Run the comparison; exit code 1 if the two differ anywhere."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    theirs, look = trainer_verdict(options.checkout), look_with_all_rules()
    draw = random.Random(options.seed)  # noqa: S311
    corpus = list(labelled(FIXTURE))
    accepted = [config for config in corpus if config["verdict"] == "accept"]
    stale = [c for c in corpus if c["message"] != theirs(c["toml"], c["world_size"])]
    print(f"labels that still hold: {len(corpus) - len(stale)} of {len(corpus)}")
    differences = refused = 0
    for _ in range(options.count):
        start = draw.choice(accepted)
        text = tomlkit.dumps(mutate(tomllib.loads(start["toml"]), draw))
        world_size = start["world_size"]
        trainer_says = theirs(text, world_size)
        we_say = refusals(look(text.encode(), world_size))
        refused += bool(trainer_says)
        if bool(trainer_says) != bool(we_say):
            differences += 1
            ours = "; ".join(f"{d.rule}: {d.message}" for d in we_say)
            print(f"--- trainer: {trainer_says or 'accepts'}; fp8tune: {ours}")
            print(text)
    agreed = options.count - differences
    print(f"verdicts agree: {agreed} of {options.count} ({refused} refused)")
    return int(bool(differences or stale))


if __name__ == "__main__":
    sys.exit(main())
