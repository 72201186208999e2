"""One config: its text, its job, and where each value was set."""

from __future__ import annotations

import os
from typing import NamedTuple

from fp8tune.job import Job, Target
from fp8tune.lint.directive import read_directive
from fp8tune.lint.discover import read
from fp8tune.lint.settings import settings_for
from fp8tune.toml.document import Document, InvalidToml, parse
from fp8tune.trainers.faults import Loaded
from fp8tune.trainers.trainer import Trainer, recognise, trainer


class NotAConfig(Exception):
    """The file is not a train config; the message says what it is, or what is wrong."""


class Config(NamedTuple):
    """A train config and the job that it describes.

    ``target`` is from the command line and the project; ``job.target`` also includes
    the header comment.
    """

    path: str
    data: bytes
    document: Document
    target: Target
    trainer: Trainer
    loaded: Loaded
    job: Job
    overrides: tuple[str, ...] = ()

    def line(self, key: str) -> int:
        """Return the line of a key, section or value, 0 if it is not in the file."""
        span = self.document.span(tuple(key.split(".")), "value")
        return self.document.lines.position(span[0]).line if span else 0


def read_config(path: str, target: Target, overrides: tuple[str, ...] = ()) -> Config:
    """Read one config (``-``: stdin) and the trainer's overrides.

    Raises ``CannotRead``, ``Unreadable``, ``BadSettings`` and ``NotAConfig``.
    """
    data = read(path)
    try:
        document = parse(data)
    except InvalidToml as error:
        line, column = error.position
        raise NotAConfig(f"{path}:{line}:{column}: {error.reason}") from None
    settings = settings_for(os.path.dirname(os.path.abspath(path)))
    kind = recognise(document.values, explicit=True)
    name = settings.trainer or kind.trainer
    if not name:
        raise NotAConfig(f"{path}: {kind.description}")
    known, target = trainer(name), settings.complete(target)
    said = read_directive(document.text).complete(target)
    loaded = known.load(document.values, overrides)
    job = known.job(loaded, said)
    return Config(path, data, document, target, known, loaded, job, overrides)
