"""The files that describe one job together, read as one document.

A trainer whose job takes several files says in ``[[part]]`` of its ``trainer.toml``
which sections of its keys have a file of their own, and which keys name that file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from os.path import isfile
from typing import Any, NamedTuple

from fp8tune.config.directive import Directive, directive_of
from fp8tune.config.discover import CannotRead, Found, read
from fp8tune.formats import TITLES, format_of, parse
from fp8tune.formats.document import ConfigDocument, InvalidText, Unreadable
from fp8tune.formats.joined import Joined, Part
from fp8tune.formats.values import find
from fp8tune.job import Prose
from fp8tune.trainers.about import PartAbout, trainers
from fp8tune.trainers.faults import Fault
from fp8tune.trainers.recognise import (
    chosen,
    is_part,
    may_be_config,
    reader,
    section_of,
)
from fp8tune.trainers.trainer import Trainer, trainer

MAX_ABOVE = 6
"""Folders above a config in which a file that it names is looked for: a trainer reads
relative paths from the folder that it is started in, often the repository's."""


LOOKED_FOR = "relative paths are looked for beside this file and in the folders above"
MAX_NAME = 1000
"""Longest path that is followed [characters]."""


class Apart(NamedTuple):
    """A file of the job that is a config of another trainer, and is checked as such.

    ``title`` is that trainer's. ``only`` is its name where the job says it, which then
    reads the file too; empty where the file's own keys say it. ``joined`` says that the
    file is a part of the job too; ``beside`` are the files of the job that it leads,
    and ``values`` its own.
    """

    path: str
    title: str
    only: str = ""
    joined: bool = False
    beside: tuple[str, ...] = ()
    values: Mapping[str, Any] | None = None


class JobFiles(NamedTuple):
    """The files of a job: those that are joined, and those of another trainer.

    ``files`` is ``None`` if the config is alone.
    """

    files: Joined | None
    directive: Directive
    apart: tuple[Apart, ...] = ()

    @property
    def host(self) -> Mapping[str, Any] | None:
        """Values of the file of another trainer that leads the job."""
        return next((other.values for other in self.apart if other.beside), None)


def whole(
    path: str,
    document: ConfigDocument,
    directive: Directive,
    known: Trainer,
    named: Sequence[str],
    only: str = "",
) -> JobFiles:
    """Return a config with the other files of its job, if these are known.

    ``named`` are the files that the command line names beside it; raises ``Unreadable``
    for one that is no part of the job. For a file that the header comment names, this
    is a problem of the comment. One of the command line replaces one of the comment
    that has the same kind of keys. Files that the config's own keys name are joined
    where they are found and can be read. ``only`` is the trainer that the command line
    names.
    """
    folder = os.path.dirname(path)
    said = {os.path.normpath(os.path.join(folder, n)): n for n in directive.beside}
    others: dict[str, str] = {}
    for name in (path, *named, *said):
        others.setdefault(os.path.abspath(name), name)
    beside = [*others.values()][1:]
    if not only and (first := _host(known, beside)):
        rest = (path, *(name for name in beside if name != first.path))
        apart = first._replace(beside=rest), *_named_by_keys(path, document, known)
        return JobFiles(None, directive, apart)
    parts, problems = _parts(path, document, known, beside, only, given=named)
    for name, reason in problems.items():
        if name in named:
            raise Unreadable(f"--with {name}: {reason}")
        word = f"with={said[name]}"
        start = document.text.index(word)
        problem = f"{word}: {reason}", (start, start + len(word))
        directive = directive._replace(problems=(*directive.problems, problem))
    apart = (
        *_of_others(parts[1:], known, only),
        *_named_by_keys(path, document, known),
    )
    own = [part for part in parts if part.section is not None]
    alone = len(own) == 1 and own[0].section == ""
    files = None if alone else Joined(Part(s or "", p, d) for s, p, d in own)
    return JobFiles(files, directive, apart)


def one_job(files: Sequence[Found], only: str) -> list[Found]:
    """Return the files that are one job, each with the others beside it.

    One file leads it, such as a launch file, and each other one is another part of it.
    Else none is returned. ``only`` is as for ``whole``.
    """
    leads = [(file, known) for file in files if (known := _led_by(file, only))]
    if len(leads) != 1:
        return []
    lead, known = leads[0]
    others = [(file, _part_of(file.path, known)) for file in files if file is not lead]
    parts = {part.section: (file, part) for file, part in others if part}
    if not parts or len(parts) < sum(part is not None for _, part in others):
        return []
    paths = [lead.path, *(file.path for file, _ in parts.values())]
    names = f"{', '.join(paths[:-1])} and {paths[-1]}"
    note = f"{names} are checked as one job"
    job = [lead._replace(beside=tuple(paths[1:]), note=note)]
    for file, part in parts.values():
        owner, about = _owner(part.document, ""), known.about.parts[part.section or ""]
        beside = tuple(path for path in paths if path != file.path)
        if owner in about.also:
            job.append(file._replace(beside=beside))
        elif not about.trainer:  # that trainer's own check needs no other file
            job.append(file._replace(beside=beside, trainer=known.id))
    return job


def _led_by(file: Found, only: str) -> Trainer | None:
    """Return the trainer whose job a file leads."""
    with suppress(CannotRead, InvalidText, Unreadable):
        document = parse(read(file.path), file.path)
        names = (only, directive_of(document).trainer)
        kind = chosen(document, names, explicit=file.explicit)
        if kind.trainer:
            known, _ = reader(kind.trainer, names, file.path)
            if known.about.parts and not section_of(document.values, known):
                return known
    return None


def _part_of(path: str, known: Trainer) -> _File | None:
    """Return a file that is surely a part of a trainer's job."""
    with suppress(CannotRead, InvalidText, Unreadable):
        file = _named(path, known, "")
        mine = file.section and is_part(file.document.values, file.section, known)
        if mine or (file.section and _owner(file.document, "")):
            return file
    return None


class _File(NamedTuple):
    """A file of the job; ``section`` is ``None`` for one that is no part of it."""

    section: str | None
    path: str
    document: ConfigDocument


def _parts(
    path: str,
    document: ConfigDocument,
    known: Trainer,
    named: Sequence[str],
    only: str,
    given: Sequence[str],
) -> tuple[list[_File], dict[str, str]]:
    """Return the files of a job, the config first, and why named ones are none.

    ``given`` are those that the command line names; they replace others silently.
    """
    parts, problems = known.about.parts, {}
    first = _File(section_of(document.values, known) if parts else "", path, document)
    if not parts:
        reason = f"{known.about.title} reads one config file: lint each by itself"
        return [first], dict.fromkeys(named, reason)
    found, strangers = {first.section: first}, []
    for name in named:
        try:
            file = _named(name, known, only)
        except InvalidText as error:
            problems[name] = f"line {error.position.line}: {error}"
            continue
        except (CannotRead, Unreadable) as error:
            problems[name] = str(error).removeprefix(f"{name}: ")
            continue
        if file.section is None:
            strangers.append(file)
        elif file.section in found:
            other = found[file.section].path
            if name in given or other not in given:
                problems[name] = f"its keys are of the same kind as those of {other}"
        else:
            found[file.section] = file
    _add_named_by_keys(found, known)
    return [*found.values(), *strangers], problems


def _add_named_by_keys(found: dict[str | None, _File], known: Trainer) -> None:
    """Add the parts of a job that keys of its other files name, where they are."""
    for section, about in known.about.parts.items():
        if section not in found:
            for place in _places(about, found):
                if beside := _readable(place, about.reads or known.about.reads):
                    found[section] = _File(section, place, beside)
                    break


def _named(name: str, known: Trainer, only: str) -> _File:
    document = parse(read(name), name)
    section = section_of(document.values, known)
    part = known.about.parts.get(section)
    owner = _owner(document, only)
    also = part is not None and owner in part.also
    if not also and owner not in ("", known.name, part and part.trainer):
        return _File(None, name, document)
    if document.format not in known.about.formats:
        raise Unreadable(f"{known.about.title} reads no {TITLES[document.format]}")
    if not also:  # its own loader reads such a file
        document.read_as(part.reads if part and part.reads else known.about.reads)
    return _File(section, name, document)


def _host(known: Trainer, named: Iterable[str]) -> Apart | None:
    """Return the file of another trainer of whose job a config is a part."""
    hosts = {
        about.name: trainer(about.name)
        for about in trainers().values()
        if any(known.name in part.also for part in about.parts.values())
    }
    for name in named if hosts else ():
        with suppress(CannotRead, InvalidText, Unreadable):
            document = parse(read(name), name)
            owner = hosts.get(_owner(document, ""))
            if owner and not section_of(document.values, owner):
                return Apart(name, owner.about.title, values=document.values)
    return None


def is_of_job(path: str, known: Trainer, *, explicit: bool) -> bool:
    """Whether a file may be one of a trainer's job, or is another trainer's config.

    So may one be that cannot be parsed, if it has their keys, or ``explicit`` says that
    it is named as a config.
    """
    try:
        return bool(_owner(_named(path, known, "").document, ""))
    except InvalidText as error:
        return may_be_config(error.text, explicit=explicit, form=format_of(path))
    except (CannotRead, Unreadable):
        return False


def _owner(document: ConfigDocument, only: str) -> str:
    """The trainer whose config a file is by itself; ``""`` if it is none's."""
    names = (only, directive_of(document).trainer)
    return chosen(document, names, explicit=True).trainer.partition("==")[0]


def _of_others(files: Iterable[_File], known: Trainer, only: str) -> Iterator[Apart]:
    """Yield the files that are configs of other trainers."""
    for section, path, document in files:
        part = known.about.parts.get(section or "")
        owner = (
            _owner(document, only) if section is None or (part and part.also) else ""
        )
        if section is None:
            yield Apart(path, trainers()[owner].title)
        elif part and owner in part.also:
            yield Apart(path, trainers()[owner].title, joined=True)
        elif part and part.trainer:
            yield Apart(path, trainers()[part.trainer].title, part.trainer)


def _named_by_keys(
    path: str, document: ConfigDocument, known: Trainer
) -> Iterator[Apart]:
    """Yield the files of other trainers that a config's keys name, where they are."""
    for name, keys in known.about.named.items():
        texts = (_file_name(document.values, key) for key in keys)
        places = (place for text in texts if text for place in _above(path, text))
        place = next(filter(isfile, places), "")
        if place:
            yield Apart(place, trainers()[name].title, name)


def _places(about: PartAbout, found: Mapping[str | None, _File]) -> Iterator[str]:
    """Yield the paths at which the file of a part may be, by the keys that name it."""
    for key in about.named_by:
        section, _, inner = key.partition(".")
        part, name = (found.get(section), inner) if inner else (None, "")
        if part is None:
            part, name = found.get(""), key
        if part and (value := _file_name(part.document.values, name)):
            yield from _above(part.path, os.path.join(value, about.file))


def not_read(path: str, known: Trainer, values: dict[str, Any]) -> Iterator[Fault]:
    """Yield the keys that name a file of the job which was not found, or not read.

    A part of the job that was found is part of ``values``.
    """
    parts = known.about.parts.items()
    absent = (p for section, p in parts if section not in values and not p.file)
    joined = [key for about in absent for key in about.named_by]
    apart = [key for keys in known.about.named.values() for key in keys]
    for key in (*joined, *apart):
        name = _file_name(values, key)
        place = next(filter(isfile, _above(path, name)), "") if name else ""
        if name and (key in joined or not place):
            advice = "name it with `--with FILE`" if key in joined else "check it too"
            advice += f" if it lies elsewhere; {LOOKED_FOR}"
            why = "is not there"
            if place:
                why = f"cannot be read ({_problem(place)})"
                advice = f"see `fp8tune lint {place}`"
            facts = {"key": key, "value": name, "why": Prose(why)}
            facts |= {"advice": Prose(advice)}
            yield Fault("file-not-read", tuple(key.split(".")), facts)


def _problem(path: str) -> str:
    """Return why a file cannot be read."""
    try:
        parse(read(path), path)
    except (CannotRead, InvalidText, Unreadable) as error:
        return str(error).removeprefix(f"{path}: ")
    return "its loader does not read it"


def _file_name(values: Any, key: str) -> str:
    """Return the path that a key names; ``""`` for another value, such as JSON."""
    name = find(values, (*key.split("."),))
    named = isinstance(name, str) and 0 < len(name) <= MAX_NAME
    return name if named and not name.lstrip().startswith("{") else ""


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
    if not isfile(path):
        return None
    try:
        document = parse(read(path), path)
        document.read_as(loader)
    except (CannotRead, InvalidText, Unreadable):
        return None
    return document
