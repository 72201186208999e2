"""How long a trial may take, and which trials the end of the budget cut off."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fp8tune.trials.record import Record
from fp8tune.trials.space import Point, Space
from fp8tune.trials.trial import Trial

LONGEST, PART = 900.0, 1 / 8
"""A trial of which nothing is known [s], or that part of what is left; twice as long
after each that ran into it."""
SHORT = 300.0
"""What even the first trial of a small budget may take [s]."""
SLACK = 3.0
"""How much longer than the longest like it a trial may take."""
LEAST = 60.0
TRIES = 4
"""Trials in a row that may fail before they build a model, until none is taken to
start."""
ENDING = ("confirm", "stability")
"""Stages after which the search proposes nothing new."""
LATE = ("hang", "compile", "launch")
"""How a trial ends that was not done by its deadline."""


def deadline(space: Space, trials: Sequence[Trial], point: Point, left: float) -> float:
    """Seconds until a trial is given up, of ``left`` that it may have at most.

    Trials are alike that are both compiled, or both not; while none like it has run,
    it may take a third of the time that is left. While none has run at all, it may go
    on as long as it makes steps: see ``extended``.
    """
    like = _costs(space, trials, point)
    every = [trial.record.cost_s for trial in trials if trial.record.ok]
    if like:
        allowed = max(LEAST, SLACK * max(like))
    elif every:
        allowed = max(left / 3, SLACK * max(every))
        allowed = min(allowed, max(LONGEST / 2, 2 * SLACK * max(every)))
    else:
        hung = sum(trial.record.outcome == "hang" for trial in trials)
        patience = max(LONGEST, PART * left) * 2**hung
        allowed = min(max(left / 3, SHORT), patience)
    return min(left, allowed)


def extended(trials: Sequence[Trial], left: float) -> float:
    """Seconds that a trial may take while it makes steps, if more than its deadline.

    A large model that steps slowly does not hang.
    """
    return 0.0 if any(trial.record.ok for trial in trials) else left


def is_late(record: Record, limit: float) -> bool:
    """Whether a trial was given up at its deadline."""
    return not record.ok and (record.outcome == "hang" or record.cost_s >= limit)


def typical(space: Space, trials: Sequence[Trial], point: Point) -> float:
    """What a trial of a point is likely to cost [s]; 0 where nothing is known."""
    own = [
        trial.record.cost_s
        for trial in trials
        if trial.record.ok and space.point(trial.record.knobs) == point
    ]
    every = [trial.record.cost_s for trial in trials if trial.record.ok]
    return max(own or _costs(space, trials, point) or every or [0.0])


def _costs(space: Space, trials: Sequence[Trial], point: Point) -> list[float]:
    place = space.place("compile")
    return [
        trial.record.cost_s
        for trial in trials
        if trial.record.ok
        and (place is None or space.point(trial.record.knobs)[place] == point[place])
    ]


def counted_matmuls(space: Space, trials: Sequence[Trial], point: Point) -> int:
    """FP8 matmuls that the last trial of a setting counted; 0 where none did."""
    own = (t.record for t in reversed(trials) if t.record.ok)
    counts = (
        record.float8_matmuls for record in own if space.point(record.knobs) == point
    )
    return next(filter(None, counts), 0)


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
