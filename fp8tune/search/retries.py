"""Which failed trials count: a user repairs the machine and gives the same command.

A trial that failed for a reason other than memory or NaN counts only in the process
that ran it. A process in which no setting ran is not charged to the budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fp8tune.trials.record import Record
from fp8tune.trials.trial import Trial

OF_SETTING = ("ok", "oom", "nan")
"""Outcomes that depend on the setting: the machine did its part."""


def counting(trials: Iterable[Trial], now: int) -> list[Trial]:
    """The trials that count for the process of number ``now``."""
    return [t for t in trials if t.process == now or _is_lasting(t)]


def _is_lasting(trial: Trial) -> bool:
    """Whether a later process would see the same; the end of a budget is no fault."""
    return trial.record.outcome in OF_SETTING or trial.cut_off


def uncharged_s(trials: Sequence[Trial], now: int) -> float:
    """Seconds of earlier processes in which no setting ran."""
    charged = {trial.process for trial in trials if _is_lasting(trial)} | {now}
    return sum(t.record.cost_s for t in trials if t.process not in charged)


def retries_all(trials: Sequence[Trial], now: int) -> bool:
    """Whether the process of number ``now`` begins as if nothing had been tried."""
    return bool(trials) and not counting(trials, now)


def retried_settings(trials: Sequence[Trial], now: int) -> int:
    """How many settings only have trials that do not count for a process."""
    known = {_setting(trial.record) for trial in counting(trials, now)}
    return len({_setting(trial.record) for trial in trials} - known)


def latest(trials: Iterable[Trial]) -> int:
    """The number of the last process that has a trial."""
    return max((trial.process for trial in trials), default=0)


def without_repaired(trials: Sequence[Trial]) -> list[Trial]:
    """The trials without failures of settings that a later process could run."""
    last: dict[str, int] = {}
    for trial in trials:
        if trial.record.outcome in OF_SETTING:
            setting = _setting(trial.record)
            last[setting] = max(trial.process, last.get(setting, 0))
    return [
        trial
        for trial in trials
        if trial.record.outcome in OF_SETTING
        or trial.process >= last.get(_setting(trial.record), 0)
    ]


def _setting(record: Record) -> str:
    return repr(sorted(record.knobs.items()))
