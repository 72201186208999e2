"""Failures of an earlier process, which may have been the machine's.

Data that cannot be read, no compiler, a hidden GPU: a user mends that and gives the
same command. So what does not tell of a setting itself does not bind a later process.
Where nothing has told anything yet, each process tries the user's config anew; once
something has, nothing counts that failed before. Later on a setting is tried anew by
one more process: what failed in two has failed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from fp8tune.search.cutoff import is_cut_off, never_began
from fp8tune.search.failed import wrong_data
from fp8tune.search.record import Record
from fp8tune.search.study import Trial

OWN = ("ok", "oom", "nan")
"""Outcomes that tell of a setting: the machine did its part."""


def in_vain(trials: Sequence[Trial], now: int) -> list[Trial]:
    """The trials of the processes before the first that told anything of a setting.

    As the process of number ``now`` sees it, which may be that one until its own first
    trial has failed too.
    """
    told = [trial.process for trial in trials if trial.record.outcome in OWN]
    begun = any(trial.process == now for trial in trials)
    first = min(told) if told else 0 if begun else now
    # what the end of a budget cut off shows no fault of the machine
    failed = {trial.process for trial in trials if not is_cut_off(trial.record)}
    return [t for t in trials if t.process < first and t.process in failed]


def lost_s(trials: Sequence[Trial], now: int) -> float:
    """The time of trials in vain, which no budget is charged with [s]."""
    return sum(trial.record.cost_s for trial in in_vain(trials, now))


def tries_anew(trials: Sequence[Trial], now: int) -> bool:
    """Whether the process of number ``now`` tries the user's config as if at first."""
    return bool(trials) and not counting(trials, now)


def left_out(trials: Sequence[Trial], now: int) -> int:
    """Settings that only trials tell of that do not count for a process."""
    known = {_setting(trial.record) for trial in counting(trials, now)}
    return len({_setting(trial.record) for trial in trials} - known)


def counting(trials: Sequence[Trial], now: int) -> list[Trial]:
    """The trials that count for the process of number ``now``."""
    vain = {trial.number for trial in in_vain(trials, now)}
    if all(trial.record.outcome not in OWN for trial in trials):
        return [trial for trial in trials if trial.number not in vain]
    runs = defaultdict(list)
    for trial in trials:
        runs[_setting(trial.record)].append(trial)
    return [
        trial
        for trial in trials
        if trial.number not in vain
        and (trial.process == now or not _may_pass(trial, runs[_setting(trial.record)]))
    ]


def latest(trials: Iterable[Trial]) -> int:
    """The number of the last process that has a trial."""
    return max((trial.process for trial in trials), default=0)


def _may_pass(trial: Trial, own: Sequence[Trial]) -> bool:
    """Whether a trial may end otherwise in a later process, by those of its setting."""
    record = trial.record
    if record.outcome in OWN or is_cut_off(record):
        return False
    if never_began(record) or wrong_data([record]):
        return True
    told = [other for other in own if other.record.outcome in OWN]
    if any(other.number < trial.number for other in told):
        return False
    again = [other for other in own if other.process > trial.process]
    lost = {t.process for t in own if t not in told and not is_cut_off(t.record)}
    return any(other in told for other in again) or lost == {trial.process}


def without_mended(records: Iterable[tuple[int, Record]]) -> list[Record]:
    """Records, each with its process, without failures that a later one refuted."""
    known = list(records)
    last: dict[str, int] = {}
    for process, record in known:
        if record.outcome in OWN:
            setting = _setting(record)
            last[setting] = max(process, last.get(setting, 0))
    return [
        record
        for process, record in known
        if record.outcome in OWN or process >= last.get(_setting(record), 0)
    ]


def _setting(record: Record) -> str:
    return repr(sorted(record.knobs.items()))
