"""From a config to a search: what may change, and where the search starts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from fp8tune.job import Job, Target, Unknown
from fp8tune.search.record import Record
from fp8tune.search.space import Knob, Point, Space
from fp8tune.toml.document import parse
from fp8tune.trainers.trainer import Trainer, recognise, trainer

CONVERGENCE = frozenset(("model", "optimizer", "scheduler", "data", "precision"))
"""Sections, and roles, of keys that change what is learned: frozen unless allowed."""


class CannotPlan(Exception):
    """There is nothing to search here: says why, and what to do."""


class Config(NamedTuple):
    """A config of a trainer, as bytes and as a job."""

    path: str
    data: bytes
    trainer: Trainer
    job: Job


class Plan(NamedTuple):
    """A search before it starts."""

    config: Config
    space: Space
    given: Point

    def about(self, **more: Any) -> dict[str, Any]:
        """What makes two searches the same, for ``study.json``."""
        return {
            "config": self.config.path,
            "config_sha256": hashlib.sha256(self.config.data).hexdigest(),
            "knobs": [knob._asdict() for knob in self.space.knobs],
            **more,
        }


def read_config(path: str, data: bytes, target: Target, name: str = "") -> Config:
    """Read a train config; raises ``CannotPlan``, ``InvalidToml``, ``Unreadable``."""
    document = parse(data)
    kind = recognise(document.values, explicit=True)
    if not (name or kind.trainer):
        raise CannotPlan(f"{path}: {kind.description}")
    known = trainer(name or kind.trainer)
    return Config(path, data, known, known.job(known.load(document.values), target))


def study_name(plan: Plan, about: dict[str, Any]) -> str:
    """A name that the same search has again: the config's and a digest."""
    text = json.dumps(about, sort_keys=True, default=str)
    stem = plan.config.path.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".toml")
    plain = "".join(c if c.isalnum() or c in "._-" else "-" for c in stem)[:60]
    return f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def plan_for_records(
    config: Config, records: Sequence[Record], allow: Iterable[str]
) -> Plan:
    """A search over exactly the knobs and values that records hold."""
    if not records:
        raise CannotPlan("the records hold no trial")
    keys = list(records[0].knobs)
    if any(record.knobs.keys() != set(keys) for record in records):
        raise CannotPlan("the records differ in their knobs")
    given = {key: _given(config.job, key) for key in keys}
    knobs = tuple(_knob(config, key, records, allow) for key in keys)
    points = (Space(knobs).point(record.knobs) for record in records)
    space = Space(knobs, frozenset(points))
    for knob in knobs:
        if knob.frozen and given[knob.key] not in knob.values:
            given[knob.key] = _only_value(knob)
    return Plan(config, space, space.point(given))


def _knob(
    config: Config, key: str, records: Sequence[Record], allow: Iterable[str]
) -> Knob:
    values = dict.fromkeys(record.knobs[key] for record in records)
    numbers = all(type(value) in (int, float) for value in values)
    ordered = tuple(sorted(values)) if numbers else tuple(values)
    role = role_of(config.trainer, key)
    names = {role, key, key.partition(".")[0]}
    frozen = bool(names & CONVERGENCE) and not {role, key} & set(allow)
    return Knob(key, ordered, role, frozen)


def role_of(known: Trainer, key: str) -> str:
    """What a key is to a search: the job's field that it says, or ``""``."""
    return {name: field for field, name in known.schema.job.items()}.get(key, "")


def _given(job: Job, key: str) -> Any:
    try:
        return job[key]
    except Unknown:
        return None


def _only_value(knob: Knob) -> Any:
    if len(knob.values) > 1:
        values = ", ".join(map(str, knob.values))
        raise CannotPlan(f"the config's `{knob.key}` is none of the recorded {values}")
    return knob.values[0]
