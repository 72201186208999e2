"""The files of a trial: the user's, with the trial's values and folders."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from fp8tune.config.reader import Config
from fp8tune.formats import ENDINGS
from fp8tune.formats.document import InvalidText, Unreadable
from fp8tune.formats.edits import CannotEdit
from fp8tune.formats.joined import Joined
from fp8tune.job import Job, Unknown
from fp8tune.runners.trainer.recipe import Keys, filled
from fp8tune.trainers.call import NO_PROGRAM, Program
from fp8tune.trainers.trainer import Trainer
from fp8tune.trainers.written import with_keys

ROOT = "config"
"""The placeholder of the config itself, or of the file that leads a job of several."""
RANKS = "{ranks}"


class CannotWrite(Exception):
    """The config cannot hold a trial's values; the message says why."""


class TrialFiles(NamedTuple):
    """The files of a trial by their placeholders, and what its launcher starts."""

    files: dict[str, bytes]
    program: Program


class UserConfig(NamedTuple):
    """The user's config as trials start from it.

    ``program`` is what the trainer's launcher starts, if it starts one.
    """

    base: Config
    program: Program = NO_PROGRAM

    def places(self, folder: str) -> dict[str, str]:
        """Return the paths of a trial's files in a folder, by their placeholders."""
        found = {}
        for part in self.base.parts:
            ending = next(e for e, f in ENDINGS.items() if f == part.document.format)
            name = part.section or ROOT
            found[name] = os.path.join(folder, f"{name}{ending}")
        return found

    def job(self, knobs: Mapping[str, Any]) -> Job:
        """Return its job with other knobs and the same tokens per step."""
        return self.base.job.keep_tokens(dict(knobs))

    def for_trial(
        self, knobs: Mapping[str, Any], added: list[Keys], values: Mapping[str, str]
    ) -> TrialFiles:
        """Return the files of a trial; raises ``CannotWrite``.

        ``added`` are the keys of its kind, later ones win; those that this version of
        the trainer does not have are left out. ``values`` fill placeholders.
        """
        keys: dict[str, Any] = {}
        for each in added:
            keys |= dict.fromkeys(each.unset)
            keys |= {key: _filled(value, values) for key, value in each.set.items()}
        trainer = self.base.trainer
        own = dict(trainer.schema.dotted_keys())
        keys = {key: v for key, v in keys.items() if v is None or key in own}
        try:
            keys = self.changed(knobs) | keys | self._names(values)
            typed = {key: keys.pop(key) for key in [*keys] if self._is_typed(key)}
            document = with_keys(trainer, self.base.document, keys)
            program = self._program(typed, values)
        except CannotEdit as error:
            raise CannotWrite(f"cannot write {error}") from None
        except (InvalidText, Unreadable) as error:
            raise CannotWrite(f"cannot start: {error}") from None
        except Unknown as missing:
            raise CannotWrite(f"{missing} is not known from the config") from None
        alone = self.base.parts[0]._replace(document=document)
        parts = document.parts if isinstance(document, Joined) else (alone,)
        texts = {
            part.section or ROOT: f"{chr(0xFEFF) * part.document.bom}"
            f"{part.document.text}".encode()
            for part in parts
        }
        return TrialFiles(texts, program)

    def _names(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the keys that name another file of the job, and the trial's name."""
        base = self.base
        paths = {part.section: os.path.basename(part.path) for part in base.parts}
        return {
            key: values[section]
            for section, about in base.trainer.about.parts.items()
            for key in about.named_by
            if section in values
            and os.path.basename(str(base.loaded.values.get(key))) == paths[section]
        }

    def _is_typed(self, key: str) -> bool:
        """Whether a key is typed: the user types it, or no file of the job has it."""
        base, path = self.base, tuple(key.split("."))
        section = path[0] if path[0] in base.trainer.about.parts else ""
        sections = [part.section for part in base.parts]
        return path in base.loaded.arguments or section not in sections

    def _program(self, typed: Mapping[str, Any], values: Mapping[str, str]) -> Program:
        """Return what the launcher starts, with the trial's files and typed keys."""
        if not self.program.words:
            return self.program
        placed = {
            os.path.normpath(part.path): values[part.section or ROOT]
            for part in self.base.parts
            if (part.section or ROOT) in values
        }
        words = []
        for word in self.program.words:
            option, equals, name = word.rpartition("=")
            words.append(f"{option}{equals}{placed.get(os.path.normpath(name), name)}")
        program = self.program._replace(words=tuple(words))
        made: Program = self.base.trainer.program.with_values(program, typed)
        return made

    def changed(self, knobs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keys that other knobs change, and their values."""
        before, after = self.base.job.given, self.job(knobs)
        return {
            key: value
            for key, value in after.given.items()
            if key not in after.words.listed
            and (
                key not in before
                or type(before[key]) is not type(value)
                or before[key] != value
            )
        }


def not_known(trainer: Trainer, missing: Unknown) -> str:
    """Say what trials need to know of a config, and what to type for it."""
    advice = trainer.about.advice.get(str(missing), "")
    return f"{missing} is not known from the config{f': {advice}' if advice else ''}"


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    if value == RANKS:
        return int(values["ranks"])
    return filled(value, values) if isinstance(value, str) else value
