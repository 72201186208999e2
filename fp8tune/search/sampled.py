"""A search's strategy by one of the samplers in ``fp8tune.search.sampler``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from optuna.trial import FrozenTrial

from fp8tune.search.prior import Prior, completed
from fp8tune.search.sampler import (
    EarlierTrial,
    Expected,
    FeasibleSampler,
    ThroughputSampler,
    library_sampler,
)
from fp8tune.search.sampler import Proposal as Proposed
from fp8tune.search.strategy import Proposal
from fp8tune.search.study import Study
from fp8tune.trials.space import Point, Space, is_count
from fp8tune.trials.trial import Trial

SAMPLERS = ("auto", "tpe", "gp", "random")
"""``auto`` is ours, the others are Optuna's; all have the same filter for what cannot
fit, and the same warm starts."""
LITTLE = 0.01
"""Expected gain of what may not fit, from which the answer mentions it."""


class Sampled:
    """Asks a sampler, which reads the study's Optuna trials, for the next setting.

    Raises ``ImportError`` where a library sampler lacks a package.
    """

    def __init__(
        self,
        study: Study,
        given: Point,
        prior: Prior,
        card_gib: float = 0.0,
        earlier: Sequence[EarlierTrial] = (),
        name: str = "auto",
    ) -> None:
        self.earlier = earlier
        self._study = study
        self._counted: frozenset[int] = frozenset()
        space = study.space
        options: dict[str, Any] = {
            **_roles(space),
            "expected": _expectation(space, given, prior),
            "capacity_gib": card_gib,
            "earlier": earlier,
            "counts": self._counts,
        }
        grid = [space.params(point) for point in space.points(given)]
        self._sampler: ThroughputSampler | FeasibleSampler | None = None
        if grid and name == "auto":
            self._sampler = ThroughputSampler(grid, **options)
        elif grid:
            self._sampler = FeasibleSampler(library_sampler(name), grid, **options)

    def propose(self, trials: Sequence[Trial]) -> Proposal | None:
        """The next trial; ``None`` where none is worth its risk."""
        if self._sampler is None:
            return None
        self._count(trials)
        return self._proposal(self._sampler.proposal(self._study.optuna))

    def left(self, trials: Sequence[Trial]) -> Proposal | None:
        """One of few settings left, to be tried before the baseline is called best."""
        self._count(trials)
        if not isinstance(self._sampler, ThroughputSampler):
            return None
        return self._proposal(self._sampler.last_few(self._study.optuna))

    def leaves(self, trials: Sequence[Trial]) -> bool:
        """Whether what is not worth its risk promises something."""
        self._count(trials)
        if not isinstance(self._sampler, ThroughputSampler):
            return False
        return self._sampler.infeasible_gain(self._study.optuna) >= LITTLE

    def _count(self, trials: Sequence[Trial]) -> None:
        """Let the sampler see these trials alone."""
        numbers = self._study.optuna_numbers
        self._counted = frozenset(numbers[trial.number] for trial in trials)

    def _counts(self, trial: FrozenTrial) -> bool:
        return trial.number in self._counted

    def _proposal(self, found: Proposed | None) -> Proposal | None:
        if found is None:
            return None
        values = {key: v for key, v in found.params.items() if v is not None}
        point = self._study.space.point(values)
        return Proposal(point, "search", found.reason)


def _roles(space: Space) -> dict[str, str | None]:
    knobs = {name: space.knob(name) for name in ("micro_batch", "ac", "compile")}
    roles = {name: knob.key if knob else None for name, knob in knobs.items()}
    counts = knobs["micro_batch"] and all(map(is_count, knobs["micro_batch"].values))
    return {
        "batch": roles["micro_batch"] if counts else None,
        "ac": roles["ac"],
        "compile": roles["compile"],
    }


def _expectation(
    space: Space, given: Point, prior: Prior
) -> Callable[[dict[str, Any]], Expected]:
    """The estimate of every setting that may be tried, asked for once."""
    points = dict.fromkeys([*space.points(given), given, space.twin(given) or given])
    known = completed(space, {point: prior(point) for point in points})

    def expected(params: dict[str, Any]) -> Expected:
        values = {key: value for key, value in params.items() if value is not None}
        point = space.point(values)
        return known[point] if point in known else prior(point)

    return expected
