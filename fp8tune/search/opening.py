"""A study opened for one search alone, with no trial in it that is none of its own."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Any

from fp8tune.search.lock import alone_in
from fp8tune.search.space import Space
from fp8tune.search.study import BadStudy, Study


def opened(folder: str, space: Space, about: dict[str, Any], held: ExitStack) -> Study:
    """The study of a search, for us alone until ``held`` is closed.

    Raises ``BadStudy`` and ``Busy``.
    """
    study = Study(folder)
    try:
        held.enter_context(alone_in(study.folder))
    except OSError as error:
        raise BadStudy(f"{error.filename}: {error.strerror}") from None
    study.open(about)
    _check_trials(study, space)
    return study


def _check_trials(study: Study, space: Space) -> None:
    """Raise ``BadStudy`` where a trial is none of this search's."""
    for trial in study.trials:
        try:
            space.point(trial.record.knobs)
        except KeyError as error:
            place = f"{os.path.join(study.folder, 'trials.jsonl')}:{trial.number + 1}"
            what = f"no setting of this search ({error}); remove the folder"
            raise BadStudy(f"{place}: {what}") from None
