"""Shared by both samplers: the state of a study, and the interface to Optuna."""

from __future__ import annotations

import abc
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from optuna import Study, Trial
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    IntDistribution,
)
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from fp8tune.search.sampler.candidates import (
    Array,
    CandidateSpace,
    Grid,
    NamedKeys,
    Point,
    is_count,
    settings,
)
from fp8tune.search.sampler.memory import Expected, MemoryModel
from fp8tune.search.sampler.past import Run, is_timed, run_of
from fp8tune.search.sampler.speed import Features, features

UNFINISHED = (TrialState.WAITING, TrialState.RUNNING)
FEASIBLE = 0.4
"""Chance from which a setting is tried: to fit in memory, and to run otherwise."""
FARTHER = 0.25
"""How much less a failure says of a setting per knob in which that differs."""
BLAMED = 2
"""Failures after which a value is to blame for them, if it never ran and the settings'
other values all did."""


class Proposal(NamedTuple):
    """A setting to try next, the reason, and the expected gain (log of tokens/s)."""

    params: dict[str, Any]
    reason: str
    gain: float = math.inf


@dataclass(frozen=True)
class Known:
    """The state of a study: its trials, memory model and estimates.

    ``running`` are the settings of trials that are running or wait for a worker, in the
    order in which they were planned.
    """

    space: CandidateSpace
    runs: Sequence[Run]
    running: Sequence[Point]
    memory: MemoryModel
    expected: Mapping[Point, Expected]

    @cached_property
    def has_estimate(self) -> bool:
        """Whether the tokens/s of every setting were estimated."""
        return all(one.tokens_per_second > 0 for one in self.expected.values())

    @property
    def has_run(self) -> bool:
        """Whether a trial succeeded."""
        return any(run.ok for run in self.runs)

    def chance(self, points: Sequence[Point]) -> Array:
        """Return the probability that points run: they fit, and nothing else fails."""
        space, runs = self.space, self.runs
        return self.memory.fit(points).probability * chance_to_run(space, points, runs)

    def features(self, points: Sequence[Point]) -> Features:
        """Return the inputs of the speed model for points."""
        expected = np.zeros(len(points))
        if self.has_estimate:
            expected = np.log([self.expected[p].tokens_per_second for p in points])
        share = self.memory.fit(points).share
        return features(self.space, points, share, expected)

    def untried(self) -> list[Point]:
        """Return the candidates that are worth a trial.

        Not those that were tried, unless their failure may pass. Not a batch as large
        as one that did not fit in the same cell. Not those that will fail for another
        reason.
        """
        space, runs = self.space, self.runs
        tried: dict[Point, list[Run]] = defaultdict(list)
        limits: dict[Point, float] = defaultdict(lambda: math.inf)
        for run in runs:
            tried[run.point].append(run)
            batch, cell = space.batch(run.point), space.cell(run.point)
            if batch and (run.outcome == "oom" or (run.ok and not run.fits)):
                limits[cell] = min(limits[cell], batch)

        def remains(point: Point) -> bool:
            own = tried[point]
            retry = len(own) == 1 and own[0].outcome == "passing"
            if (own and not retry) or point in self.running:
                return False
            return space.batch(point) < limits[space.cell(point)]

        points = list(filter(remains, space.candidates))
        chances = chance_to_run(space, points, runs)
        return [p for p, c in zip(points, chances, strict=True) if c >= FEASIBLE]


def chance_to_run(
    space: CandidateSpace, points: Sequence[Point], runs: Sequence[Run]
) -> Array:
    """Return the probability that each point runs if memory suffices.

    Failures and successes count by their distance in knobs other than the batch. Where
    a value is to blame, only its failures do. Failures that may pass do not count.
    """
    ran, failed = np.zeros(len(points)), np.zeros(len(points))
    width = len(space.cell(space.candidates[0]))
    cells = np.array(list(map(space.cell, points)), int).reshape(len(points), width)
    for run in runs:
        near = FARTHER ** (cells != np.array(space.cell(run.point), int)).sum(axis=1)
        if run.ok:
            ran += near
        elif run.outcome == "failed":
            failed += near
    for (place, value), count in _blame(space, runs).items():
        if count >= BLAMED:
            has_value = cells[:, place] == value
            ran[has_value], failed[has_value] = 0.0, count
    return np.asarray((ran + 2) / (ran + 2 + 3 * failed))


def _blame(space: CandidateSpace, runs: Sequence[Run]) -> Counter[tuple[int, int]]:
    """Count the failures that only one value of a cell explains, by place and value.

    That is the value that never ran, where all others of the cell did in some run.
    """
    ran = {each for run in runs if run.ok for each in enumerate(space.cell(run.point))}
    blame = Counter[tuple[int, int]]()
    for run in (run for run in runs if run.outcome == "failed"):
        suspects = {*enumerate(space.cell(run.point))} - ran
        if len(suspects) == 1:
            blame.update(suspects)
    return blame


class ProposingSampler(BaseSampler, abc.ABC):
    """A sampler that can propose the next setting, with a reason, without a trial.

    The same history gets the same proposal in every process.

    Args: grid: the values of each knob, or a list of the allowed settings. It includes
    the baseline. A fixed knob has one value. batch: the key of the micro-batch. ac: the
    key of activation checkpointing. compile: the key that says whether the model is
    compiled. expected: a function that estimates a setting's peak memory and tokens/s;
    ``None`` if it cannot. capacity_gib: memory of the GPU [GiB]; 0 to infer it from
    trials. counts: which trials count; by default all but those of stage "stability".
    """

    def __init__(
        self,
        grid: Grid,
        *,
        batch: str | None = None,
        ac: str | None = None,
        compile: str | None = None,  # noqa: A002
        expected: Callable[[dict[str, Any]], Expected | None] | None = None,
        capacity_gib: float = 0.0,
        counts: Callable[[FrozenTrial], bool] = is_timed,
    ) -> None:
        self._settings = settings(grid)
        self._named = NamedKeys(batch, ac, compile)
        space = CandidateSpace(self._settings, self._named)
        self._values = dict(zip(space.keys, space.values, strict=True))
        self._expected = expected
        self._expectations: dict[tuple[Any, ...], Expected] = {}
        self._capacity_gib = capacity_gib
        self._counts = counts
        self._chosen: dict[tuple[str, int], dict[str, Any]] = {}

    def restrict(self, grid: Grid) -> None:
        """Propose settings of this part of the grid alone; all trials still count."""
        self._settings = settings(grid)

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        """The knobs as Optuna's distributions, for ``study.ask``.

        A batch whose values are all whole numbers above 0 is an integer on a log scale,
        of which only the grid's values are ever proposed. Other knobs are categorical.
        """
        return {
            key: IntDistribution(min(values), max(values), log=True)
            if key == self._named.batch
            and all(isinstance(value, int) and is_count(value) for value in values)
            else CategoricalDistribution(values)
            for key, values in self._values.items()
        }

    def suggest(self, trial: Trial) -> dict[str, Any]:
        """Return the trial's setting; an objective calls this first."""
        return {
            key: trial.suggest_int(key, knob.low, knob.high, log=True)
            if isinstance(knob, IntDistribution)
            else trial.suggest_categorical(key, self._values[key])
            for key, knob in self.distributions.items()
        }

    def proposal(self, study: Study) -> Proposal | None:
        """Return what to try next; ``None`` if no candidate is worth its risk."""
        known = self._known(study)
        points = known.untried()
        if not points or known.has_run or known.running:
            return self._choose(known, points) if points else None
        best = points[int(np.argmax(known.chance(points)))]
        return Proposal(known.space.params(best), "nothing has run yet")

    @abc.abstractmethod
    def _choose(self, known: Known, points: Sequence[Point]) -> Proposal | None:
        """Choose among untried settings (at least one).

        A trial succeeded, or one is running.
        """

    def stop_when_done(self, study: Study, _trial: FrozenTrial) -> None:
        """Stop the study if no candidate is worth its risk (a callback for Optuna)."""
        if self.proposal(study) is None:
            study.stop()

    def _known(self, study: Study) -> Known:
        """Fit the memory model to a study's trials.

        Trials that lack a knob of the grid are ignored.
        """
        trials = list(filter(self._counts, study.get_trials(deepcopy=False)))
        tried = [trial.params for trial in trials]
        space = CandidateSpace(self._settings, self._named, tried)
        placed = [(t, p) for t in trials if (p := space.point(t.params)) is not None]
        runs = [run_of(t, p) for t, p in placed if t.state.is_finished()]
        running = [p for t, p in placed if t.state in UNFINISHED]
        points = dict.fromkeys([*space.candidates, *(p for _, p in placed)])
        expected = {point: self._expect(space.params(point)) for point in points}
        memory = MemoryModel(space, runs, self._capacity_gib, expected)
        return Known(space, runs, running, memory, expected)

    def _expect(self, params: dict[str, Any]) -> Expected:
        if self._expected is None:
            return Expected()
        key = tuple((type(value), value) for value in params.values())
        if key not in self._expectations:
            self._expectations[key] = self._expected(params) or Expected()
        return self._expectations[key]

    def infer_relative_search_space(
        self,
        study: Study,  # noqa: ARG002
        trial: FrozenTrial,  # noqa: ARG002
    ) -> dict[str, BaseDistribution]:
        """Return an empty space: a study may declare its knobs in any way.

        Every knob gets the proposal's value from ``sample_independent``, for any kind
        of distribution.
        """
        return {}

    def sample_relative(
        self,
        study: Study,  # noqa: ARG002
        trial: FrozenTrial,  # noqa: ARG002
        search_space: dict[str, BaseDistribution],  # noqa: ARG002
    ) -> dict[str, Any]:
        """Return no values: ``sample_independent`` returns every knob's value."""
        return {}

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,  # noqa: ARG002
    ) -> Any:
        """Return the proposal's value of a knob."""
        chosen = self._setting(study, trial)
        if param_name not in chosen:
            raise ValueError(
                f"`{param_name}` is not in the sampler's grid; a knob that is not "
                "searched has one value there"
            )
        return chosen[param_name]

    def _setting(self, study: Study, trial: FrozenTrial) -> dict[str, Any]:
        """Return a trial's setting, the same for all of its knobs.

        If no candidate is worth its risk, this is the best measured one again.
        """
        key = study.study_name, trial.number
        if key not in self._chosen:
            found = self.proposal(study)
            self._chosen[key] = found.params if found else self._best_again(study)
        return self._chosen[key]

    def _best_again(self, study: Study) -> dict[str, Any]:
        known = self._known(study)
        speeds = {run.point: run.tokens_per_second for run in known.runs if run.ok}
        best = max(known.space.candidates, key=lambda point: speeds.get(point, 0.0))
        return known.space.params(best)
