"""A search's strategy by one of the samplers in ``fp8tune.search.sampler``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from optuna.trial import FrozenTrial

from fp8tune.search.earlier import NOTHING, Earlier
from fp8tune.search.prior import Prior
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
        earlier: Earlier = NOTHING,
        name: str = "auto",
    ) -> None:
        self.earlier = earlier
        self._study = study
        self._counted: frozenset[int] = frozenset()
        space = study.space
        options: dict[str, Any] = {
            **_roles(space),
            "expected": _expectation(space, prior),
            "capacity_gib": card_gib,
            "earlier": _earlier_trials(space, earlier),
            "counts": self._counts,
        }
        grid = [_params(space, point) for point in space.points(given)]
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


def _params(space: Space, point: Point) -> dict[str, Any]:
    """The values of a point as Optuna has them, also of keys that are not set."""
    pairs = zip(space.knobs, point, strict=True)
    return {knob.key: knob.values[place] for knob, place in pairs}


def _roles(space: Space) -> dict[str, str | None]:
    knobs = {name: space.knob(name) for name in ("micro_batch", "ac", "compile")}
    roles = {name: knob.key if knob else None for name, knob in knobs.items()}
    counts = knobs["micro_batch"] and all(map(is_count, knobs["micro_batch"].values))
    return {
        "batch": roles["micro_batch"] if counts else None,
        "ac": roles["ac"],
        "compile": roles["compile"],
    }


def _expectation(space: Space, prior: Prior) -> Any:
    def expected(params: dict[str, Any]) -> Expected:
        values = {key: value for key, value in params.items() if value is not None}
        found = prior(space.point(values))
        return Expected(found.peak_gib, found.tokens_per_second, found.error)

    return expected


def _earlier_trials(space: Space, earlier: Earlier) -> list[EarlierTrial]:
    batch = space.knob("micro_batch")
    return [
        EarlierTrial(
            params=_params(space, past.point)
            | ({batch.key: past.batch} if batch and past.batch else {}),
            outcome=past.record.outcome,
            tokens_per_second=past.record.tokens_per_second,
            memory_share=past.used,
            expected_tokens_per_second=past.expected,
        )
        for past in earlier.past
    ]
