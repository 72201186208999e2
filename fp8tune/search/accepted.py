"""Which recorded values a trainer takes: a replay offers no others."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial, reduce
from itertools import starmap
from typing import Any

from fp8tune.trainers.faults import dotted
from fp8tune.trainers.schema import Key
from fp8tune.trainers.trainer import Trainer
from fp8tune.trials.record import Record


def accepted(
    known: Trainer, records: Sequence[Record]
) -> tuple[list[Record], list[str]]:
    """The records whose values the trainer takes as they are, and why not the others.

    Nothing is known of keys that it does not have: they stay.
    """
    why = lru_cache(maxsize=None, typed=True)(partial(_why, known))
    wrong = [
        next(filter(None, starmap(why, record.knobs.items())), "") for record in records
    ]
    kept = [record for record, odd in zip(records, wrong, strict=True) if not odd]
    return kept, left_out(wrong)


def left_out(wrong: Sequence[str]) -> list[str]:
    """A note for each reason that records are left out, ``""`` being none."""
    counted = Counter(filter(None, wrong)).items()
    return [f"{_records(count)} left out: {why}" for why, count in counted]


def _records(count: int) -> str:
    return "1 record is" if count == 1 else f"{count} records are"


def _why(known: Trainer, key: str, value: Any) -> str:
    """Why a value is none that the trainer takes as it is; ``""`` where it is one."""
    spec = dict(known.schema.dotted_keys()).get(key)
    if spec is None or (spec.takes(value) and key not in _faulty(known, key, value)):
        return ""
    takes = f"{known.schema.title} takes {_wanted(spec)}"
    return f"`{key} = {json.dumps(value)}`, but {takes}"


def _wanted(spec: Key) -> str:
    if spec.allowed:
        return ", ".join(map(json.dumps, spec.allowed))
    return ", ".join(filter(None, (spec.kind, spec.bound)))


def _faulty(known: Trainer, key: str, value: Any) -> Iterator[str]:
    """The keys that are wrong in a config with this value alone."""
    values = reduce(lambda inner, part: {part: inner}, reversed(key.split(".")), value)
    return (dotted(fault.path) for fault in known.load(values).faults)
