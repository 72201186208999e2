"""Write the overrides of a command line into a config.

The search uses the result as its config, so that the tuned file needs no overrides.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from fp8tune.config.reader import Config
from fp8tune.search import CannotSearch
from fp8tune.search.write.job_files import write_job
from fp8tune.search.write.writeback import CannotWrite, Choice
from fp8tune.trainers.faults import Loaded, dotted


def with_overrides(config: Config, overrides: tuple[str, ...]) -> Config:
    """Return a config with the overrides written into its files.

    Raises ``CannotSearch`` for overrides that the trainer refuses or ignores, and for
    values that its format cannot hold; ``InvalidText`` and ``Unreadable``.
    """
    path, words = config.typed_path, shlex.join(overrides)
    loaded = config.having(overrides=(*config.overrides, *overrides)).loaded
    wrong = next((f.argument.text for f in loaded.faults if f.argument), "")
    if wrong:
        command = f"fp8tune lint {shlex.quote(path)} -- {words}"
        raise CannotSearch(f"{wrong} does not do what it says: see {command}")
    try:
        _, after = write_job(config, [*_overridden(config, loaded)])
    except CannotWrite as error:
        raise CannotSearch(f"cannot write {words} into {path}: {error}") from None
    if after.loaded.values != loaded.values:
        raise CannotSearch(f"{path} cannot hold {words}: write it into the file first")
    return after


def _overridden(config: Config, loaded: Loaded) -> Iterator[Choice]:
    """Yield the keys that overrides set."""
    before = config.loaded.arguments
    new = {p: each for p, each in loaded.arguments.items() if before.get(p) != each}
    names = tuple(map(dotted, new))
    for key in loaded.written:
        if any(key == name or key.startswith(f"{name}.") for name in names):
            yield Choice(key, loaded.values[key])
