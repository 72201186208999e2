"""Trials that the end of the budget cut off: they tell nothing of their setting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fp8tune.trials.record import Record
from fp8tune.trials.trial import Trial

TRIES = 4
"""Trials in a row that may fail before they build a model, until none is taken to
start."""
ENDING = ("confirm", "stability")
"""Stages after which the search proposes nothing new."""
LATE = ("hang", "compile", "launch")
"""How a trial ends that was not done by its deadline."""


def is_cut_off(record: Record, left: float) -> bool:
    """Whether a trial took all ``left`` seconds of the budget and did not end."""
    return record.outcome in LATE and record.cost_s >= left


def least(trials: Iterable[Trial]) -> float:
    """Seconds in which no trial gets as far as its model, by those before; 0 at first.

    The shortest import, or what the longest of those took that did not end theirs.
    """
    known = list(trials)
    took = [t.record.import_s for t in known if t.record.import_s]
    lost = [t.record.cost_s for t in known if t.cut_off and t.record.never_began]
    return min(took) if took else max(lost, default=0.0)


def never_begins(trials: Sequence[Trial]) -> bool:
    """Whether no trial is taken to start, by the last ones: a GPU may break."""
    last = [trial.record.never_began for trial in trials[-TRIES:]]
    return len(last) == TRIES and all(last)


def was_given_up(trial: Trial) -> bool:
    """Whether a larger budget tries the setting of a trial once more."""
    return trial.stage == "search" and trial.is_of_budget


def was_cut_short(trial: Trial, budget: float) -> bool:
    """Whether a trial was given up for a smaller budget than there is now [s]."""
    given_up = trial.stage not in ENDING or trial.cut_off
    return given_up and trial.budget_s < budget


def has_ended(trials: Iterable[Trial], budget: float) -> bool:
    """Whether a search with that budget [s] or more has come to its confirmation."""
    return any(t.stage in ENDING and t.budget_s >= budget for t in trials)
