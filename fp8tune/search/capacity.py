"""What fits: the memory line of every cell, and the GPU's capacity.

How sure it is that a setting fits follows from how sure line and capacity are: trials
that ran, or ran out of memory, say where the capacity is. Before them it is one of the
usual GPUs', or the one that records or job name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fp8tune.search.line import Guess, Lines, Run
from fp8tune.search.normal import Array, below
from fp8tune.trials.record import Record
from fp8tune.trials.space import Point, Space

CARDS = {79.1: 1.0, 93.1: 0.3, 139.8: 0.6, 178.4: 0.3, 44.5: 0.05, 23.6: 0.05}
"""Memory of GPUs with FP8 that torch reports [GiB], by how often they are met."""
USABLE = 0.96
"""Share of it at which allocations begin to fail: the rest is the CUDA context and
what the allocator cannot use."""
ELSEWHERE = 0.2
"""How often an allocator frees what it kept although the GPU is not nearly full: for
fragments, or for another process."""
ROUNDS = 4


class Fit(NamedTuple):
    """How sure it is that settings fit, and what share of usable memory they take.

    ``deviation`` is that of the settings' own memory, whatever the capacity is.
    """

    probability: Array
    used: Array
    deviation: Array


class Memory:
    """The memory of a space's points, as far as trials have told.

    ``card_gib`` is what the job says of the GPU, ``prior`` the expected peaks.
    """

    def __init__(
        self,
        space: Space,
        runs: Sequence[tuple[Point, Record]],
        card_gib: float = 0.0,
        prior: Sequence[Guess] = (),
    ) -> None:
        told = [
            Run(point, _peak(r), r.ok and not r.memory_shortage)
            for point, r in runs
            if _tells(r)
        ]
        self._space = space
        self._largest: dict[Point, float] = {}
        for point in (run.point for run in told if run.ok):
            cell, batch = space.cell(point), space.batch(point)
            self._largest[cell] = max(batch, self._largest.get(cell, batch))
        card = _card(card_gib, [record for _, record in runs])
        self._caps, before = _capacities(card)
        self._weights = before
        self._lines = Lines(space, told, card, prior)
        for _ in range(ROUNDS):
            self._lines.learn(self._cap)
            self._weights = self._weigh(told, before)

    def _has_run(self, point: Point) -> bool:
        """Whether a batch as large has run in the point's cell."""
        most = self._largest.get(self._space.cell(point), -1.0)
        return most >= self._space.batch(point)

    @property
    def usable_gib(self) -> float:
        """Memory at which allocations begin to fail, as likely as not [GiB]."""
        return math.exp(self._cap)

    @property
    def _cap(self) -> float:
        return float(self._weights @ self._caps)

    def fit(self, points: Sequence[Point]) -> Fit:
        """Whether these points fit."""
        values, deviations = self._lines.predict(points)
        distance = (self._caps[None, :] - values[:, None]) / deviations[:, None]
        chance = below(distance) @ self._weights
        chance = np.where([self._has_run(p) for p in points], 1.0, chance)
        return Fit(chance, np.exp(values - self._cap), deviations)

    def _weigh(self, told: Sequence[Run], before: Array) -> Array:
        """How probable each capacity is after these runs."""
        if not told:
            return before
        values, deviations = self._lines.predict([run.point for run in told])
        log = np.log(before)
        for run, value, deviation in zip(told, values, deviations, strict=True):
            if run.peak_gib and run.ok:
                log = log - np.where(self._caps < math.log(run.peak_gib), 50.0, 0.0)
            else:
                sign = 1 if run.ok else -1
                chance = below(sign * (self._caps - value) / deviation)
                if run.peak_gib:
                    chance = ELSEWHERE + (1 - ELSEWHERE) * chance
                log = log + np.log(np.maximum(chance, 1e-9))
        weights = np.exp(log - log.max())
        return np.asarray(weights / weights.sum())


def _tells(record: Record) -> bool:
    """Whether a trial says something of memory: how much it took, or what there is."""
    if record.ok:
        return record.peak_gib > 0 or not record.memory_shortage
    return record.outcome == "oom"


def _peak(record: Record) -> float:
    """The peak of a trial that ran: of one that did not it says nothing."""
    return record.peak_gib if record.ok else 0.0


def _card(card_gib: float, records: Sequence[Record]) -> float:
    """The GPU's memory: as records say it, else as the job does, if that can be."""
    for record in records:
        if told := record.capacity_gib:
            return told
    most = max((_peak(record) for record in records), default=0.0)
    return card_gib if card_gib > most else 0.0


def _capacities(card: float) -> tuple[Array, Array]:
    """Logarithms of usable memory, and how probable each is beforehand."""
    caps = np.log(np.geomspace(2, 800, 300))
    weights = np.full(len(caps), 1e-3)
    for size, share in ({card: 1.0} if card else CARDS).items():
        distance = (caps - math.log(size * USABLE)) / 0.03
        weights += share * np.exp(-0.5 * distance**2)
    return caps, weights / weights.sum()
