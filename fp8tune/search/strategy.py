"""Choose the next setting to try, with one of the samplers in ``search.sampler``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from optuna.trial import FrozenTrial

from fp8tune.facts.runs import Run
from fp8tune.search import CannotSearch
from fp8tune.search.plan import Plan
from fp8tune.search.prior import Prior, card_gib, prior_of_job, with_speeds
from fp8tune.search.sampler import (
    Expected,
    FeasibleSampler,
    Proposal,
    ThroughputSampler,
    library_sampler,
)
from fp8tune.search.sampler.past import is_timed
from fp8tune.search.study import Study
from fp8tune.trials.order import PlannedTrial
from fp8tune.trials.record import positive
from fp8tune.trials.space import Point, Space
from fp8tune.trials.trial import Trial

LITTLE = 0.01
"""Expected gain of what may not fit, from which the answer mentions it."""


class Strategy:
    """Asks a sampler for the next setting; the sampler reads the study's Optuna trials.

    The same trials always get the same proposal, so that a search that was killed
    continues as if it had not been. ``sampler`` is ``auto`` for fp8tune's own, else one
    of Optuna's: ``tpe``, ``gp``, ``random``. All of them propose only settings that
    probably fit, after the same warm starts. Raises ``ImportError`` if one of Optuna's
    lacks a package.
    """

    def __init__(
        self,
        study: Study,
        baseline: Point,
        prior: Prior | None = None,
        card_gib: float = 0.0,
        sampler: str = "auto",
    ) -> None:
        self._study = study
        self._counted: frozenset[int] = frozenset()
        space = study.space
        options: dict[str, Any] = {
            **_known_keys(space),
            "expected": prior and _expectation(space, baseline, prior),
            "capacity_gib": card_gib,
            "counts": self._counts,
        }
        self._points = list(space.points(baseline))
        grid = [space.params(point) for point in self._points]
        self._sampler: ThroughputSampler | FeasibleSampler | None = None
        if grid and sampler == "auto":
            self._sampler = ThroughputSampler(grid, **options)
        elif grid:
            self._sampler = FeasibleSampler(library_sampler(sampler), grid, **options)

    def propose(
        self,
        trials: Sequence[Trial],
        rejects: Callable[[Point], bool] = lambda _point: False,
    ) -> PlannedTrial | None:
        """Return the next trial; ``None`` if none is worth its risk.

        ``rejects`` tells which settings must not be chosen for what FP8 learns there.
        """
        space = self._study.space
        left = [space.params(p) for p in self._points if not rejects(p)]
        if self._sampler is None or not left:
            return None
        self._sampler.restrict(left)
        self._count(trials)
        return self._planned(self._sampler.proposal(self._study.optuna))

    def propose_untested(self, trials: Sequence[Trial]) -> PlannedTrial | None:
        """Return one of the few settings left to try before the baseline wins."""
        self._count(trials)
        if not isinstance(self._sampler, ThroughputSampler):
            return None
        return self._planned(self._sampler.last_few(self._study.optuna))

    def has_risky_gain(self, trials: Sequence[Trial]) -> bool:
        """Return whether a setting that may not fit has a large expected gain."""
        self._count(trials)
        if not isinstance(self._sampler, ThroughputSampler):
            return False
        return self._sampler.infeasible_gain(self._study.optuna) >= LITTLE

    def _count(self, trials: Sequence[Trial]) -> None:
        """Let the sampler see only these trials, and those that are not finished."""
        self._counted = frozenset(trial.number for trial in trials)

    def _counts(self, trial: FrozenTrial) -> bool:
        if trial.state.is_finished():
            return trial.number in self._counted
        return is_timed(trial)

    def _planned(self, proposal: Proposal | None) -> PlannedTrial | None:
        if proposal is None:
            return None
        values = {key: v for key, v in proposal.params.items() if v is not None}
        point, gain = self._study.space.point(values), proposal.gain
        return PlannedTrial(point, "search", proposal.reason, gain=gain)


def build_strategy(
    plan: Plan, study: Study, runs: Sequence[Run], sampler: str
) -> Strategy:
    """Return the strategy of a search; ``runs`` correct its estimate.

    Raises ``CannotSearch`` if one of Optuna's samplers lacks a package.
    """
    job = plan.config.job
    prior = prior_of_job(plan.space, job, runs)
    try:
        return Strategy(study, plan.baseline, prior, card_gib(job), sampler)
    except ImportError as error:
        raise CannotSearch(f"--sampler {sampler}: {error}") from None


def _known_keys(space: Space) -> dict[str, str | None]:
    """Return the sampler's keys for batch, AC and compile."""
    batch = space.batch_knob
    counts = batch is not None and all(map(positive, batch.values))
    knobs = {name: space.knob(name) for name in ("ac", "compile")}
    knobs |= {"batch": batch if counts else None}
    return {name: knob.key if knob else None for name, knob in knobs.items()}


def _expectation(
    space: Space, baseline: Point, prior: Prior
) -> Callable[[dict[str, Any]], Expected]:
    """Return a function from params to the estimate; each setting is estimated once."""
    known = with_speeds(space, prior, [*space.points(baseline), baseline])

    def expected(params: dict[str, Any]) -> Expected:
        values = {key: value for key, value in params.items() if value is not None}
        point = space.point(values)
        return known[point] if point in known else prior(point)

    return expected
