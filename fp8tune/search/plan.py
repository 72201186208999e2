"""From a config to a search: what may change, and where the search starts."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from fp8tune.fields import FIELDS
from fp8tune.job import Job, Target, Unknown
from fp8tune.lint.directive import read_directive
from fp8tune.lint.settings import settings_for
from fp8tune.search.accepted import accepted, left_out
from fp8tune.search.tokens import rows
from fp8tune.suggest import closest
from fp8tune.toml.document import parse
from fp8tune.trainers.faults import Loaded
from fp8tune.trainers.trainer import NAMES, Trainer, misnamed, recognise, trainer
from fp8tune.trials.record import Record
from fp8tune.trials.space import Knob, Point, Space

CONVERGENCE = frozenset(
    (
        *("model", "optimizer", "scheduler", "data"),
        *("adapter", "video", "vision_encoder", "vlm"),
        *("precision", "seq_len", "max_steps", "learning_rate", "warmup_steps"),
        *("clip_norm", "data_seed", "load_path", "seed", "z_loss_weight"),
    )
)
"""Sections, roles and names of keys that change what is learned: frozen by default."""


class CannotPlan(Exception):
    """There is nothing to search here: says why, and what to do."""


class Config(NamedTuple):
    """A config of a trainer, as bytes and as a job."""

    path: str
    data: bytes
    trainer: Trainer
    job: Job
    loaded: Loaded


class Plan(NamedTuple):
    """A search before it starts; ``notes`` are what its user should know."""

    config: Config
    space: Space
    given: Point
    notes: tuple[str, ...] = ()

    def about(self, **more: Any) -> dict[str, Any]:
        """What makes two searches the same.

        With it the search can be told again when the config's file has changed.
        """
        target = self.config.job.target
        return {
            "config": self.config.path,
            "config_text": self.config.data.decode(),
            "trainer": self.config.trainer.name,
            "gpu": target.gpu,
            "world_size": target.world_size,
            "knobs": [knob._asdict() for knob in self.space.knobs],
            "points": sorted(map(list, self.space.only)),
            "given": list(self.given),
            **more,
        }


def read_config(
    path: str, data: bytes, target: Target, name: str = "", world_size: int = 0
) -> Config:
    """Read a train config; raises ``CannotPlan``, ``InvalidToml``, ``Unreadable``.

    ``target`` is what the command line says; the header comment and the project fill
    what it leaves open. Where trials are to stand for some number of GPUs, the parallel
    degrees may leave no other than theirs; else it is ``world_size``.
    """
    document = parse(data)
    settings = settings_for(os.path.dirname(os.path.abspath(path)))
    kind = recognise(document.values, explicit=True)
    name = name or settings.trainer or kind.trainer
    if not name:
        titles = ", ".join(trainer(known).schema.title for known in NAMES)
        what = f"{path}: {kind.description}"
        raise CannotPlan(f"{what}; search takes configs of {titles}")
    if wrong := misnamed(name):
        raise CannotPlan(wrong)
    known = trainer(name)
    loaded = known.load(document.values)
    said = read_directive(document.text).complete(settings.complete(target))
    job = known.job(loaded, said)
    if world_size and not said.world_size:
        said = _sized(job, said, world_size)
        job = known.job(loaded, said)
    return Config(path, data, known, job, loaded)


def _sized(job: Job, target: Target, otherwise: int) -> Target:
    """A target of as many GPUs as the parallel degrees multiply to."""
    try:
        declared: int = job["declared_gpus"]
    except Unknown:
        return target._replace(world_size=otherwise)
    origin = "the parallel degrees"
    return target._replace(world_size=declared, world_size_origin=origin)


def study_name(plan: Plan, about: dict[str, Any]) -> str:
    """A name that the same search has again: the config's and a digest."""
    text = json.dumps(about, sort_keys=True, default=str)
    stem = plan.config.path.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".toml")
    plain = "".join(c if c.isalnum() or c in "._-" else "-" for c in stem)[:60]
    return f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def plan_for_records(
    config: Config, records: Sequence[Record], allow: Sequence[str]
) -> tuple[Plan, list[Record]]:
    """A search over exactly the knobs and values that records hold, and the records.

    A record that leaves a knob out ran with the config's own value, and now says so.
    One with a value that the trainer refuses is left out.
    """
    if not records:
        raise CannotPlan("the records hold no trial")
    records, left_out = accepted(config.trainer, records)
    if not records:
        raise CannotPlan(f"the records hold no trial to replay: {left_out[0]}")
    records, other_steps = _same_steps(config, records, allow)
    if not records:
        raise CannotPlan(f"the records hold no trial to replay: {other_steps[0]}")
    keys = list(dict.fromkeys(key for record in records for key in record.knobs))
    if not keys:
        raise CannotPlan("the records name no knob")
    check_allowed([*keys, *warmup_names(config.trainer), *FIELDS], allow)
    mine = {key: _given(config.job, key) for key in keys}
    whole = [
        record._replace(knobs={key: record.knobs.get(key, mine[key]) for key in keys})
        for record in records
    ]
    offers = [
        offer_of(key, role_of(config.trainer, key), mine[key], recorded, allow)
        for key in keys
        for recorded in [[record.knobs[key] for record in whole]]
    ]
    knobs = [knob for knob, _, _ in offers]
    points = map(Space(knobs).point, (record.knobs for record in whole))
    given = tuple(start for _, start, _ in offers)
    names = dict(config.trainer.schema.dotted_keys())
    unknown = f"; {config.trainer.schema.title} has no such key"
    said = (
        f"{note}{unknown * (knob.key not in names)}" for knob, _, note in offers if note
    )
    notes = (*left_out, *other_steps, *said)
    return Plan(config, Space(knobs, points), given, notes), whole


def _same_steps(
    config: Config, records: Sequence[Record], allow: Sequence[str]
) -> tuple[Sequence[Record], list[str]]:
    """The records whose steps have as many sequences as the config's.

    That is said of those that name the accumulation: elsewhere it follows.
    """
    key, mine = config.trainer.schema.job.get("grad_accum", ""), rows(config.job, {})
    if not mine or {"grad_accum", key} & set(allow):
        return records, []
    kept = [
        record
        for record in records
        if key not in record.knobs or rows(config.job, record.knobs) in (mine, 0)
    ]
    why = f"not the {mine} sequences per rank and step of the config"
    wrong = [f"{why}; --allow grad_accum takes them in"] * (len(records) - len(kept))
    return kept, left_out(wrong)


def check_allowed(
    names: Sequence[str], allow: Sequence[str], frozen: Sequence[str] = ()
) -> None:
    """``--allow`` has one of these names: else ``CannotPlan``, with the frozen ones."""
    for name in allow:
        if name not in names:
            near = closest(name, names)
            hint = f"; it frees {', '.join(frozen)}" if frozen else ""
            hint = f"; did you mean `{near}`?" if near else hint
            raise CannotPlan(f"--allow {name}: no knob of that name{hint}")


def warmup_key(known: Trainer) -> str:
    """The trainer's key of the warmup: no knob of the search, but of its last stage."""
    return known.schema.job.get("warmup_steps", "")


def warmup_names(known: Trainer) -> tuple[str, ...]:
    """What ``--allow`` calls it."""
    return "warmup", "warmup_steps", warmup_key(known)


def role_of(known: Trainer, key: str) -> str:
    """What a key is to a search: the job's field that it says, or ``""``."""
    return {name: field for field, name in known.schema.job.items()}.get(key, "")


def _given(job: Job, key: str) -> Any:
    """The config's value; ``None`` where it has none of its own."""
    try:
        value = job[key]
    except Unknown:
        return None
    return value if isinstance(value, (str, bool, int, float)) else None


def offer_of(
    key: str, role: str, mine: Any, recorded: Iterable[Any], allow: Sequence[str]
) -> tuple[Knob, int, str]:
    """Return a recorded knob, the index of the config's value, and a note on it.

    A value that was not recorded is the knob's last: no trial can have it. Where all
    records agree on another value of a frozen knob, the search starts there.
    """
    values = _ordered(recorded)
    section, _, name = key.rpartition(".")
    names = {role, key, section.partition(".")[0], name}
    frozen = bool(names & CONVERGENCE) and not {role, key} & set(allow)
    knob = Knob(key, values, role, frozen)
    start = _place(values, mine)
    if start is not None:
        return knob, start, ""
    has = "does not set it" if mine is None else f"has {json.dumps(mine)}"
    known = ", ".join(map(json.dumps, values[:8])) + (", ..." if values[8:] else "")
    note = f"`{key}`: the config {has}, the records hold {known}"
    if frozen and role != "precision" and len(values) == 1:
        return knob, 0, note
    return knob._replace(values=(*values, mine)), len(values), note


def _ordered(recorded: Iterable[Any]) -> tuple[Any, ...]:
    """Each value once, numbers by their size.

    By type as well, because to Python 1, 1.0 and True are one value.
    """
    typed = dict.fromkeys((type(value), value) for value in recorded)
    values = [value for _, value in typed]
    return tuple(sorted(values)) if all(map(_is_number, values)) else tuple(values)


def _place(values: Sequence[Any], mine: Any) -> int | None:
    """Where a value stands: one of its type, else an equal number."""
    same = [i for i, v in enumerate(values) if type(v) is type(mine) and v == mine]
    if not same and _is_number(mine):
        same = [i for i, v in enumerate(values) if _is_number(v) and v == mine]
    return same[0] if same else None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
