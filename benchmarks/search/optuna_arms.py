"""Arms that are Optuna's: TPE by ask and tell, at its defaults."""

from __future__ import annotations

import warnings
from typing import Any

import optuna

from benchmarks.search.arms import Ask
from benchmarks.search.landscape import World
from fp8tune.trials.space import Point


def tpe(world: World, ask: Ask) -> None:
    """Out of memory is told as a broken constraint."""
    _tpe(world, ask, fail=False)


def tpe_fail(world: World, ask: Ask) -> None:
    """Out of memory is told as a failed trial, as a plain script does."""
    _tpe(world, ask, fail=True)


def _tpe(world: World, ask: Ask, *, fail: bool) -> None:
    study = _study(world)
    while True:
        trial, point = _asked(world, study)
        record = ask(point)
        if record.ok:
            study.tell(trial, record.tokens_per_second)
        elif fail:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            trial.set_constraint("works", 1.0)
            study.tell(trial, 0.0)


def _study(world: World) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler = optuna.samplers.TPESampler(seed=world.seed)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    given = zip(world.space.knobs, world.given, strict=True)
    study.enqueue_trial({k.key: index for k, index in given if not k.frozen})
    return study


def _asked(world: World, study: optuna.Study) -> tuple[optuna.Trial, Point]:
    trial = study.ask(_distributions(world))
    pairs = zip(world.space.knobs, world.given, strict=True)
    return trial, tuple(trial.params.get(knob.key, index) for knob, index in pairs)


def _distributions(world: World) -> dict[str, Any]:
    """The batch is a number, by its place among the batches; the rest are choices."""
    found: dict[str, Any] = {}
    for knob in world.space.knobs:
        indices = range(len(knob.values))
        if knob.role == "micro_batch":
            most = len(knob.values) - 1
            found[knob.key] = optuna.distributions.IntDistribution(0, most)
        elif not knob.frozen:
            found[knob.key] = optuna.distributions.CategoricalDistribution(indices)
    return found
