"""The memory lines of a space's cells, learned together.

A setting's peak is ``exp(a) + batch * exp(s)``. Intercept and slope are products of one
factor per level of the other knobs, the slope of one per cell besides, so that a cell
that was measured says much about its neighbours. The logarithms are normal beforehand;
Gauss-Newton steps find the most probable ones, and how sure they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fp8tune.search.normal import Array
from fp8tune.trials.space import Point, Space

SLOPE = {"full": 0.0, "selective": 0.7, "none": 1.2}
"""Log of what AC modes add to the memory of a sequence, before anything is measured.

Bytes per token of Llama-3-8B's blocks and logits: 2 MB with full AC, 3.7 MB selective
as torchtitan wraps it, 7 MB without (saved tensors counted)."""
PEAK_NOISE = 0.01
"""Relative: of a measured peak, and of the line itself."""
BOUND_NOISE = 0.02
WRONG = 3.0
"""Deviations by which a corrected peak may be off, or its correction misleads."""
PRIOR_NOISE = 0.25
"""Relative: of an expected peak that nothing has corrected."""
STEPS, HALVINGS = 8, 6


class Run(NamedTuple):
    """A trial that says something of memory; ``peak_gib`` is 0 where none is known."""

    point: Point
    peak_gib: float
    ok: bool


class Guess(NamedTuple):
    """A peak that is expected of a point [GiB], and its relative deviation."""

    point: Point
    peak_gib: float
    error: float = PRIOR_NOISE

    @property
    def sure(self) -> bool:
        """Whether measured runs have corrected it."""
        return self.error < PRIOR_NOISE


class Lines:
    """The lines, as far as runs have told."""

    def __init__(
        self,
        space: Space,
        told: Sequence[Run],
        card_gib: float,
        prior: Sequence[Guess],
    ) -> None:
        self._told = told
        self._columns = Columns(space)
        self._rows = self._columns.rows([run.point for run in told])
        expected = _scaled(_ends(space, prior), told, prior)
        self._prior = self._columns.rows([guess.point for guess in expected])
        logs = [math.log(guess.peak_gib) for guess in expected]
        self._expected = np.array(logs, dtype=np.float64)
        self._weight = np.array([guess.error for guess in expected]) ** -2.0
        before, self._sd = self._columns.beforehand(told, card_gib)
        self._before: Array = before
        self._log: Array = before.copy()
        self._covariance = np.diag(self._sd**2)

    def predict(self, points: Sequence[Point]) -> tuple[Array, Array]:
        """Logs of the points' peaks, and their standard deviations."""
        jacobian, values = _linear(self._columns.rows(points), self._log)
        variance = (jacobian @ self._covariance * jacobian).sum(axis=1)
        return values, np.sqrt(variance + PEAK_NOISE**2)

    def learn(self, cap: float) -> None:
        """Fit what was told, where ``cap`` is the log of the usable memory [GiB].

        Gauss-Newton, each step halved until it betters the fit.
        """
        misfit, step, information = self._around(self._log, cap)
        for _ in range(STEPS):
            for halving in range(HALVINGS):
                log = self._log + step * 0.5**halving
                found = self._around(log, cap)
                if found[0] < misfit - 1e-6:
                    break
            else:
                break
            self._log = log
            misfit, step, information = found
        self._covariance = np.asarray(np.linalg.inv(information), np.float64)

    def _around(self, log: Array, cap: float) -> tuple[float, Array, Array]:
        """How badly logarithms fit, the step to better ones, and the information."""
        before = (self._before - log) / self._sd**2
        misfit = float(before @ (self._before - log))
        information = np.diag(self._sd**-2)
        for rows, wish in ((self._rows, self._wanted), (self._prior, self._guessed)):
            jacobian, values = _linear(rows, log)
            wanted, weight = wish(values, cap)
            misfit += float(weight @ wanted**2)
            before = before + jacobian.T @ (weight * wanted)
            information = information + (jacobian.T * weight) @ jacobian
        step = np.clip(np.linalg.solve(information, before), -1.0, 1.0)
        return misfit, step, information

    def _wanted(self, values: Array, cap: float) -> tuple[Array, Array]:
        """What each run wants its log peak to change by, and how much it matters.

        A run without a peak matters only while the line contradicts it.
        """
        wanted, weight = np.zeros(len(values)), np.zeros(len(values))
        for i, run in enumerate(self._told):
            if run.peak_gib:
                wanted[i] = math.log(run.peak_gib) - values[i]
                weight[i] = PEAK_NOISE**-2
            elif run.ok == (values[i] > cap):
                wanted[i] = cap - values[i]
                weight[i] = BOUND_NOISE**-2
        return wanted, weight

    def _guessed(self, values: Array, _cap: float) -> tuple[Array, Array]:
        """The same of the prior."""
        return self._expected - values, self._weight


def _linear(rows: Rows, log: Array) -> tuple[Array, Array]:
    """The derivatives of each row's log peak, and the log peaks."""
    base = np.exp(rows.base @ log)
    each = rows.batch * np.exp(rows.each @ log)
    total = base + each
    jacobian = rows.base * (base / total)[:, None]
    jacobian += rows.each * (each / total)[:, None]
    return jacobian, np.log(total)


class Rows(NamedTuple):
    """Points as the model sees them: batch, and which unknowns make up their line."""

    batch: Array
    base: Array
    each: Array


class Columns:
    """Which unknown stands where: intercept, slope, then levels, then cells."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._levels: dict[tuple[int, int], int] = {}
        self._cells: dict[Point, int] = {}
        means, deviations = [0.0, 0.0], [0.7, 0.9]
        batch = space.place("micro_batch")
        for place, knob in enumerate(space.knobs):
            for index, value in enumerate(knob.values) if place != batch else ():
                self._levels[place, index] = len(means)
                ac = knob.role == "ac"
                means += [0.0, SLOPE.get(str(value), 0.5) if ac else 0.0]
                deviations += [0.05 if batch is not None else 0.5, 0.5 if ac else 0.15]
        for cell in sorted(set(map(space.cell, space.every()))):
            self._cells[cell] = len(means)
            means.append(0.0)
            deviations.append(0.1)
        self._means, self._deviations = np.array(means), np.array(deviations)

    def beforehand(self, told: Sequence[Run], card_gib: float) -> tuple[Array, Array]:
        """Means and deviations: the first peak is half state and half activations."""
        mean = self._means.copy()
        first = next((run for run in told if run.peak_gib), None)
        size, batch, level = card_gib or 80.0, 4.0, 0.0
        if first is not None:
            size = first.peak_gib
            batch = self._space.batch(first.point) or 1.0
            level = float(self.rows([first.point]).each[0, 2:] @ mean[2:])
        mean[0] = math.log(0.45 * size)
        mean[1] = math.log(0.45 * size / batch) - level
        return mean, self._deviations

    def rows(self, points: Sequence[Point]) -> Rows:
        """The points' rows."""
        size = (len(points), len(self._means))
        base, each = np.zeros(size), np.zeros(size)
        base[:, 0] = each[:, 1] = 1.0
        for row, point in enumerate(points):
            for part in enumerate(point):
                if part in self._levels:
                    base[row, self._levels[part]] = 1.0
                    each[row, self._levels[part] + 1] = 1.0
            cell = self._cells.get(self._space.cell(point))
            if cell is not None:
                each[row, cell] = 1.0
        return Rows(np.array([self._space.batch(p) for p in points]), base, each)


def _ends(space: Space, prior: Sequence[Guess]) -> list[Guess]:
    """The smallest and the largest batch of each cell: they say the whole line."""
    ordered = sorted(prior, key=lambda guess: space.batch(guess.point))
    smallest = {space.cell(guess.point): guess for guess in reversed(ordered)}
    largest = {space.cell(guess.point): guess for guess in ordered}
    return list(dict.fromkeys([*smallest.values(), *largest.values()]))


def _scaled(
    ends: Sequence[Guess], told: Sequence[Run], prior: Sequence[Guess]
) -> list[Guess]:
    """The guesses, scaled by how measured peaks differ from those as sure.

    Where one is further from its trial than it may be, none is sure any more.
    """
    known = {guess.point: guess for guess in prior}
    told = [run for run in told if run.peak_gib and run.point in known]
    pairs = [(run.peak_gib / known[run.point].peak_gib, run.point) for run in told]
    ratios = [(by, known[point]) for by, point in pairs]
    if any(guess.sure and _is_off(by, guess.error) for by, guess in ratios):
        ends = [guess._replace(error=PRIOR_NOISE) for guess in ends]
        ratios = [(by, guess._replace(error=PRIOR_NOISE)) for by, guess in ratios]

    def scale(guess: Guess) -> float:
        alike = [by for by, other in ratios if other.sure == guess.sure]
        return float(np.median(alike or [by for by, _ in ratios] or [1.0]))

    return [g._replace(peak_gib=g.peak_gib * scale(g)) for g in ends]


def _is_off(ratio: float, error: float) -> bool:
    return abs(math.log(ratio)) > WRONG * error
