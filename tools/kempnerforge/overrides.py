"""Ask the trainer itself: random overrides on labelled configs, and compare.

``python -m tools.kempnerforge.overrides CHECKOUT --count 3000 --seed 1`` needs a Python
with the trainer's requirements (torch). It prints every command line that only one of
fp8tune and the trainer accepts, and those after which a key has another value.
"""

from __future__ import annotations

import argparse
import enum
import importlib
import logging
import random
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fp8tune.formats.document import Unreadable
from fp8tune.job import Target
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.engine import check
from fp8tune.lint.ruleset import Rules
from fp8tune.trainers.faults import Loaded
from fp8tune.trainers.trainer import trainer
from tools.kempnerforge.fuzz import FIXTURE, ODD_VALUES
from tools.kempnerforge.verdicts import labelled, refusals


class TrainerVerdict:
    """Asks the trainer for its refusal of a text, or ``""``.

    ``config`` is what it loaded last, ``None`` if it refused that.
    """

    def __init__(self, checkout: Path) -> None:
        sys.path.insert(0, str(checkout))
        logging.disable(logging.CRITICAL)
        self.loader = importlib.import_module("kempnerforge.config.loader")
        self.path = Path(tempfile.mkdtemp()) / "config.toml"
        self.config: Any = None

    def __call__(self, text: str, world_size: int, words: tuple[str, ...] = ()) -> str:
        """The refusal of a config with overrides on so many GPUs."""
        self.path.write_text(text, encoding="utf-8")
        self.config = None
        try:
            self.config = self.loader.load_config(self.path, cli_args=list(words))
            self.config.validate(world_size)
        except Exception as error:  # any exception is a refusal
            return f"{type(error).__name__}: {error}"
        return ""


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


def differing(config: Any, loaded: Loaded) -> Iterator[str]:
    """Say which keys have other values in the trainer than in fp8tune."""
    for name, value in loaded.values.items():
        held = config
        for part in name.split("."):
            held = getattr(held, part, None)
        held = held.value if isinstance(held, enum.Enum) else held
        told = list(value) if isinstance(value, tuple) else value
        theirs = list(held) if isinstance(held, tuple) else held
        plain = isinstance(told, (bool, int, float, str)) or told is None
        if "." in name and plain and repr(theirs) != repr(told):
            yield f"{name}: {theirs!r}, fp8tune {told!r}"


def main() -> int:
    """Run the comparison; exit code 1 if the two differ anywhere."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    theirs, rules = TrainerVerdict(options.checkout), Rules(read_builtin(), {})
    draw = random.Random(options.seed)  # noqa: S311
    accepted = [one for one in labelled(FIXTURE) if one["verdict"] == "accept"]
    differences = refused = skipped = compared = 0
    for _ in range(options.count):
        start, words = draw.choice(accepted), command_line(draw)
        text, size = start["toml"], start["world_size"]
        target = Target(world_size=size, world_size_origin="--world-size")
        try:
            report = check(
                "x", text.encode(), rules, target, only="kempnerforge", overrides=words
            )
        except Unreadable:
            skipped += 1
            continue
        we_say = [f"{d.rule}: {d.message}" for d in refusals(report)]
        trainer_says = theirs(text, size, words)
        refused += bool(trainer_says)
        odd = []
        if not trainer_says:
            loaded = trainer("kempnerforge").load(tomllib.loads(text), words)
            odd = list(differing(theirs.config, loaded))
            compared += 1
        if bool(trainer_says) != bool(we_say) or odd:
            differences += 1
            print(f"--- {words}: {trainer_says or 'accepts'}; fp8tune: {we_say} {odd}")
    judged = options.count - skipped
    print(f"verdicts and values agree: {judged - differences} of {judged}")
    print(f"({refused} refused, values of {compared} compared, {skipped} not read)")
    return int(bool(differences))


if __name__ == "__main__":
    sys.exit(main())
