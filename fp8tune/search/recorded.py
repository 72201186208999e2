"""Plan a search over recorded trials (replay)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from fp8tune.config.reader import Config
from fp8tune.fields import FIELDS
from fp8tune.job import Unknown
from fp8tune.search import CannotSearch
from fp8tune.search.knobs import (
    check_allowed,
    in_fp8,
    is_freed,
    offers,
    warmup_key,
    warmup_names,
)
from fp8tune.search.linting import failing, refusals, runnable
from fp8tune.search.objective import check_records
from fp8tune.search.plan import (
    Plan,
    left_out,
    role_of,
    rows_per_step,
)
from fp8tune.search.writable import check_varied, without_unwritable
from fp8tune.trainers.trainer import Trainer
from fp8tune.trials.record import BadRecord, Record, is_number, is_scalar, parse_all
from fp8tune.trials.space import TRAITS, Knob, Point, Space, shown, traits_of
from fp8tune.trials.trial import Trial, trial_from_data, without_repaired

MAX_BYTES = 1 << 28
CUT_OFF = "cut off by the end of a budget, so unusable under another one"
LEARNED = frozenset(
    (
        *("precision", "seq_len", "max_steps", "learning_rate", "warmup_steps"),
        *("clip_norm", "data_seed", "seed", "z_loss"),
    )
)
"""Fields and names of keys that change what is learned: frozen by default.

So are the tables and keys of which the trainer says so.
"""
KEPT = tuple(
    role
    for role, traits in TRAITS.items()
    if "cuda" in traits.frozen_on and role != "grad_accum"
)
"""Roles whose values a search keeps by default; accumulation follows the batch."""


class RecordedSearch(NamedTuple):
    """A search over the records of a file.

    ``speeds`` are the records with a speed, ``learned`` the loss runs. ``notes`` are
    lines for the user, ``digest`` is the file's.
    """

    plan: Plan
    speeds: list[Record]
    learned: list[Record]
    notes: list[str]
    digest: str


def plan_replay(
    config: Config, path: str, allow: Sequence[str], objective: str
) -> RecordedSearch:
    """Read a file of records and plan the search over them.

    Raises ``CannotSearch`` and ``BadRecord``.
    """
    records, notes, digest = _read_records(path)
    records = [_with_names_of_job(config, record) for record in records]
    speeds = [record for record in records if not record.loss_run]
    learned = [record for record in records if record.loss_run]
    check_records(objective, speeds)
    plan, speeds = plan_for_records(config, speeds, allow)
    plan = without_unwritable(plan)
    check_varied(plan)
    planned = plan.notes
    speeds, refused = runnable(config, speeds)
    if refused:
        speeds, _ = _left(speeds, refused)
        plan, speeds = plan_for_records(config, speeds, allow)
        plan = without_unwritable(plan)
    keys = {knob.key for knob in plan.space.knobs}
    planned = tuple(dict.fromkeys((*planned, *plan.notes)))
    notes += [*refusals(config, plan.free_keys), *failing(plan), *refused, *planned]
    if not learned and warmup_key(config.trainer) not in keys:
        why = "the records have no loss runs, so no warmup is tried"
        names = {*warmup_names(config.trainer)}.intersection(allow)
        notes += [f"--allow {name} has no effect: {why}" for name in names]
    return RecordedSearch(plan, speeds, learned, notes, digest)


def _read_records(path: str) -> tuple[list[Record], list[str], str]:
    """Return the records of a file, notes on those left out, and its digest."""
    if not path:
        raise CannotSearch("--runner replay needs --records FILE")
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise CannotSearch(f"{path}: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise CannotSearch(f"{path}: larger than {MAX_BYTES >> 20} MiB")
    lines = data.decode(errors="replace").split("\n")
    try:
        every = enumerate(parse_all(lines))
        trials = [trial_from_data(n, record.data()) for n, record in every]
        records, notes = usable_records(trials)
    except BadRecord as error:
        raise BadRecord(f"{path}: {error}") from None
    if notes and not records:
        raise CannotSearch(f"the records have no trial to replay: {notes[0]}")
    return records, notes, hashlib.sha256(data).hexdigest()


def usable_records(trials: Sequence[Trial]) -> tuple[list[Record], list[str]]:
    """Return the records that a replay can use, and notes on those left out.

    A trial that was cut off by its budget says nothing about its setting under another
    budget. A failure that a later process did not repeat says nothing at all.
    """
    every = without_repaired(trials)
    notes = left_out([CUT_OFF * trial.cut_off for trial in every])
    return [trial.record for trial in every if not trial.cut_off], notes


def _own(config: Config, key: str) -> Any:
    """Return the config's value of a knob; ``None`` where it is unknown or a table."""
    with suppress(Unknown):
        value = config.own(key)
        return value if is_scalar(value) else None
    return None


def plan_for_records(
    config: Config, records: Sequence[Record], allow: Sequence[str]
) -> tuple[Plan, list[Record]]:
    """Return a plan over the knobs and values of the records, and the usable records.

    A record without a knob ran with the config's own value, which is filled in. Records
    that change what the search keeps are left out: all that a search of real trials
    would keep, and what changes learning.
    """
    if not records:
        raise CannotSearch("the records have no trial")
    records, impossible = _left(*_with_possible_values(config, records))
    keys = list(dict.fromkeys(key for record in records for key in record.knobs))
    groups = filter(None, (traits.group for traits in TRAITS.values()))
    names = (*keys, *warmup_names(config.trainer), *FIELDS, *TRAITS, *groups)
    check_allowed(names, allow)
    records, other_steps = _left(*_same_steps(config, records, allow))
    records, other_fields = _left(*_same_fields(config, records, allow))
    keys = [key for key in keys if any(key in record.knobs for record in records)]
    if not keys:
        raise CannotSearch("the records have no knob")
    roles = {key: role_of(config.trainer, key) for key in keys}
    own = {key: _own(config, key) for key in keys}
    whole = [
        record._replace(knobs=_whole(record.knobs, own, roles)) for record in records
    ]
    made = [
        recorded_knob(
            config.trainer,
            key,
            roles[key],
            own[key],
            [record.knobs[key] for record in whole if key in record.knobs],
            allow,
        )
        for key in keys
    ]
    space = Space(knob for knob, _, _ in made)
    baseline = tuple(start for _, start, _ in made)
    whole, other_values = _left(*_same_values(space, baseline, whole))
    points = map(space.point, (record.knobs for record in whole))
    unknown = f"; {config.trainer.schema.title} has no such key"
    notes = [
        f"{note}{unknown * (not config.job.can_set(knob.key))}"
        for knob, _, note in made
        if note
    ]
    every_note = (*impossible, *other_steps, *other_fields, *other_values, *notes)
    offered = offers(config, (), "cuda", builtin=False)
    kept = (o for o in offered if not is_freed(config.trainer, o.knob.role, allow))
    plan = Plan(config, Space(space.knobs, points), baseline, every_note, tuple(kept))
    return plan, whole


def _with_names_of_job(config: Config, record: Record) -> Record:
    """Return a record with the job's names of keys that it names as their file does."""
    keys, sections = config.job.words.keys, config.trainer.about.parts

    def name(key: str) -> str:
        names = (f"{section}.{key}" for section in sections if key not in keys)
        return next((each for each in names if each in keys), key)

    return record._replace(knobs={name(k): v for k, v in record.knobs.items()})


def _with_possible_values(
    config: Config, records: Sequence[Record]
) -> tuple[Sequence[Record], list[str]]:
    """Return the records whose values some keys can give to the job, and notes."""
    jobs = {True: in_fp8(config.job), False: config.job}

    def why(knobs: Mapping[str, Any]) -> str:
        for key, value in knobs.items():
            try:
                jobs[traits_of(key).of_fp8].keys_for({key: value})
            except Unknown as missing:
                if str(missing) == key:
                    listed = ", ".join(map(shown, config.trainer.values_of(key)))
                    return f"`{key}` cannot be {shown(value)}: it may be {listed}"
        return ""

    wrong = [why(record.knobs) for record in records]
    kept = [record for record, odd in zip(records, wrong, strict=True) if not odd]
    return kept, left_out(wrong)


def _left(
    records: Sequence[Record], notes: Sequence[str]
) -> tuple[list[Record], Sequence[str]]:
    """Return both; raises ``CannotSearch`` if no record is left."""
    if not records:
        raise CannotSearch(f"the records have no trial to replay: {notes[0]}")
    return list(records), notes


def _whole(
    knobs: dict[str, Any], own: dict[str, Any], roles: dict[str, str]
) -> dict[str, Any]:
    """Return the knobs of a record with the config's own values where it has none.

    In bf16 without the knobs of FP8, which mean nothing there.
    """
    filled = {key: knobs.get(key, value) for key, value in own.items()}
    precision = next((k for k, role in roles.items() if role == "precision"), "")
    if filled.get(precision, "fp8") == "fp8":
        return filled
    return {k: v for k, v in filled.items() if not traits_of(roles[k]).of_fp8}


def recorded_knob(
    known: Trainer,
    key: str,
    role: str,
    own: Any,
    recorded: Iterable[Any],
    allow: Sequence[str],
) -> tuple[Knob, int, str]:
    """Return the knob of a recorded key, the index of the config's value, and a note.

    If the config's value was not recorded, it is added as the last one; no trial can
    have it. If all records agree on another value of a frozen knob, the search starts
    there. A knob of FP8 begins with the config's value, which it has in bf16.
    """
    values = _ordered(recorded)
    if traits_of(role).of_fp8:
        others = (v for v in values if type(v) is not type(own) or v != own)
        values = (own, *others)
    freed = key in allow or is_freed(known, role, allow)
    frozen = is_kept(known, key, role) and not freed
    knob = Knob(key, values, role, frozen)
    start = _place(values, own)
    if start is not None:
        return knob, start, ""
    has = "does not set it" if own is None else f"has {json.dumps(own)}"
    hold = ", ".join(map(json.dumps, values[:8])) + (", ..." if values[8:] else "")
    note = f"`{key}`: the config {has}, the records have {hold}"
    if frozen and role != "precision" and len(values) == 1:
        return knob, 0, note
    return knob._replace(values=(*values, own)), len(values), note


def is_kept(known: Trainer, key: str, role: str) -> bool:
    """Return whether a search keeps a key's value unless it is allowed to change it.

    For roles with traits these say it. Other keys are kept if they may change what is
    learned: all keys of the trainer's tables may, but for those that it calls harmless.
    So are keys that the trainer does not have.
    """
    if role in TRAITS and role != "grad_accum":
        return role in KEPT
    if key not in known.vocabulary.keys:
        return True
    section, about = key.partition(".")[0], known.about
    harmless = section in about.harmless or section not in about.tables
    names = {role, key.rpartition(".")[2]}
    return not harmless or bool(names & LEARNED) or key in about.learned


def _ordered(recorded: Iterable[Any]) -> tuple[Any, ...]:
    """Return each value once, numbers by size.

    Types differ: Python treats 1, 1.0 and True as equal, here they are not.
    """
    typed = dict.fromkeys((type(value), value) for value in recorded)
    values = [value for _, value in typed]
    return tuple(sorted(values)) if all(map(is_number, values)) else tuple(values)


def _place(values: Sequence[Any], own: Any) -> int | None:
    """Return the index of a value: one of its type, else an equal number."""
    same = [i for i, v in enumerate(values) if type(v) is type(own) and v == own]
    if not same and is_number(own):
        same = [i for i, v in enumerate(values) if is_number(v) and v == own]
    return same[0] if same else None


def _same_steps(
    config: Config, records: Sequence[Record], allow: Sequence[str]
) -> tuple[Sequence[Record], list[str]]:
    """Return the records whose steps have as many sequences as the config's, and notes.

    Records without the accumulation are taken to have the matching one.
    """
    key = config.trainer.key_of("grad_accum")
    own = rows_per_step(config.job, {})
    if not own or {"grad_accum", key} & set(allow):
        return records, []
    kept = [
        record
        for record in records
        if key not in record.knobs
        or rows_per_step(config.job, record.knobs) in (own, 0)
    ]
    why = f"not the {own} sequences per rank and step of the config"
    wrong = [f"{why}; --allow grad_accum includes them"] * (len(records) - len(kept))
    return kept, left_out(wrong)


def _same_fields(
    config: Config, records: Sequence[Record], allow: Sequence[str]
) -> tuple[Sequence[Record], list[str]]:
    """Return the records that change no field which a search keeps, and notes.

    It does not matter which keys change it. With those in bf16, FP8 is compared.
    """
    kept = [role for role in KEPT if not is_freed(config.trainer, role, allow)]
    changed = (_changed(config, record.knobs, kept, allow) for record in records)
    groups = [
        {role: traits_of(role).group or role for role in each} for each in changed
    ]
    return _without(records, groups)


def _changed(
    config: Config, knobs: dict[str, Any], kept: Sequence[str], allow: Sequence[str]
) -> list[str]:
    """Return the kept roles that a setting changes; none where that is unknown."""
    with suppress(Unknown):
        job = config.job.with_values(knobs)
        before = config.job.with_values({k: v for k, v in knobs.items() if k in allow})
        precision, roles = job.find("precision"), list[str]()
        if precision != before.find("precision"):
            roles = ["precision"] * ("precision" in kept and precision != "bf16")
            before = before.with_values({"precision": precision})
        return roles + [role for role in kept if job.find(role) != before.find(role)]
    return []


def _same_values(
    space: Space, baseline: Point, records: Sequence[Record]
) -> tuple[Sequence[Record], list[str]]:
    """Return the records with the baseline's values of frozen knobs, and notes.

    With those in another precision, FP8 is compared.
    """
    changed = [
        {
            knob.key: knob.key
            for knob, index, own in zip(
                space.knobs, space.point(record.knobs), baseline, strict=True
            )
            if knob.frozen and knob.role != "precision" and index != own
        }
        for record in records
    ]
    return _without(records, changed)


def _without(
    records: Sequence[Record], changed: Sequence[Mapping[str, str]]
) -> tuple[Sequence[Record], list[str]]:
    """Return the records that change nothing, and notes on the others.

    ``changed`` has what each of them changes, and the name that ``--allow`` takes.
    """
    allow = (dict.fromkeys(each.values()) for each in changed)
    options = [" ".join(f"--allow {name}" for name in names) for names in allow]
    why = [
        f"another value of {', '.join(each)}; {words} includes them" if each else ""
        for each, words in zip(changed, options, strict=True)
    ]
    kept = [record for record, odd in zip(records, why, strict=True) if not odd]
    return kept, left_out(why)
