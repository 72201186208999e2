"""A study opened for one search alone, with no trial in it that is none of its own."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress

from fp8tune.search.lock import alone_in
from fp8tune.search.storage import ELSEWHERE, NAME, BadStudy, check_file
from fp8tune.search.study import Study
from fp8tune.trials.space import Space

FILES = ("lock", NAME, f"{NAME}.bak")
"""What a search writes into."""


def opened(folder: str, space: Space, held: ExitStack, url: str = "") -> Study:
    """The study of a search, for us alone until ``held`` is closed.

    Raises ``BadStudy`` and ``Busy``.
    """
    _check_files(folder)
    try:
        held.enter_context(alone_in(folder))
    except OSError as error:
        where = f"{error.filename}: {error.strerror}"
        raise BadStudy(f"{where}; {ELSEWHERE}") from None
    study = Study(space, folder, url)
    _check_trials(study)
    return study


def _check_files(folder: str) -> None:
    """Raise ``BadStudy`` where a link leads out of a folder that others may have made.

    What is no file at all would keep a search waiting.
    """
    for name in FILES:
        path = os.path.join(folder, name)
        with suppress(FileNotFoundError, NotADirectoryError):
            check_file(path, os.lstat(path).st_mode)


def _check_trials(study: Study) -> None:
    """Raise ``BadStudy`` where a trial is none of this search's."""
    for trial in study.trials:
        try:
            study.space.point(trial.record.knobs)
        except KeyError as error:
            what = f"no setting of this search ({error}); remove the study"
            where = f"{study.place}: trial {trial.number + 1}"
            raise BadStudy(f"{where}: {what}") from None
