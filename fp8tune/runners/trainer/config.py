"""The config of a trial: the user's, with the trial's values and folders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fp8tune.formats.document import InvalidText
from fp8tune.formats.edits import CannotEdit
from fp8tune.job import Job, Target, Unknown
from fp8tune.runners.trainer.recipe import Keys, filled
from fp8tune.trainers.faults import Loaded
from fp8tune.trainers.trainer import Trainer
from fp8tune.trainers.written import with_keys


class CannotWrite(Exception):
    """The config cannot hold a trial's values; the message says why."""


class UserConfig(NamedTuple):
    """The user's config: its name, its bytes, and what the trainer reads in them."""

    trainer: Trainer
    data: bytes
    loaded: Loaded
    target: Target
    path: str = "config.toml"

    def job(self, knobs: Mapping[str, Any]) -> Job:
        """Return its job with other knobs and the same tokens per step."""
        job = self.trainer.job(self.loaded, self.target)
        return job.keep_tokens(dict(knobs))

    def for_trial(
        self, knobs: Mapping[str, Any], added: list[Keys], values: Mapping[str, str]
    ) -> bytes:
        """Return the config of a trial; raises ``CannotWrite``.

        ``added`` are the keys of its kind, later ones win; those that this version of
        the trainer does not have are left out. ``values`` fill placeholders.
        """
        keys: dict[str, Any] = {}
        for each in added:
            keys |= dict.fromkeys(each.unset)
            keys |= {key: _filled(value, values) for key, value in each.set.items()}
        own = dict(self.trainer.schema.dotted_keys())
        keys = {key: v for key, v in keys.items() if v is None or key in own}
        try:
            keys = self.changed(knobs) | keys
            return with_keys(self.trainer, self.path, self.data, keys)
        except (CannotEdit, InvalidText) as error:
            names = ", ".join(keys)
            raise CannotWrite(f"cannot write {names}: {error}") from None
        except Unknown as missing:
            raise CannotWrite(f"{missing} is not known from the config") from None

    def changed(self, knobs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keys that other knobs change, and their values."""
        before = self.trainer.job(self.loaded, self.target).given
        after = self.job(knobs)
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


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    return filled(value, values) if isinstance(value, str) else value
