"""Trials that the end of the budget cut off: they tell nothing of their setting."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from fp8tune.search.record import Record
from fp8tune.search.study import Trial

CUT_OFF = "cut_off"
"""The field of a record that says so."""
IMPORT = "import_s"
"""The field that says how long the trial's process imported torch [s]."""
BEFORE = ("start", "import", "gpu")
"""Stages of a trial before it builds its model: nothing in them is of its setting."""
TRIES = 4
"""Trials in a row that may fail in these stages, until none is taken to start."""
ENDING = ("confirm", "stability")
"""Stages after which the search proposes nothing new."""
LATE = ("hang", "compile", "launch")
"""How a trial ends that was not done by its deadline."""


def is_cut_off(record: Record) -> bool:
    """Whether the end of the budget ended a trial."""
    return record.more.get(CUT_OFF) is True


def marked(record: Record, left: float) -> Record:
    """A record that says whether its trial took all of the ``left`` seconds in vain."""
    if record.outcome not in LATE or record.cost_s < left:
        return record
    return record._replace(more={**record.more, CUT_OFF: True})


def least(records: Iterable[Record]) -> float:
    """Seconds in which no trial gets as far as its model, by those before; 0 at first.

    The shortest import, or what the longest of those took that did not end theirs.
    """
    known = list(records)
    told = [record.more.get(IMPORT) for record in known]
    took = [s for s in told if isinstance(s, (int, float)) and s > 0]
    vain = [r.cost_s for r in known if is_cut_off(r) and never_began(r)]
    return min(took) if took else max(vain, default=0.0)


def never_begins(trials: Sequence[Trial]) -> bool:
    """Whether no trial is taken to start, by the last ones: a GPU may break."""
    last = [never_began(trial.record) for trial in trials[-TRIES:]]
    return len(last) == TRIES and all(last)


def never_began(record: Record) -> bool:
    """Whether a trial failed before its setting could matter."""
    return record.more.get("stage_reached") in BEFORE


def was_given_up(trial: Trial) -> bool:
    """Whether a larger budget tries the setting of a trial once more."""
    return trial.stage == "search" and "budget_s" in trial.record.more


def was_cut_short(trial: Trial, budget: float) -> bool:
    """Whether a trial was given up for a smaller budget than there is now [s]."""
    given_up = trial.stage not in ENDING or is_cut_off(trial.record)
    return given_up and _budget(trial) < budget


def has_ended(trials: Iterable[Trial], budget: float) -> bool:
    """Whether a search with that budget [s] or more has come to its confirmation."""
    return any(t.stage in ENDING and _budget(t) >= budget for t in trials)


def _budget(trial: Trial) -> float:
    """The budget that ended a trial or the search before it [s]; else infinite."""
    budget = trial.record.more.get("budget_s")
    return budget if isinstance(budget, (int, float)) else math.inf
