"""Write the tuned files of a job and the exported trials."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, TextIO

from fp8tune import atomic
from fp8tune.config.reader import Config
from fp8tune.formats.edits import unified_diff
from fp8tune.search import CannotSearch
from fp8tune.search.answer.answer import Answer
from fp8tune.search.answer.stored import next_commands
from fp8tune.search.description import Description
from fp8tune.search.linting import (
    aftermath,
    aftermath_of_job,
    check_tuned,
    with_measured,
)
from fp8tune.search.options import is_same, notes_path, tuned
from fp8tune.search.plan import Plan
from fp8tune.search.study import Study
from fp8tune.search.write.comments import choices, summary
from fp8tune.search.write.job_files import Name, Tuned, write_job
from fp8tune.search.write.places import MOST, names_of
from fp8tune.studies import EXPORT
from fp8tune.words import write_patch


class Written(NamedTuple):
    """The path of the tuned config, ``""`` if none was written, notes, and its text.

    ``others`` are the paths of the other files, and ``texts`` the texts of all by the
    files that they are versions of.
    """

    path: str
    notes: tuple[str, ...] = ()
    texts: Mapping[str, str] = {}
    others: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of all files that were written, the config first."""
        return (*filter(None, (self.path,)), *self.others)


def write_tuned(
    path: str,
    plan: Plan,
    outcome: Answer,
    name: str,
    about: Description,
    diff_to: TextIO | None,
) -> Written:
    """Write the tuned config to ``path``, if any value changes.

    With ``diff_to`` only the diff is written, there. Raises ``CannotSearch``.
    """
    config, chosen = plan.config, choices(plan, outcome)
    typed = config.typed_path
    if not chosen:
        if diff_to or is_same(path, typed) or not os.path.isfile(path):
            return Written("")
        left = f"{path} is from an earlier run; this run wrote no config"
        return Written("", (left,))
    messages = []
    own = is_same(path, typed) and not diff_to
    if own and (edited := _edited(config)):
        path = tuned(typed)
        left = f"{edited} was changed during the search, so it was not overwritten"
        messages.append(f"{left}: see {path}")
    source = f"{'replay' if about.is_replay else 'study'} {name}"
    names = names_of(path, plan)
    renamed = (lambda each: each) if diff_to else names
    files, _ = write_job(config, chosen, (), renamed)
    output = "" if diff_to or not files else names(files[0].path)
    commands = next_commands(plan, about, outcome, output)
    block = summary(plan, outcome, source, commands)
    files, after = write_job(config, chosen, block, renamed)
    check_tuned(config, after)
    if not (config.script or config.files):
        record, target = outcome.record, config.job.target
        files = [
            each._replace(
                after=with_measured(names(each.path), each.after, record, target)
            )
            for each in files
        ]
    texts = {file.path: file.after.decode() for file in files}
    messages += _findings(config, after, files, names)
    if diff_to:
        for file in files:
            patch = unified_diff(file.path, _before(config, file), file.after)
            write_patch(patch, diff_to)
        return Written("", tuple(messages), texts)
    written: list[str] = []
    for file in reversed(files):  # the one that names the others comes last
        written = [*_put_all(file, names(file.path)), *written]
    return Written(written[0], tuple(messages), texts, tuple(written[1:]))


def _findings(
    config: Config, after: Config, files: Sequence[Tuned], names: Name
) -> Iterator[str]:
    """Return lint's new findings in the tuned files."""
    if config.script or config.files:
        return aftermath_of_job(config, after, names)
    (alone,) = files
    target = config.job.target
    return aftermath(names(alone.path), config.data, alone.after, target)


def _before(config: Config, file: Tuned) -> bytes:
    """Return a file's bytes, without the overrides of the command line."""
    if not config.written:
        return file.before
    with open(file.path, "rb") as opened:
        return opened.read(MOST)


def _edited(config: Config) -> str:
    """Return a file of the job that was changed since it was read, ``""`` if none."""
    for path, data in config.bytes_by_path.items():
        try:
            with open(path, "rb") as file:
                if file.read(len(data) + 1) != data:
                    return path
        except OSError:
            return path
    return ""


def _put_all(file: Tuned, path: str) -> Iterator[str]:
    """Write a tuned file and its notes; yield their paths."""
    others = []
    if file.notes and not atomic.is_stream(path):
        others = [notes_path(path)]
        _put(others[0], file.notes, file.path)
    _put(path, file.after, file.path)
    yield from (path, *others)


def _put(path: str, data: bytes, config: str) -> None:
    """Write the tuned config with the config's permissions; raises ``CannotSearch``."""
    try:
        atomic.write(path, data, like=config if os.path.exists(config) else "")
    except OSError as error:
        raise CannotSearch(f"{path}: {error.strerror}") from None


def export_trials(study: Study, path: str) -> None:
    """Write the trials as JSON lines into the study's folder, and to ``path`` if asked.

    Raises ``CannotSearch``.
    """
    with suppress(OSError):  # the storage has the trials
        study.export(os.path.join(study.folder, EXPORT))
    if path:
        try:
            study.export(path)
        except OSError as error:
            raise CannotSearch(f"{path}: {error.strerror}") from None
