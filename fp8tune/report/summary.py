"""Summarize studies in two lines each, for `fp8tune studies`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from fp8tune.lint.wording import counted, plain
from fp8tune.report.data import Report, headline, read_report
from fp8tune.search.budget import show_duration
from fp8tune.search.saved_study import load_study
from fp8tune.studies import has_journal
from fp8tune.trials.trial import seconds_spent


class Summary(NamedTuple):
    """A study's folder and a short form of its report.

    ``state`` is ``running``, ``finished``, ``stopped`` (the same command continues
    it) or ``unknown``, where the file system has no locks. ``spent_s`` is the time of
    its trials [s].
    """

    folder: str
    config: str
    state: str
    trials: int
    spent_s: float
    answer: str


def summarize(folder: str, url: str = "") -> Summary:
    """Read a study without changing anything in it; raises ``CannotSearch``.

    ``url`` is the storage of the studies that have no journal.
    """
    study = load_study(folder, "" if has_journal(folder) else url)
    report = read_report(study)
    return Summary(
        folder,
        study.plan.config.path,
        _state(report),
        len(study.trials),
        seconds_spent(study.trials),
        headline(report),
    )


def _state(report: Report) -> str:
    if report.is_running or report.output is None:
        return {True: "running", False: "stopped", None: "unknown"}[report.is_running]
    return "finished"


def text(summary: Summary) -> Iterator[str]:
    """Yield the two lines of a study."""
    name = os.path.basename(summary.folder)
    trials = counted(summary.trials, "trial")
    spent = show_duration(summary.spent_s)
    parts = (summary.config, summary.state, trials, spent)
    yield plain(f"{name}  {', '.join(parts)}")
    yield plain(f"  {summary.answer}")


def as_json(summaries: list[Summary]) -> dict[str, Any]:
    """Return the studies as one object."""
    return {"version": 1, "studies": [each._asdict() for each in summaries]}
