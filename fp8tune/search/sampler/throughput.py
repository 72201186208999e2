"""A sampler for training throughput: tries what promises most among what may fit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from optuna import Study

from fp8tune.search.sampler.acquisition import (
    BELIEVED,
    Known,
    Outlook,
    outlook,
)
from fp8tune.search.sampler.base import Proposal, ProposingSampler
from fp8tune.search.sampler.candidates import Point

ENOUGH, ENOUGH_EARLIER = 0.0005, 0.003
"""Expected gain of the most promising setting below which a search ends; the latter
where a similar study is believed, which has looked for the rest."""
WORTH_A_RISK = 0.01
"""Expected gain for which one trial may run out of memory."""
FEW, LAST_FEW = 3, 8
"""Settings left that are all tried, since a model of the few that ran may be wrong
about them; and before the baseline is called the best, which costs no more than a
confirmation does. Of 100 simulated searches whose one of twelve settings gains 2 %, the
first found it in 71 and both in 95 (benchmarks/results/verdicts_aa.md)."""
MOST_VALUES = 8
"""Values of a knob up to which every one is tried once."""
PROPOSED = "proposed by the sampler"
"""Why most settings are tried. Their expected improvement is not shown: it counts only
the chance to beat the best so far, so that it would read as a prediction and is none.
"""


class ThroughputSampler(ProposingSampler):
    """Proposes settings by a memory model, a speed model and expected improvement.

    Each trial goes where the expected improvement times the chance to run is largest,
    among the settings whose chance to fit is at least ``FEASIBLE``. A study ends when
    none is expected to gain 0.05 %, every value of a knob was tried once, and no small
    number of settings is left.
    """

    def last_few(self, study: Study) -> Proposal | None:
        """Return the best setting left where few are, and it is feasible.

        A loop tries these before it calls the baseline the best.
        """
        known, ahead = self._look_ahead(study)
        return None if ahead is None else _one_of_few(known, ahead, LAST_FEW)

    def infeasible_gain(self, study: Study) -> float:
        """Return the expected gain of the best setting that probably does not fit."""
        _, ahead = self._look_ahead(study)
        if ahead is None or ahead.feasible.all():
            return 0.0
        return float(ahead.gain[~ahead.feasible].max())

    def _look_ahead(self, study: Study) -> tuple[Known, Outlook | None]:
        known = self._known(study)
        points = known.untried()
        return known, outlook(known, points) if points and known.has_run else None

    def _choose(self, known: Known, points: Sequence[Point]) -> Proposal | None:
        ahead = outlook(known, points)
        return (
            _most_promising(known, ahead)
            or _value_not_tried(known, ahead)
            or _one_of_few(known, ahead, FEW)
            or _worth_a_risk(known, ahead)
        )


def _most_promising(known: Known, ahead: Outlook) -> Proposal | None:
    """The feasible setting with the largest expected gain, if that is enough."""
    best = ahead.best(ahead.feasible)
    gain, chance = float(ahead.gain[best]), float(ahead.fits[best])
    enough = ENOUGH_EARLIER if _has_guide(ahead) else ENOUGH
    if not ahead.feasible.any() or gain < enough:
        return None
    fits = f", fits with a chance of {100 * chance:.0f} %" * (chance < 0.9)
    params = known.past.space.params(ahead.candidates[best])
    return Proposal(params, f"{PROPOSED}{fits}")


def _worth_a_risk(known: Known, ahead: Outlook) -> Proposal | None:
    """The setting that gains most though it probably does not fit, before one did not.

    The memory model may be wrong until a trial has run out of memory.
    """
    best = ahead.best(~ahead.feasible)
    gain = float(ahead.gain[best])
    failed = any(run.outcome == "oom" for run in known.past.runs)
    if failed or ahead.feasible.all() or gain < WORTH_A_RISK:
        return None
    params = known.past.space.params(ahead.candidates[best])
    return Proposal(params, f"{PROPOSED}, may not fit")


def _has_guide(ahead: Outlook) -> bool:
    """Whether a similar study is believed."""
    return ahead.agreement > BELIEVED


def _value_not_tried(known: Known, ahead: Outlook) -> Proposal | None:
    """The best feasible setting with a value that no trial has had yet."""
    space = known.past.space
    tried = known.past.tried + (known.earlier.points if _has_guide(ahead) else [])
    for place, key in enumerate(space.keys):
        if key == space.roles.batch or len(space.values[place]) > MOST_VALUES:
            continue
        seen = {point[place] for point in tried}
        new = np.array([point[place] not in seen for point in ahead.candidates])
        if (new & ahead.feasible).any():
            best = ahead.best(new & ahead.feasible)
            params = space.params(ahead.candidates[best])
            return Proposal(params, f"{key} = {str(params[key]).lower()} was not tried")
    return None


def _one_of_few(known: Known, ahead: Outlook, few: int) -> Proposal | None:
    """The best of the settings left, where these are few and it is feasible."""
    left = len(ahead.candidates)
    if _has_guide(ahead) or left > few or not ahead.feasible.any():
        return None
    best = ahead.candidates[ahead.best(ahead.feasible)]
    return Proposal(known.past.space.params(best), "few are left")
