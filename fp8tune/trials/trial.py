"""A trial: a record with its place in the study, and whether it still counts.

A user may fix the machine and run the same command again. So a trial that failed for a
reason other than memory or NaN counts only in the process that ran it. A process in
which no setting ran is not charged to the budget.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from fp8tune.trials.record import Record, from_data, is_number, load

STAGES = ("baseline", "bf16-baseline", "search", "confirm", "stability")
"""Why a trial was run: the user's config, the same in bf16, the search itself, the
confirmation at its end, or to compare what FP8 and bf16 learn."""
FINAL_STAGES = ("confirm", "stability")
"""Stages after which the search proposes nothing new."""


class Trial(NamedTuple):
    """A record with its place in the study.

    ``number`` is the trial's number in Optuna, from 0, as users see it; a lost trial
    leaves a gap. ``position`` counts the trials that its worker ran before it. How
    close two runs are is measured by ``position``, so that neither a lost trial nor
    other workers change a decision.

    ``process`` is the number of the process that ran the trial, from 0: how often the
    study had been continued. A trial is ``cut_off`` if the budget ended before it did;
    it then says nothing about its setting. ``budget_s`` is set if a search with a
    larger budget would have continued differently: for a trial that was stopped at its
    deadline, and for trials after which the search proposed nothing new. For the latter
    ``searched_all`` says whether nothing was left to propose.

    ``worker`` names the GPU and machine that ran it, and ``at_s`` is the search time at
    which it was planned [s], if trials ran at the same time; else ``""`` and ``None``.
    """

    number: int
    stage: str
    record: Record
    process: int = 0
    cut_off: bool = False
    budget_s: float = math.inf
    searched_all: bool | None = None
    position: int = 0
    worker: str = ""
    at_s: float | None = None

    @property
    def is_of_budget(self) -> bool:
        """Whether a search with a larger budget would have continued differently."""
        return self.budget_s < math.inf

    @property
    def was_given_up(self) -> bool:
        """Whether a search with a larger budget retries its setting."""
        return self.stage == "search" and self.is_of_budget

    def was_cut_short(self, budget_s: float) -> bool:
        """Return whether it was stopped early for a budget below ``budget_s`` [s]."""
        given_up = self.stage not in FINAL_STAGES or self.cut_off
        return given_up and self.budget_s < budget_s

    def data(self) -> dict[str, Any]:
        """Return the trial's JSON object: its record and its place in the study."""
        fields = self._asdict()
        del fields["record"], fields["number"], fields["position"]
        place = {
            name: value
            for name, value in fields.items()
            if name == "stage" or value != self._field_defaults[name]
        }
        return {**self.record.data(), "trial": self.number, **place}


def parse_trial(number: int, line: str) -> Trial:
    """Parse a line of a study; raises ``BadRecord``."""
    return trial_from_data(number, load(line))


def trial_from_data(number: int, fields: dict[str, Any]) -> Trial:
    """Return the trial in a JSON object; raises ``BadRecord``."""
    data = dict(fields)
    data.pop("trial", None)
    stage, process = data.pop("stage", "search"), data.pop("process", 0)
    budget, cut_off = data.pop("budget_s", None), data.pop("cut_off", False)
    searched_all = data.pop("searched_all", None)
    worker, at_s = data.pop("worker", ""), data.pop("at_s", None)
    return Trial(
        number,
        stage if stage in STAGES else "search",
        from_data(data),
        process if type(process) is int and process > 0 else 0,
        cut_off is True,
        float(budget) if is_number(budget) else math.inf,
        searched_all if isinstance(searched_all, bool) else None,
        position=number,
        worker=worker[:200] if isinstance(worker, str) else "",
        at_s=float(at_s) if is_number(at_s) else None,
    )


def timed(trials: Iterable[Trial]) -> list[Trial]:
    """Return the trials that measure speed: all but loss runs."""
    return [trial for trial in trials if trial.stage != "stability"]


def trials_that_count(
    trials: Iterable[Trial], process: int, budget_s: float = 0.0
) -> list[Trial]:
    """Return the trials that count for the process of this number, with this budget."""
    return [
        trial
        for trial in trials
        if (trial.process == process or _is_lasting(trial))
        and not trial.was_cut_short(budget_s)
    ]


def _is_lasting(trial: Trial) -> bool:
    """Return whether a later process would see the same outcome."""
    return trial.record.meaning.lasts or trial.cut_off


def seconds_spent(trials: Iterable[Trial]) -> float:
    """Return the wall time of trials [s]; those that ran at the same time share it.

    Only trials of one process ran at the same time: the next one begins with the time
    that all before it took.
    """
    alone, begun = 0.0, []
    for trial in trials:
        if trial.at_s is None:
            alone += trial.record.cost_s
        else:
            last = trial.at_s + trial.record.cost_s
            begun.append((trial.process, trial.at_s, last))
    together, before, end = 0.0, -1, -math.inf
    for process, start, last in sorted(begun):
        end = end if process == before else -math.inf
        together += max(0.0, last - max(start, end))
        before, end = process, max(end, last)
    return alone + together


def uncharged_seconds(trials: Sequence[Trial], process: int) -> float:
    """Return the time of earlier processes in which no setting ran [s]."""
    charged = {trial.process for trial in trials if _is_lasting(trial)} | {process}
    return seconds_spent(t for t in trials if t.process not in charged)


def charged_seconds(trials: Sequence[Trial]) -> float:
    """Return the time that a study's trials took of its budget [s]."""
    return seconds_spent(trials) - uncharged_seconds(trials, last_process(trials))


def retries_all(trials: Sequence[Trial], process: int) -> bool:
    """Return whether the process of this number starts as if nothing had been tried."""
    return bool(trials) and not trials_that_count(trials, process)


def count_retried_settings(trials: Sequence[Trial], process: int) -> int:
    """Count the settings of which no trial counts for the process of this number."""
    known = {_setting(trial.record) for trial in trials_that_count(trials, process)}
    return len({_setting(trial.record) for trial in trials} - known)


def last_process(trials: Iterable[Trial]) -> int:
    """Return the number of the last process that has a trial."""
    return max((trial.process for trial in trials), default=0)


def trials_that_counted(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials that count for the last process, with the largest budget."""
    budget_s = max((t.budget_s for t in trials if t.is_of_budget), default=0.0)
    return trials_that_count(trials, last_process(trials), budget_s)


def without_repaired(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials without failures of settings that ran in a later process."""
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
