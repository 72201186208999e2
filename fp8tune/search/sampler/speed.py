"""The speed model: the tokens/s of every setting, learned from the trials.

The logarithm of tokens/s is a Gaussian process. Its mean is a saturating curve in the
batch with the typical effects of AC and compile, or the estimate, whichever makes the
measurements more probable. Its covariance has a part per knob, smaller parts per pair,
triple, ... of knobs, and one for the cost of a nearly full GPU.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from fp8tune.search.sampler.candidates import Array, CandidateSpace, Point

AC_EFFECT = {"none": 0.0, "selective": -0.06, "full": -0.24}
COMPILE_EFFECT: dict[Any, float] = {True: 0.14, False: 0.0}
"""Log of the typical effect on tokens/s: full AC costs 22 to 33 % of time and selective
2 to 10 % (Megatron, Moonlight), compile gains 15.7 % (torchtitan, Llama-3.1-8B)."""
NOISE = 0.008
"""Relative: between runs of one setting, and what the model cannot follow."""
NEARLY_FULL = 0.88
"""Share of usable memory from which the allocator may begin to retry."""
PRESSURE = 0.1
"""Log of what a full GPU is expected to cost; its deviation is half as much again."""
CELL_ERROR, ESTIMATE_ERROR = 0.01, 0.2
"""Deviation of a cell from what its knobs add up to, and from an estimate."""
LEVEL_VARIANCE = 25.0
"""Variance of the logarithm's level, about which nothing is known."""
WEIGHTS = (0.03, 0.015, 0.06, 0.15)
COUPLINGS = (0.3, 0.03, 0.1, 1.0)
LENGTHS = (0.3, 0.15, 0.6)
HALVES = (0.5, 0.1, 1.0, 2.0, 4.0, 8.0)
TRUSTS = (1.0, 0.5, 0.0)
"""The values that are tried for each hyperparameter; the first is the prior's mode."""


class Features(NamedTuple):
    """The model's inputs, one row per point.

    ``coordinates`` has a column per knob. ``typical`` and ``expected`` are logarithms
    of tokens/s, by typical effects without the batch and by the estimate; ``pressure``
    is how far the memory is past ``NEARLY_FULL``.
    """

    coordinates: Array
    batch: Array
    typical: Array
    expected: Array
    pressure: Array


@dataclass(frozen=True)
class Kernel:
    """The hyperparameters.

    ``weights``: a variance per knob. ``coupling``: a weight over it is the share that
    the knob has of the variance of combinations. ``length``: of smooth knobs, relative
    to their range. ``half``: the batch with half of the largest throughput. ``trust``:
    the share of the estimate in the mean.
    """

    weights: tuple[float, ...]
    coupling: float = COUPLINGS[0]
    length: float = LENGTHS[0]
    half: float = HALVES[0]
    trust: float = 0.0

    @property
    def cell_variance(self) -> float:
        """Variance of the part that each cell has alone: the error of an estimate."""
        return CELL_ERROR**2 + (ESTIMATE_ERROR * self.trust) ** 2


class SpeedModel:
    """Predicts log tokens/s from the values measured at ``seen``.

    ``has_estimate``: whether the features include an estimate. ``evidence`` is the log
    probability of the measurements.
    """

    def __init__(
        self,
        space: CandidateSpace,
        seen: Features,
        logs: Array,
        *,
        has_estimate: bool = False,
    ) -> None:
        self._smooth = [space.is_smooth(place) for place in range(len(space.keys))]
        self._batch = space.place(space.named.batch)
        self._seen, self._logs = seen, logs
        self._noise = NOISE**2 * np.eye(len(logs))
        self._halves = HALVES if space.has_batches else ()
        self._trusts = TRUSTS if has_estimate else (0.0,)
        self._kernel, self.evidence = self._fitted()
        self._solve()

    def _solve(self) -> None:
        seen, kernel = self._seen, self._kernel
        covariance = self._covariance(seen, seen, kernel) + self._noise
        self._lower = np.linalg.cholesky(covariance)
        residual = self._logs - self._mean(seen, kernel)
        self._white = np.linalg.solve(self._lower, residual)

    def believing(self, more: Features) -> SpeedModel:
        """Return a model that takes its own predictions of more points as measured.

        It predicts the same means, and is surer near these points (Ginsbourger, Le
        Riche and Carraro, Kriging is well-suited to parallelize optimization, 2010).
        """
        other = copy.copy(self)
        other._logs = np.append(self._logs, self.predict(more)[0])
        other._seen = Features(*map(np.concatenate, zip(self._seen, more, strict=True)))
        other._noise = NOISE**2 * np.eye(len(other._logs))
        other._solve()
        return other

    def predict(self, features: Features) -> tuple[Array, Array]:
        """Return the mean and the standard deviation of each point."""
        half = self._half(features)
        kernel = self._kernel
        product = math.prod(1 + weight / kernel.coupling for weight in kernel.weights)
        variance = LEVEL_VARIANCE + kernel.coupling * (product - 1)
        variance += kernel.cell_variance
        own = variance + (1.5 * PRESSURE * features.pressure) ** 2 - (half**2).sum(0)
        mean = self._mean(features, kernel) + half.T @ self._white
        return mean, np.sqrt(np.maximum(own, 1e-10))

    def _half(self, features: Features) -> Array:
        cross = self._covariance(self._seen, features, self._kernel)
        return np.asarray(np.linalg.solve(self._lower, cross))

    def _mean(self, features: Features, kernel: Kernel) -> Array:
        typical = prior_log_speed(features, kernel.half if self._halves else 0.0)
        return kernel.trust * features.expected + (1 - kernel.trust) * typical

    def _covariance(self, a: Features, b: Features, kernel: Kernel) -> Array:
        product = np.ones((len(a.batch), len(b.batch)))
        same_cell = np.ones_like(product)
        for place, weight in enumerate(kernel.weights):
            gap = a.coordinates[:, place][:, None] - b.coordinates[:, place][None, :]
            if self._smooth[place]:
                alike = np.exp(-0.5 * (gap / kernel.length) ** 2)
            else:
                alike = (gap == 0).astype(float)
            product *= 1 + weight / kernel.coupling * alike
            if place != self._batch:
                same_cell = same_cell * (gap == 0)
        pressure = (1.5 * PRESSURE) ** 2 * np.outer(a.pressure, b.pressure)
        cells = kernel.cell_variance * same_cell
        own = kernel.coupling * (product - 1) + pressure + cells
        return np.asarray(LEVEL_VARIANCE + own)

    def _fitted(self) -> tuple[Kernel, float]:
        """Return the most probable kernel and its evidence, by coordinate ascent."""
        weights = (WEIGHTS[0],) * len(self._smooth)
        best = Kernel(weights, trust=self._trusts[0])
        evidence = self._evidence(best)
        for _ in range(2):
            for name, values in self._moves():
                for value in values:
                    other = _moved(best, name, value)
                    found = self._evidence(other)
                    if found > evidence:
                        evidence, best = found, other
        return best, evidence

    def _moves(self) -> Iterator[tuple[str | int, Sequence[float]]]:
        yield "trust", self._trusts
        yield "half", self._halves
        yield "length", LENGTHS
        yield "coupling", COUPLINGS
        for place in range(len(self._smooth)):
            yield place, WEIGHTS

    def _evidence(self, kernel: Kernel) -> float:
        """Return the log probability of the measurements and of the kernel."""
        covariance = self._covariance(self._seen, self._seen, kernel) + self._noise
        lower = np.linalg.cholesky(covariance)
        white = np.linalg.solve(lower, self._logs - self._mean(self._seen, kernel))
        unusual = sum(math.log(weight / WEIGHTS[0]) ** 2 for weight in kernel.weights)
        unusual = unusual / 4 + math.log(kernel.coupling / COUPLINGS[0]) ** 2 / 4
        unusual += math.log(kernel.length / LENGTHS[0]) ** 2
        unusual += math.log(kernel.half / 0.7) ** 2 / 2
        likelihood = -0.5 * float(white @ white) - float(np.log(np.diag(lower)).sum())
        return likelihood - 0.5 * unusual


def _moved(kernel: Kernel, name: str | int, value: float) -> Kernel:
    if isinstance(name, int):
        weights = (*kernel.weights[:name], value, *kernel.weights[name + 1 :])
        return replace(kernel, weights=weights)
    fields: dict[str, Any] = {name: value}
    return replace(kernel, **fields)


def features(
    space: CandidateSpace, points: Sequence[Point], memory_share: Array, expected: Array
) -> Features:
    """Return the features of points.

    ``memory_share`` is the share of usable memory of each; ``expected`` is the log of
    the estimated tokens/s, zeros without an estimate.
    """
    ac, compiles = space.place(space.named.ac), space.place(space.named.compile)
    typical = np.zeros(len(points))
    for row, point in enumerate(points):
        if ac is not None:
            typical[row] += AC_EFFECT.get(space.values[ac][point[ac]], 0.0)
        if compiles is not None:
            value = space.values[compiles][point[compiles]]
            typical[row] += COMPILE_EFFECT.get(value, 0.0)
    batch = np.array([space.batch(point) for point in points])
    pressure = np.clip((memory_share - NEARLY_FULL) / (1 - NEARLY_FULL), 0.0, 1.5)
    coordinates = space.coordinates(points)
    return Features(coordinates, batch, typical, expected, pressure)


def prior_log_speed(features: Features, half: float = HALVES[0]) -> Array:
    """Return log tokens/s by typical effects, up to a constant."""
    log = features.typical - PRESSURE * features.pressure
    return log + np.log(features.batch / (features.batch + half)) if half else log
