"""Which trials count after a failure.

A user repairs the machine and gives the same command again. A trial that failed for a
reason other than memory or NaN counts only in the process that ran it. A process in
which no setting ran is not charged to the budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fp8tune.trials.record import Record
from fp8tune.trials.trial import Trial


def trials_that_count(trials: Iterable[Trial], process: int) -> list[Trial]:
    """Return the trials that count for the process of this number."""
    return [t for t in trials if t.process == process or _is_lasting(t)]


def _is_lasting(trial: Trial) -> bool:
    """Whether a later process would see the same; the end of a budget is no fault."""
    return trial.record.meaning.lasts or trial.cut_off


def uncharged_seconds(trials: Sequence[Trial], process: int) -> float:
    """Return the seconds of earlier processes in which no setting ran."""
    charged = {trial.process for trial in trials if _is_lasting(trial)} | {process}
    return sum(t.record.cost_s for t in trials if t.process not in charged)


def retries_all(trials: Sequence[Trial], process: int) -> bool:
    """Whether the process of this number begins as if nothing had been tried."""
    return bool(trials) and not trials_that_count(trials, process)


def count_retried_settings(trials: Sequence[Trial], process: int) -> int:
    """Count the settings of which no trial counts for the process of this number."""
    known = {_setting(trial.record) for trial in trials_that_count(trials, process)}
    return len({_setting(trial.record) for trial in trials} - known)


def last_process(trials: Iterable[Trial]) -> int:
    """Return the number of the last process that has a trial."""
    return max((trial.process for trial in trials), default=0)


def without_repaired(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials without failures of settings that a later process could run."""
    last = {  # trials are in the order of their processes
        _setting(trial.record): trial.process
        for trial in trials
        if trial.record.meaning.lasts
    }
    return [
        trial
        for trial in trials
        if trial.record.meaning.lasts
        or trial.process >= last.get(_setting(trial.record), 0)
    ]


def _setting(record: Record) -> str:
    return repr(sorted(record.knobs.items()))
