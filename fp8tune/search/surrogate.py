"""What is fast: tokens/s of every setting, learned from the trials.

The logarithm of tokens/s is a Gaussian process. Its mean is a saturating curve in the
micro-batch with the usual effects of AC and compile, or what the facts expect of the
job, whichever makes the trials more probable. Its covariance has a part per knob and
smaller ones per pair, triple, ... of knobs, and what a nearly full GPU may cost. An
earlier study's trials are those of a second, correlated output, whose level is its own;
how closely correlated is fitted as well (intrinsic coregionalization: Bonilla, Chai and
Williams, Multi-task Gaussian Process Prediction, 2007).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fp8tune.search.normal import Array
from fp8tune.trials.space import Knob, Point, Space

GAIN: dict[str, dict[Any, float]] = {
    "ac": {"none": 0.0, "selective": -0.06, "full": -0.24},
    "compile": {True: 0.14, False: 0.0},
}
"""Log of the usual effect on tokens/s: full AC costs 22 to 33 % of time and selective
2 to 10 % (Megatron, Moonlight), compile gains 15.7 % (torchtitan, Llama-3.1-8B)."""
NOISE = 0.008
"""Relative: between runs of one setting, and what the model cannot follow."""
KNEE = 0.88
"""Share of usable memory from which the allocator may begin to retry."""
PRESSURE = 0.1
"""Log of what a full GPU is expected to cost; its deviation is half as much again."""
CELL, ESTIMATE = 0.01, 0.2
"""Deviation of a cell from what its knobs add up to, and from an estimate."""
WEIGHTS = (0.03, 0.015, 0.06, 0.15)
COUPLINGS = (0.3, 0.03, 0.1, 1.0)
LENGTHS = (0.3, 0.15, 0.6)
HALVES = (0.5, 0.1, 1.0, 2.0, 4.0, 8.0)
TRUSTS = (1.0, 0.5, 0.0)
BONDS = (0.97, 0.99, 0.9, 0.6)
"""What a shape may have; the first is what it has beforehand."""


class Belief(NamedTuple):
    """Logs of tokens/s: what to expect, and standard deviations."""

    mean: Array
    deviation: Array


class Features(NamedTuple):
    """What the model sees of points.

    ``table`` has a column per knob, ``usual`` and ``expected`` are logs of tokens/s
    without the batch and by the prior, ``used`` is how far memory is past its knee,
    ``study`` is 0 for this one and 1 for an earlier one.
    """

    table: Array
    batch: Array
    usual: Array
    expected: Array
    used: Array
    study: Array


class Shape(NamedTuple):
    """What is fitted.

    A variance per knob, over ``coupling`` that of two knobs together; ``length`` of
    the smooth knobs; ``half`` the batch with half of the throughput; ``trust`` the
    share of the expectation; ``bond`` the correlation with an earlier study.
    """

    weights: tuple[float, ...]
    coupling: float = COUPLINGS[0]
    length: float = LENGTHS[0]
    half: float = HALVES[0]
    trust: float = 0.0
    bond: float = BONDS[0]


class Speed:
    """The speed of a space's points, as far as trials have told.

    ``logs`` are of tokens/s at ``seen``; ``expected`` says whether the features hold
    an expectation. ``evidence`` is the log probability of the trials.
    """

    def __init__(
        self, space: Space, seen: Features, logs: Array, expected: bool
    ) -> None:
        self._smooth = [_is_smooth(knob) for knob in space.knobs]
        self._batch = space.place("micro_batch")
        self._seen, self._logs = seen, logs
        self._noise = NOISE**2 * np.eye(len(logs))
        self._halves = HALVES if space.has_batches else ()
        self._trusts = TRUSTS if expected else (0.0,)
        self._bonds = BONDS if np.ptp(seen.study) else ()
        self._shape, self.evidence = self._fitted()
        self._lower = np.linalg.cholesky(self._covariance(seen, seen) + self._noise)
        self._white = np.linalg.solve(self._lower, logs - self._mean(seen))

    def predict(self, features: Features) -> Belief:
        """What to expect of points, each for itself."""
        half = self._half(features)
        own = self._own(features) - (half**2).sum(axis=0)
        mean = self._mean(features) + half.T @ self._white
        return Belief(mean, np.sqrt(np.maximum(own, 1e-10)))

    def draws(self, features: Features, count: int, seed: int) -> Array:
        """Samples of the points' logs, all points together: one row each."""
        half = self._half(features)
        covariance = self._covariance(features, features) - half.T @ half
        covariance += 1e-8 * np.eye(len(covariance))
        mean = self._mean(features) + half.T @ self._white
        normal = np.random.default_rng(seed).standard_normal((count, len(mean)))
        return np.asarray(mean + normal @ np.linalg.cholesky(covariance).T)

    def _half(self, features: Features) -> Array:
        cross = self._covariance(self._seen, features)
        return np.asarray(np.linalg.solve(self._lower, cross))

    def _mean(self, features: Features, shape: Shape | None = None) -> Array:
        shape = shape or self._shape
        usual = features.usual - PRESSURE * features.used
        if self._halves:
            usual = usual + np.log(features.batch / (features.batch + shape.half))
        mean = shape.trust * features.expected + (1 - shape.trust) * usual
        return np.asarray(mean)

    def _own(self, features: Features) -> Array:
        """The variance of each point before any trial."""
        shape = self._shape
        product = math.prod(1 + weight / shape.coupling for weight in shape.weights)
        pressure = (1.5 * PRESSURE * features.used) ** 2
        own = LEVEL + shape.coupling * (product - 1) + _cell(shape)
        return np.asarray(own + pressure)

    def _covariance(
        self, a: Features, b: Features, shape: Shape | None = None
    ) -> Array:
        shape = shape or self._shape
        product = np.ones((len(a.table), len(b.table)))
        same = np.ones_like(product)
        for place, weight in enumerate(shape.weights):
            gap = a.table[:, place][:, None] - b.table[:, place][None, :]
            if self._smooth[place]:
                near = np.exp(-0.5 * (gap / shape.length) ** 2)
            else:
                near = (gap == 0).astype(float)
            product *= 1 + weight / shape.coupling * near
            if place != self._batch:
                same = same * (gap == 0)
        pressure = (1.5 * PRESSURE) ** 2 * np.outer(a.used, b.used)
        cells = _cell(shape) * same
        both = a.study[:, None] == b.study[None, :]
        own = shape.coupling * (product - 1) + pressure + cells
        return np.asarray(LEVEL * both + own * np.where(both, 1.0, shape.bond))

    def _fitted(self) -> tuple[Shape, float]:
        """The most probable shape: one coordinate after the other, twice.

        And the log evidence for it.
        """
        weights = (WEIGHTS[0],) * len(self._smooth)
        shape = Shape(weights, trust=self._trusts[0])
        best = self._evidence(shape)
        for _ in range(2):
            for field, values in self._moves():
                for value in values:
                    other = _moved(shape, field, value)
                    evidence = self._evidence(other)
                    if evidence > best:
                        best, shape = evidence, other
        return shape, best

    def _moves(self) -> Iterator[tuple[str | int, Sequence[float]]]:
        yield "bond", self._bonds
        yield "trust", self._trusts
        yield "half", self._halves
        yield "length", LENGTHS
        yield "coupling", COUPLINGS
        for place in range(len(self._smooth)):
            yield place, WEIGHTS

    def _evidence(self, shape: Shape) -> float:
        """Log probability of the trials under a shape, and of the shape itself."""
        covariance = self._covariance(self._seen, self._seen, shape) + self._noise
        lower = np.linalg.cholesky(covariance)
        white = np.linalg.solve(lower, self._logs - self._mean(self._seen, shape))
        odd = sum(math.log(weight / WEIGHTS[0]) ** 2 for weight in shape.weights) / 4
        odd += math.log(shape.coupling / COUPLINGS[0]) ** 2 / 4
        odd += math.log(shape.length / LENGTHS[0]) ** 2
        odd += math.log(shape.half / 0.7) ** 2 / 2
        likely = -0.5 * float(white @ white) - float(np.log(np.diag(lower)).sum())
        return likely - 0.5 * odd


LEVEL = 25.0
"""Variance of the logarithm's level, which nothing is known of."""


def _cell(shape: Shape) -> float:
    """Variance of what is each cell's own: so much an estimate may be wrong by."""
    return CELL**2 + (ESTIMATE * shape.trust) ** 2


def _moved(shape: Shape, field: str | int, value: float) -> Shape:
    if isinstance(field, int):
        weights = (*shape.weights[:field], value, *shape.weights[field + 1 :])
        return shape._replace(weights=weights)
    return Shape(**(shape._asdict() | {field: value}))


def features(
    space: Space, points: Sequence[Point], used: Array, expected: Array
) -> Features:
    """What the model sees; ``used`` is the share of usable memory of each point."""
    columns = [np.array(_column(knob)) for knob in space.knobs]
    indices = np.array(points, dtype=int).reshape(len(points), len(columns))
    cells = [column[indices[:, place]] for place, column in enumerate(columns)]
    batch = np.array([space.batch(point) for point in points])
    effects = np.array([usual(space, point) for point in points])
    full = np.clip((used - KNEE) / (1 - KNEE), 0.0, 1.5)
    study = np.zeros(len(points))
    return Features(np.stack(cells, axis=1), batch, effects, expected, full, study)


def elsewhere(space: Space, seen: Features, batches: Sequence[float]) -> Features:
    """The same of an earlier study, whose batches this space need not have."""
    batch, place = np.array(batches), space.place("micro_batch")
    table = seen.table.copy()
    if place is not None and _is_smooth(space.knobs[place]):
        low, high = _ends(space.knobs[place])
        table[:, place] = (np.log(batch) - low) / (high - low)
    return seen._replace(table=table, batch=batch, study=np.ones(len(batch)))


def together(one: Features, other: Features) -> Features:
    """Both, one after the other."""
    return Features(*map(np.concatenate, zip(one, other, strict=True)))


def _is_smooth(knob: Knob) -> bool:
    plain = all(type(value) in (int, float) and value > 0 for value in knob.values)
    return plain and len(knob.values) > 2


def _column(knob: Knob) -> list[float]:
    """Where values lie: numbers between 0 and 1 by their logarithm, others apart."""
    if not _is_smooth(knob):
        return [float(index) for index in range(len(knob.values))]
    low, high = _ends(knob)
    return [(math.log(value) - low) / (high - low) for value in knob.values]


def _ends(knob: Knob) -> tuple[float, float]:
    return math.log(min(knob.values)), math.log(max(knob.values))


def usual(space: Space, point: Point) -> float:
    """Log of what AC and compile usually do to tokens/s."""
    values = ((space.value(point, role), effects) for role, effects in GAIN.items())
    return sum(effects.get(value, 0.0) for value, effects in values)
