"""What an earlier study on a near config tells of the settings of this one.

Its trials are evidence for the model of speed, which finds out how alike the two are,
and they are never counted or reported as this study's own. What they say of memory
comes in by the corrected estimate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from fp8tune.search.capacity import USABLE
from fp8tune.search.normal import Array
from fp8tune.search.prior import Expected
from fp8tune.search.surrogate import Features, elsewhere, features
from fp8tune.trials.record import Record
from fp8tune.trials.space import Point, Space, is_count

FIRM = 3
"""How often a failure of an earlier study counts: the versions are the same."""


class Past(NamedTuple):
    """A trial of an earlier study.

    ``point`` has its values but for the batch, which is ``batch`` sequences of this
    study's length; ``used`` is the share of the GPU's memory that it took, 0 where
    that is not known; ``expected`` are the tokens/s that were expected of it.
    """

    point: Point
    batch: float
    record: Record
    used: float = 0.0
    expected: float = 0.0


class Earlier(NamedTuple):
    """The trials of an earlier study, by its name."""

    name: str
    past: tuple[Past, ...] = ()

    @property
    def points(self) -> list[Point]:
        """Where it went, whatever the batch."""
        return [past.point for past in self.past]

    @property
    def failures(self) -> list[tuple[Point, Record]]:
        """What failed there, as often as it counts here."""
        failed = [past for past in self.past if not past.record.ok]
        return [(past.point, past.record) for past in failed] * FIRM

    def measured(self, space: Space, told: bool) -> tuple[Features, Array]:
        """What the model of speed sees of its settings, and their mean logs.

        ``told`` says whether the expected speeds count.
        """
        runs: dict[tuple[Point, float], list[Past]] = defaultdict(list)
        for past in self.past:
            if past.record.ok and (past.expected or not told):
                runs[past.point, past.batch].append(past)
        logs = [
            np.mean([np.log(past.record.tokens_per_second) for past in own])
            for own in runs.values()
        ]
        used = np.array([own[0].used for own in runs.values()])
        expected = np.zeros(len(runs))
        if told:
            expected = np.log([own[0].expected for own in runs.values()])
        seen = features(space, [point for point, _ in runs], used, expected)
        batches = [batch for _, batch in runs]
        return elsewhere(space, seen, batches), np.array(logs, np.float64)


NOTHING = Earlier("")
"""No earlier study."""


def earlier(
    name: str,
    space: Space,
    records: Iterable[Record],
    expect: Callable[[Record], Expected] = lambda _record: Expected(),
    scale: float = 1.0,
    card_gib: float = 0.0,
) -> Earlier:
    """Another study's records, as far as this space has their values.

    ``expect`` is what was expected of them there; one sequence of theirs is ``scale``
    of this study's, their GPU had ``card_gib``.
    """
    found = []
    for record in records:
        placed = _placed(space, record, scale)
        if placed is not None:
            card = record.capacity_gib or card_gib
            used = record.peak_gib / (card * USABLE) if card else 0.0
            expected = expect(record).tokens_per_second
            found.append(Past(*placed, record, used, expected))
    return Earlier(name, tuple(found))


def _placed(space: Space, record: Record, scale: float) -> tuple[Point, float] | None:
    """Where a record lies in this space, and its batch; ``None`` if nowhere."""
    batch = space.knob("micro_batch")
    values = dict(record.knobs)
    size = 0.0
    if batch is not None:
        if not space.has_batches or not is_count(values.get(batch.key)):
            return None
        size = values[batch.key] * scale
        values[batch.key] = min(batch.values, key=lambda value: abs(value - size))
    try:
        return space.point(values), size
    except KeyError:
        return None
