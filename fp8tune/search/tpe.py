"""Optuna behind the search: one place that knows its names and versions.

The study in memory is made anew from the history for each proposal and its sampler
seeded by the number of trials, so that a proposal depends on the history alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import optuna

from fp8tune.search.space import Point, Space
from fp8tune.search.study import Trial

STARTUP = 6
"""Trials before the sampler models anything, where the prior has not given more."""


def suggest(
    space: Space, given: Point, trials: Sequence[Trial], candidates: Sequence[Point]
) -> Point:
    """The point of ``candidates`` that TPE would try next."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    free = [knob for knob in space.knobs if not knob.frozen]
    distributions: dict[str, Any] = {
        knob.key: optuna.distributions.CategoricalDistribution(range(len(knob.values)))
        for knob in free
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            seed=len(trials), n_startup_trials=STARTUP, multivariate=True
        )
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for trial in trials:
        point = space.point(trial.record.knobs)
        if not space.allows(point, given):
            continue
        values = dict(point)
        study.add_trial(
            optuna.trial.create_trial(
                params={k.key: k.values.index(values[k.key]) for k in free},
                distributions=distributions,
                value=trial.record.tokens_per_second,
            )
        )
    open_points = set(candidates)
    for _ in range(64):
        asked = study.ask(distributions)
        chosen = {k.key: k.values[asked.params[k.key]] for k in free}
        point = space.point({**dict(given), **chosen})
        if point in open_points:
            return point
        study.tell(asked, state=optuna.trial.TrialState.PRUNED)
    return candidates[0]
