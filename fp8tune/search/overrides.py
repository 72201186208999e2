"""Read the config that a command line asks to search, with its overrides written.

The search uses the result as its config, so that the tuned file needs no overrides.
"""

from __future__ import annotations

import errno
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

from fp8tune.config.directive import BadTarget
from fp8tune.config.discover import meant
from fp8tune.config.reader import Config
from fp8tune.config.settings import BadSettings
from fp8tune.formats import format_of
from fp8tune.formats.document import InvalidText, Unreadable
from fp8tune.job import Target
from fp8tune.search import CannotSearch
from fp8tune.search.linting import command_on
from fp8tune.search.options import SearchOptions
from fp8tune.search.plan import config_to_search, with_gpus
from fp8tune.search.recorded import MAX_BYTES
from fp8tune.search.write.job_files import write_job
from fp8tune.search.write.writeback import CannotWrite, Choice
from fp8tune.trainers.call import Program
from fp8tune.trainers.faults import Loaded, dotted


@contextmanager
def one_line_errors(path: str) -> Iterator[None]:
    """Raise ``CannotSearch`` where a config cannot be read, with its place."""
    try:
        yield
    except (BadSettings, BadTarget, Unreadable) as error:
        plain = str(error)
        named = plain if isinstance(error, BadSettings) or path in plain else ""
        raise CannotSearch(named or f"{path}: {plain}") from None
    except InvalidText as error:
        line, column = error.position
        raise CannotSearch(f"{path}:{line}:{column}: {error.reason}") from None


def config_asked(
    options: SearchOptions, gpu: str, origin: str, world_size: int
) -> Config:
    """Return the config of a search; raises ``CannotSearch`` and as ``config_of``.

    ``gpu`` is the GPU that it is for, by ``origin``. If nothing says the number of
    GPUs, it is ``world_size``.
    """
    try:
        with open(options.config, "rb") as file:
            data = file.read(MAX_BYTES)
    except OSError as error:
        there = error.errno != errno.ENOENT
        hint = "" if there else meant(options.config)
        raise CannotSearch(f"{options.config}: {error.strerror}{hint}") from None
    asked = "--world-size" if options.world_size else ""
    target = Target(gpu, options.world_size, origin, asked)
    path, name, overrides = options.config, options.trainer, options.overrides
    config = config_to_search(path, data, target, name, world_size, options.beside)
    if not overrides:
        return config
    if format_of(config.path) == "bash":
        why = "a search starts the script without arguments: write their values into it"
        raise CannotSearch(f"{path}: {why}, or defaults such as `${{1:-VALUE}}`")
    config = with_overrides(config, overrides).having(written=overrides, gpus=None)
    return with_gpus(config, world_size)


def with_overrides(config: Config, overrides: tuple[str, ...]) -> Config:
    """Return a config with the overrides written into its files.

    Raises ``CannotSearch`` for overrides that the trainer refuses or ignores, and for
    values that its format cannot hold; ``InvalidText`` and ``Unreadable``.
    """
    path, words = config.path, shlex.join((*config.overrides, *overrides))
    loaded = config.having(overrides=(*config.overrides, *overrides)).loaded
    wrong = next((f.argument.text for f in loaded.faults if f.argument), "")
    if wrong:
        command = command_on(config.having(written=overrides), "lint")
        raise CannotSearch(f"{wrong} does not do what it says: see {command}")
    try:
        _, after = write_job(config, [*_overridden(config, loaded)])
    except CannotWrite as error:
        raise CannotSearch(f"cannot write {words} into {path}: {error}") from None
    if after.loaded.values != loaded.values:
        raise CannotSearch(f"{path} cannot hold {words}: write it into the file first")
    return after


def without_script(config: Config) -> Config:
    """Return a config whose own file has the arguments of its launch script.

    The trainer then reads the same values without the script. Raises ``CannotSearch``.
    """
    if not config.script:
        return config
    alone = config.having(script=None, overrides=())
    return with_overrides(alone, config.overrides) if config.overrides else alone


def started(config: Config) -> tuple[tuple[str, ...], Program]:
    """Return the arguments of a job that are typed, and what a launcher starts.

    They are those of the launch script, or stand behind ``--``.
    """
    if config.script:
        return config.overrides, config.script.program
    return config.written, Program(words=config.written)


def _overridden(config: Config, loaded: Loaded) -> Iterator[Choice]:
    """Yield the keys that overrides set."""
    before = config.loaded.arguments
    new = {p: each for p, each in loaded.arguments.items() if before.get(p) != each}
    names = tuple(map(dotted, new))
    for key in loaded.written:
        mine = any(key == name or key.startswith(f"{name}.") for name in names)
        if mine and key in loaded.values:  # another may be a script's own argument
            yield Choice(key, loaded.values[key])
