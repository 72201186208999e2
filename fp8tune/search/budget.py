"""A search's time: how long trials take and may take, and what was cut off."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fp8tune.search.duration import MAX_S, whole_budget
from fp8tune.search.history import History
from fp8tune.trials.record import Record
from fp8tune.trials.space import Point
from fp8tune.trials.trial import Trial

LONGEST_S, PART = 900.0, 1 / 8
"""The first trial gets so many seconds, or that part of the time left; twice as long
after each trial that ran into it."""
SHORT_S = 300.0
"""The first trial gets at least this [s], whatever the budget."""
SLACK = 3.0
"""A trial gets so many times what the longest one like it took."""
LEAST_S = 60.0
"""Every trial gets at least this [s]."""
WRITE_S = 2.0
"""The part of a budget that is kept for the answer [s]."""
TRIES = 4
"""After so many trials in a row that built no model, none is expected to start."""
FINAL_STAGES = ("confirm", "stability")
"""Stages after which the search proposes nothing new."""


def trial_deadline(history: History, point: Point, left: float) -> float:
    """Return how long a trial of a setting may take, at most the ``left`` seconds.

    Trials are alike if both are compiled or neither is. Until one like it has run, a
    trial gets a third of the time left. Until any has run at all, it may go on for as
    long as it makes steps: see ``deadline_while_stepping``.
    """
    trials = history.timed
    like = _costs(history, point)
    every = [trial.record.cost_s for trial in trials if trial.record.ok]
    if like:
        allowed = max(LEAST_S, SLACK * max(like))
    elif every:
        allowed = max(left / 3, SLACK * max(every))
        allowed = min(allowed, max(LONGEST_S / 2, 2 * SLACK * max(every)))
    else:
        hung = sum(trial.record.outcome == "hang" for trial in trials)
        patience = max(LONGEST_S, PART * left) * 2**hung
        allowed = min(max(left / 3, SHORT_S), patience)
    return min(left, allowed)


def budget_for_longer_trial(history: History, point: Point) -> float:
    """Return a budget [s] that gives a first trial twice as long as any trial had.

    No trial has ended, so nothing tells how long one takes. 0 if no budget is enough.
    """
    fresh = History(history.space, history.baseline, ())
    longest = max(trial.record.cost_s for trial in history.trials)
    budgets = [t.budget_s for t in history.trials if t.is_of_budget]
    budget = whole_budget(max(budgets, default=0.0) + 1)
    while trial_deadline(fresh, point, budget - WRITE_S) < 2 * longest:
        budget = whole_budget(budget + 1)
    return budget if budget <= MAX_S else 0.0


def deadline_while_stepping(history: History, left: float) -> float:
    """Return how long a trial may take while it makes steps; 0 for no longer [s].

    A large model that steps slowly does not hang.
    """
    return 0.0 if any(trial.record.ok for trial in history.timed) else left


def missed_deadline(record: Record, limit: float) -> bool:
    """Whether a trial was given up at its deadline [s]."""
    return not record.ok and record.cost_s >= limit


def typical_cost(history: History, point: Point) -> float:
    """Return what a trial of a setting is likely to take [s]; 0 if unknown."""
    own = [t.record.cost_s for t in history.runs(point) if t.record.ok]
    every = [t.record.cost_s for t in history.timed if t.record.ok]
    return max(own or _costs(history, point) or every or [0.0])


def _costs(history: History, point: Point) -> list[float]:
    """Return what the trials like one of a setting took [s]."""
    place = history.space.place("compile")
    return [
        trial.record.cost_s
        for trial in history.timed
        if trial.record.ok
        and (place is None or history.point_of(trial)[place] == point[place])
    ]


def counted_matmuls(history: History, point: Point) -> int:
    """Return the FP8 matmuls that a setting's last trial counted; 0 if none did."""
    own = (t.record for t in reversed(history.runs(point)) if t.record.ok)
    return next(filter(None, (record.float8_matmuls for record in own)), 0)


def is_cut_off(record: Record, left: float) -> bool:
    """Whether a trial took all ``left`` seconds of the budget and did not end."""
    return record.meaning.late and record.cost_s >= left


def time_to_model(trials: Iterable[Trial]) -> float:
    """Return the seconds in which no trial gets as far as its model; 0 if unknown.

    The shortest import, or the longest of those that did not end.
    """
    known = list(trials)
    imports = [t.record.import_s for t in known if t.record.import_s]
    lost = [t.record.cost_s for t in known if t.cut_off and t.record.never_began]
    return min(imports) if imports else max(lost, default=0.0)


def never_begins(trials: Sequence[Trial]) -> bool:
    """Whether the last trials show that none starts any more: a GPU may break."""
    last = [trial.record.never_began for trial in trials[-TRIES:]]
    return len(last) == TRIES and all(last)


def was_given_up(trial: Trial) -> bool:
    """Whether a search with a larger budget tries a trial's setting again."""
    return trial.stage == "search" and trial.is_of_budget


def was_cut_short(trial: Trial, budget: float) -> bool:
    """Whether a trial was given up for a smaller budget than there is now [s]."""
    given_up = trial.stage not in FINAL_STAGES or trial.cut_off
    return given_up and trial.budget_s < budget


def has_ended(trials: Iterable[Trial], budget: float) -> bool:
    """Whether a search with that budget [s] or more has come to its confirmation."""
    return any(t.stage in FINAL_STAGES and t.budget_s >= budget for t in trials)
