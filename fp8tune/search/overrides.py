"""Write the overrides of a command line into a config.

The search uses the result as its config, so that the tuned file needs no overrides.
"""

from __future__ import annotations

import shlex

from fp8tune.config.reader import Config
from fp8tune.formats.document import ConfigDocument
from fp8tune.formats.edits import CannotEdit
from fp8tune.search import CannotSearch
from fp8tune.trainers.faults import Loaded, dotted
from fp8tune.trainers.written import rewritten


def with_overrides(config: Config, overrides: tuple[str, ...]) -> bytes:
    """Return the bytes of a config with the overrides written into it.

    Raises ``CannotSearch`` for overrides that the trainer refuses or ignores, and for
    values that TOML cannot hold; ``InvalidText`` and ``Unreadable``.
    """
    path, document = config.path, config.document
    loaded = config.having(overrides=overrides).loaded
    words = shlex.join(overrides)
    wrong = next((f.argument.text for f in loaded.faults if f.argument), "")
    if wrong:
        command = f"fp8tune lint {shlex.quote(path)} -- {words}"
        raise CannotSearch(f"{wrong} does not do what it says: see {command}")
    try:
        text = _written(document, loaded)
    except CannotEdit as error:
        raise CannotSearch(f"cannot write {words} into {path}: {error}") from None
    after = config.having(document=document.read(text)).loaded
    if after.values != loaded.values:
        raise CannotSearch(f"{path} cannot hold {words}: write it into the file first")
    return f"{chr(0xFEFF) * document.bom}{text}".encode()


def _written(document: ConfigDocument, loaded: Loaded) -> str:
    """Return the text with each overridden key; raises ``CannotEdit``."""
    names = tuple(map(dotted, loaded.arguments))
    keys = [
        key
        for key in loaded.written
        if any(key == name or key.startswith(f"{name}.") for name in names)
    ]
    return rewritten(document, {key: loaded.values[key] for key in keys})
