"""The memory model: the probability that a setting fits in the GPU's memory.

In each cell (all knobs but the batch) the peak is ``exp(a) + batch * exp(s)``. The
intercept and the slope are products of one factor per value of the other knobs, and the
slope has one more factor per cell. So a measured cell informs its neighbours. All
logarithms have normal priors; Gauss-Newton steps find the most probable values and
their covariance. An unknown capacity is inferred from which trials ran and which ran
out of memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fp8tune.search.sampler.candidates import Array, CandidateSpace, Point
from fp8tune.search.sampler.past import Run

PRIOR_ERROR = 0.25
"""Relative error of an expected peak that no measured run has corrected."""
CAPACITIES = {79.1: 1.0, 93.1: 0.3, 139.8: 0.6, 178.4: 0.3, 44.5: 0.05, 23.6: 0.05}
"""Memory of GPUs with FP8 as torch reports it [GiB], by how often they are met."""
USABLE = 0.96
"""Share of the memory at which allocations begin to fail: the rest is the CUDA context
and what the allocator cannot use."""
SLOPE = {"full": 0.0, "selective": 0.7, "none": 1.2}
"""Log of what AC modes add to the memory of a sequence before anything is measured.

Bytes per token of Llama-3-8B's blocks and logits: 2 MB with full AC, 3.7 MB selective
as torchtitan wraps it, 7 MB without (saved tensors counted)."""
PEAK_NOISE, BOUND_NOISE = 0.01, 0.02
"""Relative: of a measured peak, and of the limit that a run without a peak sets."""
OUTLIER = 3.0
"""Standard deviations by which an expected peak may be off before it is distrusted."""
STEPS, HALVINGS, ROUNDS = 8, 6, 4


class Expected(NamedTuple):
    """The estimate of a setting; 0 if unknown.

    ``peak_gib`` is the peak of the fullest GPU, ``error`` its relative error;
    ``tokens_per_second`` may be on any scale.
    """

    peak_gib: float = 0.0
    tokens_per_second: float = 0.0
    error: float = PRIOR_ERROR


class Fit(NamedTuple):
    """For each point the probability that it fits, and its share of usable memory."""

    probability: Array
    share: Array


class MemoryModel:
    """Predicts whether settings fit, from the runs so far.

    ``capacity_gib`` is the memory of the GPU [GiB]; 0: infer it from runs.
    """

    def __init__(
        self,
        space: CandidateSpace,
        runs: Sequence[Run],
        capacity_gib: float = 0.0,
        expected: Mapping[Point, Expected] | None = None,
    ) -> None:
        self._space = space
        runs = [run for run in runs if run.ok or run.outcome == "oom"]
        self._largest: dict[Point, float] = {}
        for run in runs:
            if run.fits:
                cell, batch = space.cell(run.point), space.batch(run.point)
                self._largest[cell] = max(batch, self._largest.get(cell, batch))
        capacity = _capacity(capacity_gib, runs)
        self._logs, prior = _capacities(capacity)
        self._weights = prior
        self._peaks = _Peaks(space, runs, capacity, expected or {})
        for _ in range(ROUNDS):
            self._peaks.learn(self._limit)
            self._weights = self._weigh(runs, prior)

    @property
    def _limit(self) -> float:
        return float(self._weights @ self._logs)

    def fit(self, points: Sequence[Point]) -> Fit:
        """Predict whether points fit; settings that ran and smaller batches do."""
        values, deviations = self._peaks.predict(points)
        distance = (self._logs[None, :] - values[:, None]) / deviations[:, None]
        chance = normal_cdf(distance) @ self._weights
        ran = [
            self._largest.get(self._space.cell(point), -1.0) >= self._space.batch(point)
            for point in points
        ]
        share = np.exp(values - self._limit)
        return Fit(np.where(ran, 1.0, chance), share)

    def _weigh(self, runs: Sequence[Run], prior: Array) -> Array:
        """Return the probability of each capacity, given the runs."""
        if not runs:
            return prior
        values, deviations = self._peaks.predict([run.point for run in runs])
        log = np.log(prior)
        for run, value, deviation in zip(runs, values, deviations, strict=True):
            if run.fits and run.peak_gib:
                log = log - np.where(self._logs < math.log(run.peak_gib), 50.0, 0.0)
            else:
                sign = 1 if run.fits else -1
                chance = normal_cdf(sign * (self._logs - value) / deviation)
                log = log + np.log(np.maximum(chance, 1e-9))
        weights = np.exp(log - log.max())
        return np.asarray(weights / weights.sum())


class _Peaks:
    """The logarithm of each setting's peak, learned for all cells together."""

    def __init__(
        self,
        space: CandidateSpace,
        runs: Sequence[Run],
        capacity: float,
        expected: Mapping[Point, Expected],
    ) -> None:
        self._space, self._runs = space, runs
        self._lay_out_unknowns()
        prior = _scaled(expected, runs)
        ends = _ends_of_cells(space, prior)
        self._bends = _bends(space, prior, ends)
        points = [point for cell in ends.values() for point in dict.fromkeys(cell)]
        self._expected_rows = self._rows(points)
        self._expected = np.array([math.log(prior[p].peak_gib) for p in points])
        self._expected_weight = np.array([prior[p].error for p in points]) ** -2.0
        self._run_rows = self._rows([run.point for run in runs])
        self._prior = self._prior_mean(runs, capacity)
        self._log: Array = self._prior.copy()
        self._covariance = np.diag(self._deviation**2)

    def _lay_out_unknowns(self) -> None:
        """Number the unknowns: intercept, slope, two per value of a knob, the cells."""
        space = self._space
        means, deviations = [0.0, 0.0], [0.7, 0.9]
        batch = space.place(space.named.batch)
        self._columns: dict[int, int] = {}
        for place, values in enumerate(space.values):
            if place == batch:
                continue
            self._columns[place] = len(means)
            is_ac = space.keys[place] == space.named.ac
            for value in values:
                means += [0.0, SLOPE.get(str(value), 0.5) if is_ac else 0.0]
                deviations += [0.05 if batch is not None else 0.5]
                deviations += [0.5 if is_ac else 0.15]
        self._first_cell = len(means)
        self._mean = np.array(means + [0.0] * len(space.cells))
        self._deviation = np.array(deviations + [0.1] * len(space.cells))

    def _prior_mean(self, runs: Sequence[Run], capacity: float) -> Array:
        """Return the prior mean: half of the first peak is state, half activations."""
        mean = self._mean.copy()
        size, batch, level = capacity or 80.0, 4.0, 0.0
        first = next((run for run in runs if _peak(run)), None)
        if first is not None:
            size, batch = first.peak_gib, self._space.batch(first.point) or 1.0
            level = float(self._rows([first.point]).slope[0, 2:] @ mean[2:])
        mean[0] = math.log(0.45 * size)
        mean[1] = math.log(0.45 * size / batch) - level
        return mean

    def _rows(self, points: Sequence[Point]) -> _Rows:
        rows = np.arange(len(points))
        shape = (len(points), len(self._mean))
        intercept, slope = np.zeros(shape), np.zeros(shape)
        intercept[:, 0] = slope[:, 1] = 1.0
        positions = np.array(points, dtype=int).reshape(-1, len(self._space.keys))
        for place, column in self._columns.items():
            intercept[rows, column + 2 * positions[:, place]] = 1.0
            slope[rows, column + 2 * positions[:, place] + 1] = 1.0
        cells = [self._space.cells[self._space.cell(point)] for point in points]
        slope[rows, self._first_cell + np.array(cells, dtype=int)] = 1.0
        batches = np.array([self._space.batch(point) for point in points])
        bends = np.array([self._bends.get(point, 0.0) for point in points])
        return _Rows(batches, intercept, slope, bends)

    def predict(self, points: Sequence[Point]) -> tuple[Array, Array]:
        """Return the logarithms of the points' peaks, and standard deviations."""
        jacobian, values = _linearized(self._rows(points), self._log)
        variance = (jacobian @ self._covariance * jacobian).sum(axis=1)
        return values, np.sqrt(variance + PEAK_NOISE**2)

    def learn(self, limit: float) -> None:
        """Fit the runs; ``limit`` is the logarithm of the usable memory [GiB]."""
        misfit, step, information = self._misfit(self._log, limit)
        for _ in range(STEPS):
            for halving in range(HALVINGS):
                log = self._log + step * 0.5**halving
                found = self._misfit(log, limit)
                if found[0] < misfit - 1e-6:
                    break
            else:
                break
            self._log = log
            misfit, step, information = found
        self._covariance = np.asarray(np.linalg.inv(information), np.float64)

    def _misfit(self, log: Array, limit: float) -> tuple[float, Array, Array]:
        """Return the misfit, the next Gauss-Newton step and the information matrix.

        A run without a peak counts only if it contradicts the model.
        """
        gradient = (self._prior - log) / self._deviation**2
        misfit = float(gradient @ (self._prior - log))
        information = np.diag(self._deviation**-2)
        jacobian, values = _linearized(self._run_rows, log)
        wanted, weight = np.zeros(len(values)), np.zeros(len(values))
        for i, run in enumerate(self._runs):
            if peak := _peak(run):
                wanted[i], weight[i] = math.log(peak) - values[i], PEAK_NOISE**-2
            elif run.fits == (values[i] > limit):
                wanted[i], weight[i] = limit - values[i], BOUND_NOISE**-2
        expected_jacobian, expected = _linearized(self._expected_rows, log)
        for rows, change, weights in (
            (jacobian, wanted, weight),
            (expected_jacobian, self._expected - expected, self._expected_weight),
        ):
            misfit += float(weights @ change**2)
            gradient = gradient + rows.T @ (weights * change)
            information = information + (rows.T * weights) @ rows
        step = np.clip(np.linalg.solve(information, gradient), -1.0, 1.0)
        return misfit, step, information


class _Rows(NamedTuple):
    """The batches of points, and the unknowns of their intercepts and slopes.

    ``bend`` is how far each log peak is from the line.
    """

    batch: Array
    intercept: Array
    slope: Array
    bend: Array


def _linearized(rows: _Rows, log: Array) -> tuple[Array, Array]:
    """Return the derivatives of each row's log peak, and the log peaks."""
    fixed = np.exp(rows.intercept @ log)
    growing = rows.batch * np.exp(rows.slope @ log)
    total = fixed + growing
    jacobian = rows.intercept * (fixed / total)[:, None]
    jacobian += rows.slope * (growing / total)[:, None]
    return jacobian, np.log(total) + rows.bend


def _peak(run: Run) -> float:
    """Return the peak of a run that did not run out of memory; 0 if unknown."""
    return run.peak_gib if run.ok else 0.0


def _capacity(capacity_gib: float, runs: Sequence[Run]) -> float:
    """Return the GPU's memory as the runs report it, else as given if plausible."""
    reported = next((run.capacity_gib for run in runs if run.capacity_gib), 0.0)
    most = max(map(_peak, runs), default=0.0)
    return reported or (capacity_gib if capacity_gib > most else 0.0)


def _capacities(capacity: float) -> tuple[Array, Array]:
    """Return logarithms of usable memory, and the prior probability of each."""
    logs = np.log(np.geomspace(2, 800, 300))
    weights = np.full(len(logs), 1e-3)
    for size, share in ({capacity: 1.0} if capacity else CAPACITIES).items():
        distance = (logs - math.log(size * USABLE)) / 0.03
        weights += share * np.exp(-0.5 * distance**2)
    return logs, weights / weights.sum()


def _scaled(
    expected: Mapping[Point, Expected], runs: Sequence[Run]
) -> dict[Point, Expected]:
    """Return the expected peaks, scaled by the ratio of measured to expected ones.

    If one is an outlier, all get at least the error of uncorrected estimates.
    """
    known = {point: one for point, one in expected.items() if one.peak_gib > 0}
    measured = [run for run in runs if _peak(run) and run.point in known]
    ratios = [run.peak_gib / known[run.point].peak_gib for run in measured]
    errors = [known[run.point].error for run in measured]
    off = any(
        abs(math.log(ratio)) > OUTLIER * error
        for ratio, error in zip(ratios, errors, strict=True)
    )
    scale = float(np.median(ratios)) if ratios else 1.0
    return {
        point: one._replace(
            peak_gib=one.peak_gib * scale,
            error=max(one.error, PRIOR_ERROR) if off else one.error,
        )
        for point, one in known.items()
    }


def _ends_of_cells(
    space: CandidateSpace, points: Mapping[Point, Expected]
) -> dict[Point, tuple[Point, Point]]:
    """Return the smallest and the largest batch of each cell, which define its line."""
    ordered = sorted(points, key=space.batch)
    smallest = {space.cell(point): point for point in reversed(ordered)}
    largest = {space.cell(point): point for point in ordered}
    return {cell: (smallest[cell], largest[cell]) for cell in smallest}


def _bends(
    space: CandidateSpace,
    points: Mapping[Point, Expected],
    ends: Mapping[Point, tuple[Point, Point]],
) -> dict[Point, float]:
    """Return how far each expected log peak is from its cell's line.

    A step that accumulates no gradients needs less than the line through the others.
    """
    bends = {}
    for point, one in points.items():
        low, high = ends[space.cell(point)]
        reach = space.batch(high) - space.batch(low)
        share = (space.batch(point) - space.batch(low)) / reach if reach else 0.0
        line = (1 - share) * points[low].peak_gib + share * points[high].peak_gib
        bends[point] = math.log(one.peak_gib / line)
    return bends


def normal_cdf(z: Array) -> Array:
    """Return the standard normal distribution function, within 1.5e-7.

    Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26.
    """
    x = np.abs(z) / math.sqrt(2)
    t = 1 / (1 + 0.3275911 * x)
    series = t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))
    tail = t * (0.254829592 + t * (-0.284496736 + series)) * np.exp(-x * x) / 2
    return np.asarray(np.where(z > 0, 1 - tail, tail))
