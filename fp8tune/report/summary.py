"""Summarize studies in a few lines each, for `fp8tune studies`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fp8tune.report.data import StudyReport, headline, read_report
from fp8tune.search import CannotSearch
from fp8tune.search.budget import show_duration
from fp8tune.search.saved_study import load_study, names_in, stored_where
from fp8tune.studies import has_journal
from fp8tune.words import counted, plain


class Summary(NamedTuple):
    """A study and a short form of its report.

    ``folder`` is empty if only a storage has the study; ``place`` then says which, and
    where it was searched. ``state`` is in words, ``spent_s`` the time of its trials
    [s].
    """

    name: str
    folder: str
    config: str
    state: str
    trials: int
    spent_s: float
    answer: str
    place: str = ""


def summarize_all(folders: Sequence[str], url: str) -> Iterator[Summary | str]:
    """Yield the summary of each study, or why it cannot be read; changes nothing.

    ``folders`` are those of studies here. Those without a journal are in the storage
    ``url``, whose other studies come last. Raises ``CannotSearch`` if that does not
    answer.
    """
    stored = names_in(url) if url else []
    places = [(folder, "" if has_journal(folder) else url) for folder in folders]
    here = {os.path.basename(folder) for folder, place in places if place}
    every = [(*place, True) for place in places]
    every += [(name, url, False) for name in stored if name not in here]
    for folder, place, is_here in every:
        try:
            yield summarize(folder, place, is_here=is_here)
        except CannotSearch as error:
            yield str(error)


def summarize(folder: str, url: str = "", *, is_here: bool = True) -> Summary:
    """Return the summary of a study, of a name where only the storage ``url`` has it.

    Raises ``CannotSearch``.
    """
    study = load_study(folder, url)
    report = read_report(study)
    return Summary(
        study.name,
        folder if is_here else "",
        study.plan.config.typed_path,
        _state(report),
        len(study.trials),
        report.seconds,
        headline(report),
        "" if is_here else stored_where(url, study.about),
    )


STOPPED, INTERRUPTED = "stopped", "interrupted"
"""States in which the same command continues a search: it was killed; Ctrl-C ended
it."""


def _state(report: StudyReport) -> str:
    """Return how a search is doing; ``unknown`` where the file system has no locks."""
    if report.is_running:
        return "running"
    if report.output is None and report.is_running is None:
        return "unknown"
    if report.output is None:
        return STOPPED
    return INTERRUPTED if report.interrupted else "finished"


def text(summary: Summary) -> Iterator[str]:
    """Yield the lines of a study."""
    trials = counted(summary.trials, "trial")
    spent = show_duration(summary.spent_s)
    parts = (summary.config, summary.state, trials, spent)
    yield plain(f"{summary.name}  {', '.join(parts)}")
    yield plain(f"  {summary.answer}")
    if summary.place:
        yield plain(f"  in {summary.place}")


def as_json(summaries: list[Summary]) -> dict[str, Any]:
    """Return the studies as one object."""
    return {"version": 1, "studies": [each._asdict() for each in summaries]}
