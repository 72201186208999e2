"""A trainer: its schema, its loader, its words, and how to know its configs."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import cache, cached_property
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

from fp8tune.facts import FACTS
from fp8tune.job import Job, Target, Unknown, Vocabulary, sources, vocabulary
from fp8tune.suggest import closest
from fp8tune.trainers import schema
from fp8tune.trainers.faults import Loaded

NAMES = ("kempnerforge",)
"""Trainers that are known; each is a folder next to this file."""

FOREIGN = {
    "a Python project file": {"build-system", "project", "tool"},
    "a Cargo manifest": {"package", "dependencies", "workspace"},
    "a torchtitan config": {
        "training",
        "parallelism",
        "lr_scheduler",
        "activation_checkpoint",
    },
}
"""Top-level tables by which other TOML files are known."""


_HEADER = r"(?m)^[ \t]*\[+[ \t]*([A-Za-z_-]+)"


DEGREES = "the parallel degrees"
"""Source of the number of GPUs if nothing else gives it."""


class Trainer:
    """One trainer, loaded from its folder."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.schema = schema.read(name)
        self._loader = self._module("loader").Loader(self.schema)

    def _module(self, name: str) -> ModuleType:
        return import_module(f"fp8tune.trainers.{self.name}.{name}")

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Every name that a rule for this trainer may use."""
        keys = frozenset(name for name, _ in self.schema.dotted_keys())
        computed = dict(FACTS)
        for name in import_module(f"fp8tune.trainers.{self.name}").WORDS:
            computed |= sources(self._module(name))
        return vocabulary(keys | self.optional_sections, self.schema.job, computed)

    @cached_property
    def starter(self) -> str:
        """The text of a config to start from, with fields to fill in."""
        path = os.path.join(os.path.dirname(__file__), self.name, "starter.toml")
        with open(path, encoding="utf-8") as file:
            return file.read()

    @cached_property
    def optional_sections(self) -> frozenset[str]:
        """The sections that stay absent where a config does not write them."""
        return frozenset(s for s in self.schema.sections if self.schema.optional(s))

    @cached_property
    def section_keys(self) -> dict[str, frozenset[str]]:
        """The keys of each section, of all its variants."""
        found: dict[str, set[str]] = {
            section: set() for section in self.schema.sections
        }
        for name, _ in self.schema.dotted_keys():
            section, _, key = name.partition(".")
            found[section].add(key)
        return {section: frozenset(keys) for section, keys in found.items()}

    def load(self, values: dict[str, Any], overrides: tuple[str, ...] = ()) -> Loaded:
        """The config as the trainer would hold it, and what it refuses.

        ``overrides`` are the arguments behind the config on the trainer's own command
        line. Raises ``Unreadable`` for those whose effect is not known.
        """
        loaded: Loaded
        if overrides:
            loaded = self.command_line.load(self._loader, values, overrides)
        else:
            loaded = self._loader.load(values)
        return loaded

    @property
    def command_line(self) -> ModuleType:
        """How this trainer reads its command line."""
        return self._module("command_line")

    def job(self, loaded: Loaded, target: Target) -> Job:
        """The job that a loaded config describes.

        On as many GPUs as its degrees ask for, if no number is given and they
        leave none open: no other number starts.
        """
        job = Job(self.vocabulary, loaded.values, loaded.written, target)
        with suppress(Unknown):
            if not target.world_size:
                size = int(job["declared_gpus"])
                placed = target._replace(world_size=size, world_size_origin=DEGREES)
                job = Job(self.vocabulary, loaded.values, loaded.written, placed)
        return job


@cache
def trainer(name: str) -> Trainer:
    """The trainer of that name."""
    return Trainer(name)


def misnamed(name: str) -> str:
    """Why there is no trainer of that name, and what there is; ``""`` if there is."""
    if name in NAMES:
        return ""
    near = closest(name, NAMES)
    hint = f"; did you mean {near}?" if near else f"; known: {', '.join(NAMES)}"
    return f"no trainer named {name!r}{hint}"


def may_be_config(text: str, *, explicit: bool) -> bool:
    """Whether a text that does not parse, or is not parsed, may be a train config.

    A file that the user named may be one unless it has tables of another kind of
    file and none of a trainer; another file needs two of a trainer's sections.
    """
    names = set(re.findall(_HEADER, text))
    mine = max(len(names & trainer(name).schema.sections.keys()) for name in NAMES)
    foreign = any(names & tables for tables in FOREIGN.values())
    return mine > 1 or (explicit and (mine > 0 or not foreign))


EXPLICIT, FOUND = 3, 2
"""One in so many keys or tables must be a trainer's: of a file that the user named,
and of another."""


class Kind(NamedTuple):
    """What a TOML file is: ``trainer`` is empty when it is no train config."""

    trainer: str
    fragment: bool
    description: str


def recognise(values: dict[str, Any], *, explicit: bool = False) -> Kind:
    """Distinguish train configs from model fragments and other TOML files.

    A file that the user named counts as a config if a third of its keys or tables
    are a trainer's, another one if half are.
    """
    for description, tables in FOREIGN.items():
        hits = len(tables.intersection(values))
        if hits > 1 or (hits and hits == len(values)):
            return Kind("", False, description)
    description = "no table that a known trainer reads"
    for name in NAMES:
        kind = _kind(trainer(name), values, EXPLICIT if explicit else FOUND)
        if kind:
            return kind
        if values.keys() & trainer(name).schema.sections.keys():
            title = trainer(name).schema.title
            description = f"most of it is not {title}'s (--trainer {name} checks it)"
    return Kind("", False, description)


def _kind(candidate: Trainer, values: dict[str, Any], share: int) -> Kind | None:
    names = candidate.schema.sections
    sections = [name for name in values if name in names]
    fragment = f"a model fragment for {candidate.schema.title}"
    if not sections:
        if share == EXPLICIT and _misspelt(candidate, values):
            return Kind(candidate.name, False, f"a {candidate.schema.title} config")
        bare = max(len(k & values.keys()) for k in candidate.section_keys.values())
        is_fragment = bare > 1 and bare * 2 > len(values)
        return Kind(candidate.name, True, fragment) if is_fragment else None
    if sections == ["model"] and len(values) == 1:
        return Kind(candidate.name, True, fragment)
    if _familiar(candidate, values, share):
        return Kind(candidate.name, False, f"a {candidate.schema.title} config")
    return None


def _misspelt(candidate: Trainer, values: dict[str, Any]) -> bool:
    """Whether most tables have nearly a section's name and one of its keys."""
    names = candidate.schema.sections
    tables = {name: value for name, value in values.items() if isinstance(value, dict)}
    near = [
        name
        for name, table in tables.items()
        if (section := closest(name, names))
        and candidate.section_keys[section] & table.keys()
    ]
    return 2 * len(near) > len(values)


def _familiar(candidate: Trainer, values: dict[str, Any], share: int) -> bool:
    """Whether one in ``share`` of the keys, or of the tables, is the trainer's."""
    sections = candidate.section_keys
    known = total = 0
    for section, table in values.items():
        keys = sections.get(section)
        if isinstance(table, dict):
            total += len(table)
            known += 0 if keys is None else len(keys.intersection(table))
        else:
            total += 1
            known += keys is not None
    tables = len(sections.keys() & values.keys())
    return known * share >= total or tables * share > len(values)
