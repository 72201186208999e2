"""Which trials count after a failure, and which settings need no further trial.

A user repairs the machine and gives the same command again. A trial that failed for a
reason other than memory or NaN counts only in the process that ran it. A process in
which no setting ran is not charged to the budget.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from fp8tune.trials.record import Record
from fp8tune.trials.space import Point, Space
from fp8tune.trials.trial import Trial

HOPELESS = 2
"""If so many trials of a cell fail for what no batch changes and none runs, its other
batches are not tried."""


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


def needs_no_trial(
    space: Space, runs: Sequence[tuple[Point, Record]]
) -> Callable[[Point], bool]:
    """Return a function that tells whether a setting needs no further trial.

    It needs none if it had one, unless the failure may pass; if a smaller batch of the
    same cell ran out of memory or nearly did; and if the cell never runs.
    """
    tried: dict[Point, list[Record]] = defaultdict(list)
    limits: dict[Point, float] = {}
    hopeless = _hopeless_cells(space, runs)
    for point, record in runs:
        tried[point].append(record)
        batch = space.batch(point)
        if batch and (record.outcome == "oom" or record.memory_shortage):
            cell = space.cell(point)
            limits[cell] = min(limits.get(cell, math.inf), batch)

    def is_done(point: Point) -> bool:
        records = tried.get(point, [])
        again = len(records) == 1 and records[0].meaning.may_pass
        if records and not again:
            return True
        cell = space.cell(point)
        return cell in hopeless or space.batch(point) >= limits.get(cell, math.inf)

    return is_done


def _hopeless_cells(space: Space, runs: Sequence[tuple[Point, Record]]) -> set[Point]:
    """Return the cells in which nothing runs, whatever the batch."""
    ran = {space.cell(point) for point, record in runs if record.ok}
    failures = Counter(
        space.cell(point)
        for point, record in runs
        if not (record.ok or record.outcome == "oom" or record.meaning.may_pass)
    )
    cells = {cell for cell, count in failures.items() if count >= HOPELESS}
    return cells - ran if space.has_batches else set()
