"""A trainer: its schema, its loader, its words and its command line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache, cached_property, partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fp8tune.facts import FACTS
from fp8tune.formats.document import Unreadable
from fp8tune.job import (
    Job,
    Setting,
    Source,
    Target,
    Unknown,
    Vocabulary,
    sources,
    vocabulary,
)
from fp8tune.trainers import schema
from fp8tune.trainers.about import About, KnobAbout, is_of, module_of, path_of, trainers

if TYPE_CHECKING:
    from fp8tune.trainers.faults import Loaded

DEGREES = "the parallel degrees"
"""Source of the number of GPUs if nothing else gives it."""


class Trainer:
    """One version of a trainer, loaded from its folder.

    ``id`` names both, as ``torchtitan==0.2.2``, where there are several versions.
    """

    def __init__(self, name: str) -> None:
        self.id = name
        self.name, _, self.version = name.partition("==")
        self.about: About = trainers()[self.name]
        own = self.about.own
        self.schema = schema.schema_of(own.schema) if own else schema.read(name)
        self._loader = self._module("loader").Loader(self.schema)
        self.extra_keys: tuple[str, ...] = ()
        self.standing = ""

    def _module(self, name: str) -> ModuleType:
        return import_module(f"{self.about.package}.{name}")

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Every name that a rule for this trainer may use.

        A function of the folder with a fact's name, dots as underscores, replaces it.
        """
        keys = frozenset(name for name, _ in self.schema.dotted_keys())
        computed = FACTS | self._computed()
        if self.about.own:
            computed |= self.about.own.computed
        keys |= self.optional_sections
        listed = frozenset(role for role, knob in self.knobs.items() if knob.keys)
        more = self._settings(), self.id, listed
        return vocabulary(keys, self.schema.job, computed, *more)

    def _computed(self) -> dict[str, Source]:
        """The functions of the trainer's modules, by the names that they compute."""
        with suppress(ImportError):  # in a checkout
            computed = import_module(module_of(self.id)).COMPUTED
            return {name: Source(*fields) for name, fields in computed.items()}
        facts = {name.replace(".", "_"): name for name in FACTS}
        return {
            facts.get(name, name): source
            for module in self.about.modules
            for name, source in sources(import_module(module)).items()
        }

    def _settings(self) -> dict[str, Setting]:
        """How the fields are set that are no single key of the config."""
        names = self.about.settings
        settings = {name: getattr(self._module("settings"), name) for name in names}
        tables = {knob.role: knob.keys for knob in self.knobs.values() if knob.keys}
        return settings | {
            role: partial(_listed, role, t) for role, t in tables.items()
        }

    @cached_property
    def knobs(self) -> dict[str, KnobAbout]:
        """What a search may vary in this version, by role."""
        every = self.about.knobs
        return {knob.role: knob for knob in every if is_of(knob.bounds, self.version)}

    def key_of(self, field: str) -> str:
        """The key that sets a field of the job or a knob; ``""`` if nothing does.

        A field that follows from several keys is set by its own name.
        """
        knob = self.knobs.get(field)
        if knob and (knob.key or knob.keys):
            return knob.key or field
        return self.schema.job.get(field) or field * (field in self.about.settings)

    def values_of(self, field: str) -> list[Any]:
        """The values that may be tried for a field of the job."""
        knob, key = self.knobs.get(field), self.key_of(field)
        if knob and knob.values:
            return knob.values
        keys = dict(self.schema.dotted_keys())
        return keys[key].allowed if key in keys else []

    @cached_property
    def starter(self) -> str:
        """The text of a config to start from; ``""`` where there is none."""
        path = path_of(self.name, "starter.toml")
        if not os.path.exists(path):
            return ""
        with open(path, encoding="utf-8") as file:
            return file.read()

    def starter_fields(self, given: dict[str, Any]) -> dict[str, Any] | None:
        """What the starter needs beyond ``given``; ``None`` if it has no such model."""
        if not os.path.exists(path_of(self.name, "starter.py")):
            return given
        found = self._module("starter").fields(self.version, given)
        return {**given, **found} if found else None

    @cached_property
    def optional_sections(self) -> frozenset[str]:
        """The sections that stay absent where a config does not write them."""
        return frozenset(s for s in self.schema.sections if self.schema.optional(s))

    @cached_property
    def section_keys(self) -> dict[str, frozenset[str]]:
        """The keys of each section, of all its variants; none of a key above them."""
        tops = (*self.schema.sections, *self.schema.top_keys)
        found: dict[str, set[str]] = {name: set() for name in tops}
        for name, _ in self.schema.dotted_keys():
            section, dot, key = name.partition(".")
            if dot:
                found[section].add(key)
        return {section: frozenset(keys) for section, keys in found.items()}

    def tolerating(
        self,
        extra_keys: Iterable[str],
        standing: str = "",
        pins: Mapping[str, str] | None = None,
    ) -> Trainer:
        """Return this trainer with keys of a fork, or in place of an unknown release.

        ``extra_keys`` are patterns of keys that it then has too (``unknown_keys``).
        ``standing`` is how far it stands for the release (``packages.STANDS_FOR``).
        ``pins`` are the releases of packages on which its keys depend.
        """
        if not extra_keys and not standing and not pins:
            return self
        from copy import copy

        other = copy(self)
        other.extra_keys, other.standing = tuple(extra_keys), standing
        if pins:
            other._loader = copy(self._loader)
            other._loader.releases = pins
        return other

    def load(self, values: dict[str, Any], overrides: tuple[str, ...] = ()) -> Loaded:
        """The config as the trainer would hold it, and what it refuses.

        ``overrides`` are the arguments behind the config on the trainer's own command
        line. Raises ``Unreadable`` for those whose effect is not known.
        """
        loaded: Loaded
        if not overrides:
            loaded = self._loader.load(values)
        elif self.command_line:
            loaded = self.command_line.load(self._loader, values, overrides)
        else:
            reason = f"the command line of {self.schema.title} is not known"
            raise Unreadable(f"{reason}: leave out overrides")
        if loaded.faults and (self.extra_keys or self.standing):
            from fp8tune.trainers.unknown_keys import without_tolerated

            return without_tolerated(loaded, self)
        return loaded

    @property
    def command_line(self) -> ModuleType | None:
        """How this trainer reads arguments behind its config, if that is known."""
        known = os.path.exists(path_of(self.name, "command_line.py"))
        return self._module("command_line") if known else None

    @property
    def program(self) -> ModuleType:
        """What a launcher of this trainer starts, and how values are typed for it."""
        return self._module("program")

    @property
    def phases(self) -> ModuleType:
        """How this trainer schedules, saves and resumes a run in phases."""
        return self._module("phases")

    def job(self, loaded: Loaded, target: Target) -> Job:
        """The job that a loaded config describes.

        On as many GPUs as its degrees ask for, if no number is given and they
        leave none open: no other number starts.
        """
        values = loaded.values
        if self.version:
            values = values | {"trainer_version": self.version}
        job = Job(self.vocabulary, values, loaded.written, target)
        with suppress(Unknown, OverflowError, TypeError, ValueError):
            if not target.world_size:
                size = int(job["declared_gpus"])
                origin = self.about.counts or DEGREES
                placed = target._replace(world_size=size, world_size_origin=origin)
                job = Job(self.vocabulary, values, loaded.written, placed)
        return job


def _listed(
    role: str, keys: dict[Any, dict[str, Any]], _job: Job, value: Any
) -> dict[str, Any]:
    """Return the keys that a value of a knob writes, ``None`` for those it removes.

    Raises ``Unknown`` for a value that is not listed.
    """
    if value not in keys:
        raise Unknown(role)
    return {key: None if v == [] else v for key, v in keys[value].items()}


@cache
def trainer(name: str) -> Trainer:
    """The trainer of that name: the version that it names, or the newest."""
    newest = trainers()[name.partition("==")[0]].among(name)[0]
    return trainer(newest) if newest != name else Trainer(name)
