"""The files that describe one job together, read as one document.

A trainer whose job takes several files says in ``[[part]]`` of its ``trainer.toml``
which sections of its keys have a file of their own, and which keys name that file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from fp8tune.formats import parse
from fp8tune.formats.document import ConfigDocument, InvalidText, Unreadable
from fp8tune.formats.joined import Joined, Part
from fp8tune.lint.discover import CannotRead, read
from fp8tune.trainers.about import PartAbout
from fp8tune.trainers.recognise import section_of
from fp8tune.trainers.trainer import Trainer

MAX_ABOVE = 6
"""Folders above a config in which a file that it names is looked for: a trainer reads
relative paths from the folder that it is started in, often the repository's."""


MAX_NAME = 1000
"""Longest path that is followed [characters]."""


class NoCompanion(Exception):
    """A file that was named beside a config is no part of its job; says why."""


def whole(
    path: str, document: ConfigDocument, known: Trainer, named: Sequence[str]
) -> ConfigDocument:
    """Return a config joined with the other files of its job, if these are known.

    ``named`` are the files that the user names beside it. Raises ``NoCompanion`` for
    one of them that is no part of the job. Files that the config's own keys name are
    joined where they are found and can be read.
    """
    parts = known.about.parts
    if not parts:
        if named:
            raise NoCompanion(f"{known.about.title} reads one config file")
        return document
    found = {(own := section_of(document.values, known)): Part(own, path, document)}
    for name in named:
        part = _named(name, known)
        if part.section in found:
            what = f"`{part.section}`" if part.section else "the launch settings"
            raise NoCompanion(f"{name}: {what} come from {found[part.section].path}")
        found[part.section] = part
    for section, about in parts.items():
        if section not in found:
            for place in _places(about, found):
                if beside := _readable(place):
                    found[section] = Part(section, place, beside)
                    break
    return Joined(found.values()) if found.keys() != {""} else document


def _named(name: str, known: Trainer) -> Part:
    try:
        document = parse(read(name), name)
    except CannotRead as error:
        raise NoCompanion(str(error)) from None
    except (InvalidText, Unreadable) as error:
        raise NoCompanion(f"{name}: {error}") from None
    return Part(section_of(document.values, known), name, document)


def _places(about: PartAbout, found: dict[str, Part]) -> Iterator[str]:
    """Yield the paths at which the file of a part may be, by the keys that name it."""
    for key in about.named_by:
        section, _, inner = key.partition(".")
        part, name = (found.get(section), inner) if inner else (None, "")
        if part is None:
            part, name = found.get(""), key
        value = part and _value(part.document.values, name)
        if part and isinstance(value, str) and 0 < len(value) <= MAX_NAME:
            yield from _above(part.path, os.path.join(value, about.file))


def _value(values: Any, key: str) -> Any:
    for name in key.split("."):
        values = values.get(name) if isinstance(values, dict) else None
    return values


def _above(path: str, name: str) -> Iterator[str]:
    """Yield where a relative path may lead: from the config's folder and above."""
    folder = os.path.dirname(path)
    if os.path.isabs(name):
        yield os.path.normpath(name)
        return
    for _ in range(MAX_ABOVE):
        yield os.path.normpath(os.path.join(folder, name))
        folder = os.path.join(folder, os.pardir)


def _readable(path: str) -> ConfigDocument | None:
    """Return the document at a path; ``None`` if there is none that can be read."""
    try:
        return parse(read(path), path) if os.path.isfile(path) else None
    except (CannotRead, InvalidText, Unreadable):
        return None
