"""Spaces, records and trials as many tests of the search use them."""

import itertools

from fp8tune.search.history import History
from fp8tune.trials.order import Order, PlannedTrial
from fp8tune.trials.record import Record, from_data
from fp8tune.trials.runner import TrialLimits
from fp8tune.trials.space import Knob, Space
from fp8tune.trials.trial import Trial, trial_from_data

BATCH, AC, COMPILE, PRECISION = (
    "train.batch_size",
    "train.activation_checkpointing",
    "train.compile_model",
    "train.mixed_precision",
)
KNOBS = (
    Knob(BATCH, (1, 2, 4, 8), "micro_batch"),
    Knob(AC, ("none", "full"), "ac"),
    Knob(COMPILE, (False, True), "compile"),
    Knob(PRECISION, ("bf16", "fp8"), "precision", frozen=True),
)
SPACE = Space(KNOBS)
CONFIG = """\
[train]
batch_size = 2
mixed_precision = "fp8"
activation_checkpointing = "full"
compile_model = true
grad_accum_steps = 8
"""
"""The config whose knobs these are, at ``GIVEN``."""
GIVEN = (1, 1, 1, 1)
"""Batch 2, full AC, compiled, FP8."""
BF16 = (1, 1, 1, 0)
BEST = (2, 1, 1, 1)
BEST_BF16 = (2, 1, 1, 0)
OTHER = (1, 0, 1, 1)


def ran(point, speed=100.0, outcome="ok", space=SPACE, more=None, **fields) -> Record:
    """A record of a point; ``speed`` counts where it ran, ``more`` is of its JSON."""
    fields = {"cost_s": 60.0, **fields, **(more or {})}
    if outcome == "ok":
        fields = {"tokens_per_second": float(speed), **fields}
    return from_data({"knobs": space.values(point), "outcome": outcome, **fields})


def but(record, **more) -> Record:
    """A record with further fields as JSON has them."""
    return from_data({**record.data(), **more})


def confirmed(*records):
    """Confirmations of a search that ended by itself, for ``trials``."""
    return [("confirm", but(record, searched_all=True)) for record in records]


def trials(*pairs, space=SPACE) -> list[Trial]:
    """Trials of ``(stage, record)``; fields of the trial may be among the record's."""
    return [
        trial_from_data(i, {**record.data(), "stage": stage})
        for i, (stage, record) in enumerate(pairs)
    ]


def without_numbers(known):
    """Trials without Optuna's numbers, which count lost trials as well."""
    return [trial._replace(number=0) for trial in known]


def planned(point, stage="search", **fields) -> PlannedTrial:
    """A trial that a search has planned."""
    return PlannedTrial(point, stage, "in order", **fields)


def order(point, left_s=3600.0, **fields) -> Order:
    """An order of a trial, with time for it."""
    trial, limits = planned(point, **fields), TrialLimits(600.0)
    return Order(trial, SPACE.values(point), limits, left_s, 7200.0)


class InOrder:
    """Proposes points one after the other; some are expected to gain little."""

    def __init__(self, *points, little=()):
        self.points, self.little = points, little

    def propose(self, trials, _rejects):
        done = sum(trial.stage == "search" for trial in trials)
        if done == len(self.points):
            return None
        gain = 0.001 if self.points[done] in self.little else 1.0
        return PlannedTrial(self.points[done], "search", "in order", gain=gain)

    def propose_untested(self, _trials):
        return None

    def has_risky_gain(self, _trials):
        return False


def space_of(records) -> Space:
    """The settings that were recorded."""
    space = Space(KNOBS)
    return Space(KNOBS, [space.point(record.knobs) for record in records])


def history_of(trials_so_far):
    """The history of a search from ``GIVEN``."""
    return History(SPACE, GIVEN, trials_so_far)


def history(*stages):
    """The history of trials as ``trials`` makes them."""
    return history_of(trials(*stages))


def every(space):
    """Every setting of a space that can be tried."""
    ranges = (range(len(knob.values)) for knob in space.knobs)
    return sorted(space.only) or list(itertools.product(*ranges))


def without_trial_numbers(answer):
    """An answer without the numbers of its trials, which lost trials change."""
    every = answer.settings.items()
    return answer._replace(settings={p: s._replace(trials=()) for p, s in every})
