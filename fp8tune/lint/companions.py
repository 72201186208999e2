"""The files that describe one job together, read as one document.

A trainer whose job takes several files says in ``[[part]]`` of its ``trainer.toml``
which sections of its keys have a file of their own, and which keys name that file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from fp8tune.formats import TITLES, parse
from fp8tune.formats.document import ConfigDocument, InvalidText, Unreadable
from fp8tune.formats.joined import Joined, Part
from fp8tune.lint.directive import Directive
from fp8tune.lint.discover import CannotRead, read
from fp8tune.trainers.about import PartAbout
from fp8tune.trainers.faults import Fault
from fp8tune.trainers.recognise import section_of
from fp8tune.trainers.trainer import Trainer

MAX_ABOVE = 6
"""Folders above a config in which a file that it names is looked for: a trainer reads
relative paths from the folder that it is started in, often the repository's."""


MAX_NAME = 1000
"""Longest path that is followed [characters]."""


def whole(
    path: str,
    document: ConfigDocument,
    directive: Directive,
    known: Trainer,
    named: Sequence[str],
) -> tuple[Joined | None, Directive]:
    """Return a config joined with the other files of its job, if these are known.

    ``None`` if it is alone. ``named`` are the files that the command line names beside
    it; raises ``Unreadable`` for one that is no part of the job. For a file that the
    header comment names, this is a problem of the comment. Files that the config's own
    keys name are joined where they are found and can be read.
    """
    folder = os.path.dirname(path)
    said = {os.path.normpath(os.path.join(folder, n)): n for n in directive.beside}
    joined, problems = _joined(path, document, known, [*named, *said])
    for name, reason in problems.items():
        if name in named:
            raise Unreadable(f"--with {name}: {reason}")
        word = f"with={said[name]}"
        start = document.text.index(word)
        problem = f"{word}: {reason}", (start, start + len(word))
        directive = directive._replace(problems=(*directive.problems, problem))
    return joined, directive


def _joined(
    path: str, document: ConfigDocument, known: Trainer, named: Sequence[str]
) -> tuple[Joined | None, dict[str, str]]:
    """Return a config joined with other files, and why named ones are no part of it."""
    parts, problems = known.about.parts, {}
    if not parts:
        reason = f"{known.about.title} reads one config file"
        return None, dict.fromkeys(named, reason)
    found = {(own := section_of(document.values, known)): Part(own, path, document)}
    for name in named:
        try:
            part = _named(name, known)
        except (CannotRead, InvalidText, Unreadable) as error:
            problems[name] = str(error).removeprefix(f"{name}: ")
            continue
        if part.section in found:
            other = found[part.section].path
            problems[name] = f"its keys are of the same kind as those of {other}"
        else:
            found[part.section] = part
    for section, about in parts.items():
        if section not in found:
            for place in _places(about, found):
                if beside := _readable(place, about.reads or known.about.reads):
                    found[section] = Part(section, place, beside)
                    break
    alone = found.keys() == {""}
    return None if alone else Joined(found.values()), problems


def _named(name: str, known: Trainer) -> Part:
    document = parse(read(name), name)
    if document.format not in known.about.formats:
        raise Unreadable(f"{known.about.title} reads no {TITLES[document.format]}")
    section = section_of(document.values, known)
    part = known.about.parts.get(section)
    document.read_as(part.reads if part and part.reads else known.about.reads)
    return Part(section, name, document)


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


def of_others(
    path: str, values: dict[str, Any], known: Trainer
) -> Iterator[tuple[str, str, bytes]]:
    """Yield the files of other trainers that a config names, where they are found.

    Each with the other trainer's name, its path and its bytes.
    """
    for name, keys in known.about.named.items():
        given = (_value(values, key) for key in keys)
        texts = (v for v in given if isinstance(v, str) and 0 < len(v) <= MAX_NAME)
        places = (place for text in texts for place in _above(path, text))
        place = next(filter(os.path.isfile, places), "")
        if place:
            with suppress(CannotRead):
                yield name, place, read(place)


def not_read(known: Trainer, values: dict[str, Any]) -> Iterator[Fault]:
    """Yield the keys that name a file of the job which is not part of ``values``."""
    for section, about in known.about.parts.items():
        if section not in values and not about.file:
            for key in about.named_by:
                name = _value(values, key)
                named = isinstance(name, str) and 0 < len(name) <= MAX_NAME
                if named and not name.lstrip().startswith("{"):  # no JSON itself
                    facts = {"key": key, "value": name}
                    yield Fault("file-not-read", tuple(key.split(".")), facts)


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


def _readable(path: str, loader: str) -> ConfigDocument | None:
    """Return the document at a path; ``None`` if there is none that can be read."""
    if not os.path.isfile(path):
        return None
    try:
        document = parse(read(path), path)
        document.read_as(loader)
    except (CannotRead, InvalidText, Unreadable):
        return None
    return document
