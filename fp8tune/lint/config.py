"""One config: its text, its job, and where each value was set."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from fp8tune.formats import parse
from fp8tune.formats.document import ConfigDocument, InvalidText
from fp8tune.job import Job, Target
from fp8tune.lint.directive import directive_of
from fp8tune.lint.discover import read
from fp8tune.lint.settings import settings_for
from fp8tune.trainers.faults import Loaded
from fp8tune.trainers.recognise import chosen, reader
from fp8tune.trainers.trainer import Trainer


class NotAConfig(Exception):
    """The file is not a train config; the message says what it is, or what is wrong."""


class Config(NamedTuple):
    """A train config and the job that it describes.

    ``target`` is from the command line and the project; ``job.target`` also includes
    the header comment.
    """

    path: str
    data: bytes
    document: ConfigDocument
    target: Target
    trainer: Trainer
    loaded: Loaded
    job: Job
    overrides: tuple[str, ...] = ()

    def line(self, key: str) -> int:
        """Return the line of a key, section or value, 0 if it is not in the file."""
        span = self.document.span(tuple(key.split(".")), "value")
        return self.document.lines.position(span[0]).line if span else 0


def read_config(
    path: str,
    target: Target,
    overrides: tuple[str, ...] = (),
    whose: str = "",
    beside: Sequence[str] = (),
) -> Config:
    """Read one config, ``-`` for stdin, with the trainer's own arguments behind it.

    ``whose`` is the trainer that the command line names, ``beside`` are the files of
    the same job that it names. Raises ``CannotRead``,
    ``Unreadable``, ``BadSettings`` and ``NotAConfig``.
    """
    data = read(path)
    try:
        document = parse(data, path)
        settings = settings_for(os.path.dirname(os.path.abspath(path)))
        directive = directive_of(document)
        names = (whose, directive.trainer, settings.trainer)
        kind = chosen(document, names, explicit=True)
    except InvalidText as error:
        line, column = error.position
        raise NotAConfig(f"{path}:{line}:{column}: {error.reason}") from None
    if not kind.trainer:
        raise NotAConfig(f"{path}: {kind.description}")
    extra = (*directive.extra_keys, *settings.extra_keys)
    known, _ = reader(kind.trainer, names, path, extra)
    target = settings.complete(target)
    if known.about.parts or directive.beside or beside:
        from fp8tune.lint.companions import whole

        found = whole(path, document, directive, known, beside, whose)
        for other in found.apart:
            if not other.only and other.path in beside:
                reason = f"a config of {other.title}, which is read alone"
                raise NotAConfig(f"--with {other.path}: {reason}")
        joined = any(other.joined for other in found.apart)
        document = document if joined else found.files or document
        directive = found.directive
    said = directive.complete(target)
    loaded = known.load(document.values, overrides)
    job = known.job_at(path, loaded, said)
    return Config(path, data, document, target, known, loaded, job, overrides)
