"""Write the tuned files of a job and the exported trials, and check their paths."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TextIO

from fp8tune import atomic
from fp8tune.config.reader import Config
from fp8tune.formats import TITLES, format_of
from fp8tune.formats.edits import unified_diff
from fp8tune.search import CannotSearch
from fp8tune.search.answer.answer import Answer
from fp8tune.search.answer.next_step import next_commands
from fp8tune.search.calibrate import NAME as CALIBRATION
from fp8tune.search.linting import (
    aftermath,
    aftermath_of_job,
    check_tuned,
    with_measured,
)
from fp8tune.search.options import SearchOptions, is_same, notes_path, tuned
from fp8tune.search.plan import Plan
from fp8tune.search.storage import LOCK
from fp8tune.search.study import EXPORT, Study
from fp8tune.search.write.comments import choices, summary
from fp8tune.search.write.job_files import Name, Tuned, changing, write_job
from fp8tune.search.write.writeback import MARK
from fp8tune.studies import JOURNAL

EVIDENCE = (JOURNAL, f"{JOURNAL}.bak", EXPORT, LOCK)
"""Files of a study's folder that no output may replace."""
MOST = 1 << 20
"""What is read of a file that may be replaced [bytes]."""


def check_outputs(options: SearchOptions) -> None:
    """Raise ``CannotSearch`` if an output of a search cannot be written.

    This is checked before the search, so that no result is lost.
    """
    path, other = options.tuned_path, tuned(options.config)
    form = format_of(options.config)
    if options.output and format_of(path) != form and not atomic.is_stream(path):
        what = f"{options.config} is {TITLES[form]}, and so is its tuned version"
        raise CannotSearch(f"--output {path}: {what}")
    if options.overrides and is_same(path, options.config):
        meant = f"overrides are not written into the config itself: {other} gets them"
        raise CannotSearch(f"{path}: {meant} without --in-place and --output")
    read = {options.records: "the records"} if options.records else {}
    if not options.diff:
        check_place(path)
        if not (options.in_place or options.output):
            _check_own(path)
        _check_notes(path)
        check_apart(path, read, tuned(other) if is_same(path, other) else other)
    if options.export:
        read |= {options.config: "the config", path: "the tuned config"}
        check_place(options.export)
        beside = f"{os.path.splitext(options.config)[0]}.jsonl"
        check_apart(options.export, read, beside)


def check_files(options: SearchOptions, plan: Plan) -> None:
    """Raise ``CannotSearch`` if another file of the job could not be written.

    These are the files that some value of a knob would change.
    """
    if options.diff:
        return
    names = _names(options.tuned_path, plan.config)
    for path in changing(plan.config, _written_keys(plan), names):
        if not is_same(path, options.config):
            check_place(names(path))
            if names(path) != path:
                _check_own(names(path))
            _check_notes(names(path))


def _written_keys(plan: Plan) -> Iterator[str]:
    """Yield the config keys that a search may write."""
    knobs = plan.config.trainer.knobs
    for key in plan.free_keys:
        listed = knobs[key].keys if key in knobs else {}
        yield from (name for keys in listed.values() for name in keys)
        if not listed:
            yield key


def check_place(path: str) -> None:
    """Raise ``CannotSearch`` if a file cannot be written."""
    if atomic.is_stream(path):
        return
    place = os.path.realpath(path)
    folder = os.path.dirname(place)
    if os.path.isdir(place):
        raise CannotSearch(f"{path}: Is a directory")
    if not os.path.isdir(folder):
        raise CannotSearch(f"{path}: no folder {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CannotSearch(f"{path}: no permission to write in {folder}")


def _check_own(path: str) -> None:
    """Raise ``CannotSearch`` if the default path has a file that no search wrote."""
    with suppress(OSError), open(path, "rb") as file:
        if MARK.encode() not in file.read(MOST) and not _has_own_notes(path):
            raise CannotSearch(
                f"{path} exists and no search wrote it: move it, or name another "
                "path with --output"
            )


def _check_notes(path: str) -> None:
    """Raise ``CannotSearch`` if notes would replace a file that no search wrote."""
    if format_of(path) == "json" and not atomic.is_stream(path):
        _check_own(notes_path(path))


def _has_own_notes(path: str) -> bool:
    """Return whether a search wrote the notes beside a file without comments."""
    with suppress(OSError), open(notes_path(path), "rb") as file:
        return format_of(path) == "json" and MARK.encode() in file.read(MOST)
    return False


def check_apart(path: str, read: Mapping[str, str], other: str) -> None:
    """Raise ``CannotSearch`` if an output would replace one of its inputs.

    ``read`` maps each input file to what it is; ``other`` is a path to suggest instead.
    An output must not replace the trials of any study either.
    """
    what = next((what for file, what in read.items() if is_same(path, file)), "")
    if what or _is_evidence(path):
        lost = what or "what trials have measured"
        raise CannotSearch(f"{path}: this would replace {lost}; try --output {other}")


def _is_evidence(path: str) -> bool:
    place = os.path.realpath(path)
    folder, name = os.path.split(place)
    if name == CALIBRATION:
        return os.path.exists(place)
    return name in EVIDENCE and os.path.exists(os.path.join(folder, JOURNAL))


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
    about: Mapping[str, Any],
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
    source = f"{'replay' if 'records' in about else 'study'} {name}"
    names = _names(path, config)
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
            diff_to.write(unified_diff(file.path, _before(config, file), file.after))
        return Written("", tuple(messages), texts)
    written: list[str] = []
    for file in reversed(files):  # the one that names the others comes last
        written = [*_put_all(file, names(file.path)), *written]
    return Written(written[0], tuple(messages), texts, tuple(written[1:]))


def _names(path: str, config: Config) -> Name:
    """Return where each file is written if the one that is typed goes to ``path``."""
    in_place = is_same(path, config.typed_path)

    def name(other: str) -> str:
        if is_same(other, config.typed_path):
            return path
        return other if in_place else tuned(other)

    return name


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
