"""Transfer: use the trials of a similar study as evidence for this one.

The speed model fits how strongly the two studies correlate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fp8tune.search.sampler.candidates import (
    Array,
    CandidateSpace,
    Params,
    Point,
    is_count,
)
from fp8tune.search.sampler.past import Run
from fp8tune.search.sampler.speed import Features, features

FAILURES_COUNT = 3
"""How often a failure of a similar study counts: it had the same software versions."""


@dataclass(frozen=True, kw_only=True)
class EarlierTrial:
    """A trial of a similar study.

    ``params`` are its values; its batch counts sequences of this study's length,
    possibly a fraction. ``memory_share`` is its peak over its GPU's usable memory,
    ``expected_tokens_per_second`` its estimated speed; 0 if unknown. ``failed``: its
    setting fails, for another reason than memory.
    """

    params: Params
    failed: bool = False
    tokens_per_second: float = 0.0
    memory_share: float = 0.0
    expected_tokens_per_second: float = 0.0


class _Placed(NamedTuple):
    """A trial, its point (with the nearest batch of this space), and its own batch."""

    point: Point
    batch: float
    trial: EarlierTrial


class Earlier:
    """The trials of a similar study whose values this space has."""

    def __init__(self, space: CandidateSpace, trials: Sequence[EarlierTrial]) -> None:
        self._space = space
        placed = (_placed(space, trial) for trial in trials)
        self._placed = [one for one in placed if one is not None]

    @property
    def points(self) -> list[Point]:
        """The points tried there, each with the nearest batch of this space."""
        return [one.point for one in self._placed]

    @property
    def failures(self) -> list[Run]:
        """The failures there, repeated by their weight here."""
        failed = [one.point for one in self._placed if one.trial.failed]
        return [Run(point, "failed") for point in failed] * FAILURES_COUNT

    def measured(self, *, has_estimate: bool) -> tuple[Features, Array]:
        """Return the features of its settings, and their mean log tokens/s."""
        space = self._space
        runs: dict[tuple[Point, float], list[EarlierTrial]] = defaultdict(list)
        for point, batch, trial in self._placed:
            known = trial.expected_tokens_per_second > 0 or not has_estimate
            if trial.tokens_per_second > 0 and known:
                runs[point, batch].append(trial)
        logs = [
            np.log([t.tokens_per_second for t in own]).mean() for own in runs.values()
        ]
        share = np.array([own[0].memory_share for own in runs.values()])
        expected = np.zeros(len(runs))
        if has_estimate:
            speeds = [own[0].expected_tokens_per_second for own in runs.values()]
            expected = np.log(speeds)
        found = features(space, [point for point, _ in runs], share, expected)
        place = space.place(space.named.batch)
        coordinates, batches = found.coordinates, np.array([b for _, b in runs])
        if place is not None and space.is_smooth(place):
            coordinates[:, place] = [space.coordinate(place, b) for b in batches]
        study = np.ones(len(runs))
        found = found._replace(coordinates=coordinates, batch=batches, study=study)
        return found, np.array(logs, dtype=np.float64)


def _placed(space: CandidateSpace, trial: EarlierTrial) -> _Placed | None:
    params, size, key = dict(trial.params), 0.0, space.named.batch
    if key is not None:
        if not (space.has_batches and is_count(params.get(key))):
            return None
        size = float(params[key])
        values = space.values[space.keys.index(key)]
        params[key] = min(values, key=lambda value: abs(value - size))
    point = space.point(params)
    return None if point is None else _Placed(point, size, trial)
