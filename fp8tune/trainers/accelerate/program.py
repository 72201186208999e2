"""What ``accelerate launch`` starts: the user's script, or a command of TRL.

``trl sft --config sft.yaml`` is ``accelerate launch trl/scripts/sft.py --config
sft.yaml``: it hands the options of the launcher that stand in the file, or behind it,
to ``accelerate launch``, and lets the script ignore them.

Source: TRL 0.15 to 1.16, cli; accelerate 1.8.1 to 1.15.0, commands/launch.py.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from fp8tune.formats.document import HOLE, Unreadable
from fp8tune.formats.joined import Part
from fp8tune.trainers.about import trainers
from fp8tune.trainers.accelerate.arguments import LAUNCH_FILE, commands, reader
from fp8tune.trainers.accelerate.command_line import (
    FOLLOWED,
    NAME,
    OPTION,
    PART,
    whole_name,
)
from fp8tune.trainers.call import Program, options

SCRIPTS = "trl.scripts"
FIRST = "sft"
"""The command that is meant where the arguments are those of several."""
DATA = ("dataset_name", "datasets")
"""Arguments of which TRL's scripts need one."""
MOST_SHOWN = 3
"""Keys of another script that are named."""
OF_STEP = ("train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
"""Keys of a DeepSpeed file that have to be those of the training arguments."""
SWITCHES = {"use_cpu": "--cpu"}
"""Options of the launcher without a value, by their keys."""


def program_of(given: Program, parts: Collection[Part]) -> Program:
    """Return what a job starts; raises ``Unreadable`` with what to type if it says not.

    ``given`` is what its launch script starts, or the words behind ``--``. Without them
    the training arguments are those of a command of TRL.
    """
    by_section = {part.section: part for part in parts}
    training = by_section.get(PART)
    _check_deepspeed(by_section)
    if given.folder:
        raise Unreadable(f"it starts in {given.folder}: type the command there")
    if "".join(given.words[:1]).startswith("--"):
        given = _split(given.words)
    words = given.words
    if not words and training is None:
        raise Unreadable(
            "a launch file does not say what it starts: name its training arguments, "
            "--with TRAINING.yaml, or search the launch script that starts it, such as "
            "train.sbatch"
        )
    command, *typed = words or (_command_of(training),)
    if command not in commands():
        if training and not _is_named(training.path, words):
            script = shlex.join(words[: 2 if command in ("-m", "--module") else 1])
            raise Unreadable(
                f"{script} is not given {training.path}, so trials would not read it: "
                f"name it there, such as `{script} --config {training.path}`"
            )
        return given
    names = [name for name, *_ in _options(typed)]
    names += training.document.values if training else ()
    _check_launcher(command, names, is_led="" in by_section)
    typed = [*_without(typed, (LAUNCH_FILE,))]
    if training and not _is_named(training.path, typed):
        typed = ["--config", training.path, *typed]
    return given._replace(words=("-m", f"{SCRIPTS}.{command}", *typed))


def _is_named(path: str, words: Sequence[str]) -> bool:
    """Return whether a word, or the value of one with ``=``, is the path of a file."""
    values = (word.rpartition("=")[2] for word in words)
    return any(os.path.normpath(value) == os.path.normpath(path) for value in values)


def _split(words: tuple[str, ...]) -> Program:
    """Return a program whose words begin with options of the launcher."""
    every = options(trainers()[NAME].calls[0], words, 0)
    start = max((option.end for option in every), default=0)
    return Program(words[:start], words[start:])


def _command_of(training: Part | None) -> str:
    """Return the command of TRL that reads a file."""
    assert training is not None
    names = training.document.values.keys()
    every = sorted(commands(), key=lambda name: (name != FIRST, name))
    read = [name for name in every if names <= reader(name).names]
    if not read or names.isdisjoint(DATA):
        odd = sorted(names - reader(FIRST).names)[:MOST_SHOWN]
        lacks = ", ".join(f"`{name}`" for name in odd)
        has = f" `trl {FIRST}` has no {lacks}." * bool(odd)
        raise Unreadable(
            f"which script reads {training.path}?{has} Search the launch script that "
            "starts it, such as train.sbatch, or add `-- sft` for that command of TRL"
        )
    return read[0]


def _check_launcher(command: str, names: Collection[str], *, is_led: bool) -> None:
    """Raise ``Unreadable`` for options of the launcher among those of TRL."""
    for name in names:
        if name == LAUNCH_FILE and not is_led:
            raise Unreadable(f"`{name}` names the launch file: add --with FILE")
        if name in reader(command).of_launcher and name != LAUNCH_FILE:
            where = "write it in a launch file, and name that: --with FILE"
            raise Unreadable(f"`{name}` is an option of accelerate launch: {where}")


def _check_deepspeed(parts: Mapping[str, Part]) -> None:
    """Raise ``Unreadable`` for a DeepSpeed file that fixes what a search varies."""
    part = parts.get("deepspeed")
    values = part.document.values if part else {}
    for key in OF_STEP:
        if part and isinstance(values.get(key), int):
            auto = f'set it to "auto" in {part.path}'
            raise Unreadable(f"`{key}: {values[key]}` would fix what is varied: {auto}")


def with_values(program: Program, keys: Mapping[str, Any]) -> Program:
    """Return a program with other values of typed keys; ``None`` removes one.

    Raises ``Unreadable`` for a word that only a run knows.
    """
    of_part = f"{PART}."
    ours = {
        key.removeprefix(of_part): value
        for key, value in keys.items()
        if key.startswith(of_part)
    }
    theirs = {key: v for key, v in keys.items() if not key.startswith(of_part)}
    options = (*_without(program.options, theirs), *_typed_options(theirs))
    words = (*_without(program.words, ours), *_typed(ours))
    for before, word in pairwise(["", *options, *words]):
        if HOLE in word:
            shown = f"{before} {word}".replace(HOLE, "_")
            raise Unreadable(f"`{shown.strip()}` is not known before the run")
    return program._replace(options=options, words=words)


def _options(words: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Yield the options among words: the name of each, and where its words stand."""
    starts = [n for n, word in enumerate(words) if OPTION.match(word)]
    names = reader("").names
    for start, end in pairwise([*starts, len(words)]):
        name = words[start].partition("=")[0].lstrip("-").replace("-", "_")
        yield whole_name(name, names), start, end


def _without(words: Sequence[str], names: Collection[str]) -> tuple[str, ...]:
    """Return words without the options of these names."""
    gone = {
        number
        for name, start, end in _options(words)
        for number in range(start, end)
        if name in names
    }
    return tuple(word for number, word in enumerate(words) if number not in gone)


def _typed(keys: Mapping[str, Any]) -> Iterator[str]:
    """Yield the words that set keys."""
    for key, value in keys.items():
        if value is not None:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            yield from (f"--{key}", text)


def _typed_options(keys: Mapping[str, Any]) -> Iterator[str]:
    """Yield the words that set options of the launcher."""
    yield from (option for key, option in SWITCHES.items() if keys.get(key))
    yield from _typed({key: v for key, v in keys.items() if key in FOLLOWED})
