"""A study opened for one search alone, with no trial in it that is none of its own."""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack, suppress
from typing import Any

from fp8tune.search.lock import alone_in
from fp8tune.search.space import Space
from fp8tune.search.study import BadStudy, Study

FILES = ("lock", "study.json", "trials.jsonl", "trials.jsonl.bak")
"""What a search writes into; Optuna's journal is made anew."""


def opened(folder: str, space: Space, about: dict[str, Any], held: ExitStack) -> Study:
    """The study of a search, for us alone until ``held`` is closed.

    Raises ``BadStudy`` and ``Busy``.
    """
    study = Study(folder)
    _check_files(folder)
    try:
        held.enter_context(alone_in(study.folder))
    except OSError as error:
        raise BadStudy(f"{error.filename}: {error.strerror}") from None
    study.open(about)
    _check_trials(study, space)
    return study


def _check_files(folder: str) -> None:
    """Raise ``BadStudy`` where a link leads out of a folder that others may have made.

    What is no file at all would keep a search waiting.
    """
    for name in FILES:
        path = os.path.join(folder, name)
        with suppress(FileNotFoundError, NotADirectoryError):
            mode = os.lstat(path).st_mode
            if not stat.S_ISREG(mode):
                odd = "a link" if stat.S_ISLNK(mode) else "no file"
                raise BadStudy(f"{path}: {odd}, which no search writes to; remove it")


def _check_trials(study: Study, space: Space) -> None:
    """Raise ``BadStudy`` where a trial is none of this search's."""
    for trial in study.trials:
        try:
            space.point(trial.record.knobs)
        except KeyError as error:
            place = f"{os.path.join(study.folder, 'trials.jsonl')}:{trial.number + 1}"
            what = f"no setting of this search ({error}); remove the folder"
            raise BadStudy(f"{place}: {what}") from None
